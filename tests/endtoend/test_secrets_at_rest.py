"""Passwords that are set while the broker runs: in no byte of its directory, in no line that it says."""

import base64
import os
import secrets
import stat
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from broker.protocol.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from broker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from broker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from broker.server.disk.stores import METADATA_FILE
from tests.support.broker_process import LOGIN_MODULE, SASL, USERS, WEIR, BrokerProcess
from tests.support.certificates import PASSWORD, certificates
from tests.support.wire import connect

pytestmark = pytest.mark.endtoend

FIRST: Final = "hunter2-of-the-first-change"
SECOND: Final = "hunter2-of-the-second-change"
TRAIL: Final = "/api/v1/audit?kind=broker-config"
KEY_PASSWORD: Final = "ssl.key.password"
ALL_REQUESTS: Final = "request.log.apis=*"


def alter(broker: BrokerProcess, **settings: str | None) -> None:
    """By the Kafka protocol; None takes a setting back."""
    entries = [
        ConfigEntry(
            key,
            value or "",
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for key, value in settings.items()
    ]
    admin = AdminClient({"bootstrap.servers": broker.plain})
    (done,) = admin.incremental_alter_configs(
        [ConfigResource(ResourceType.BROKER, "1", incremental_configs=entries)]
    ).values()
    done.result(10)


def users(password: str) -> str:
    return f'{LOGIN_MODULE} user_carol="{password}";'


def holding(folder: Path, *texts: str) -> set[str]:
    files = [each for each in folder.rglob("*") if each.is_file()]
    assert METADATA_FILE in {each.name for each in files}
    return {each.name for each in files if any(text.encode() in each.read_bytes() for text in texts)}


def log_text(broker: BrokerProcess) -> str:
    """All that the broker answers about its settings and its trail, and writes to its log."""
    paths = (
        TRAIL,
        "/api/v1/audit:export",
        "/api/v1/broker-configs",
        "/api/v1/client-quotas:export",
        "/metrics",
    )
    answers = [str(broker.ask("GET", path)) for path in paths]
    admin = AdminClient({"bootstrap.servers": broker.plain})
    (described,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values()
    answers.append(str({name: entry.value for name, entry in described.result(10).items()}))
    return "".join((*answers, *broker.log_lines))


def refused_start(directory: Path, *settings: str) -> str:
    done = subprocess.run(
        [
            *(
                WEIR,
                "serve",
                f"--override=log.dirs={directory}",
                "--override=listeners=PLAINTEXT://127.0.0.1:0",
            ),
            *("--override=console.listener=127.0.0.1:0", *(f"--override={each}" for each in settings)),
        ],
        capture_output=True,
        text=True,
        timeout=30,
        env=os.environ,
        check=False,
    )
    assert done.returncode == 1
    return done.stderr


def test_no_byte_on_disk_and_no_answer_reveals_a_password_that_was_set(tmp_path: Path) -> None:
    data, locked = tmp_path / "data", certificates().locked
    broker = BrokerProcess(data, ALL_REQUESTS)
    with broker:
        alter(broker, **{SASL: users(FIRST)})
        alter(
            broker,
            **{SASL: users(SECOND), "ssl.keystore.key": locked.key.read_text(), KEY_PASSWORD: PASSWORD},
        )
        hidden = ("hunter2", PASSWORD, locked.key.read_text().splitlines()[3])
        assert holding(data, *hidden) == set(), "while it runs"
        assert not [each for each in hidden if each in log_text(broker)]
        broker.kill()
        assert holding(data, *hidden) == set(), "after a crash"
        broker.start()
        client = AdminClient(
            {
                "bootstrap.servers": broker.sasl,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "carol",
                "sasl.password": SECOND,
            }
        )
        assert client.list_topics(timeout=10).brokers, "it is what a restart reads"
        assert not [each for each in hidden if each in log_text(broker)]
        alter(broker, **{SASL: None, "ssl.keystore.key": None, KEY_PASSWORD: None})
    assert holding(data, *hidden) == set(), "after a stop"


def test_keys_are_replaced_and_a_missing_one_stops_the_start_in_a_sentence(tmp_path: Path) -> None:
    data, first, second = tmp_path / "data", tmp_path / "first.key", tmp_path / "second.key"
    for each in (first, second):
        each.touch(0o600)
        each.write_bytes(base64.b64encode(secrets.token_bytes(32)))
    with BrokerProcess(data, f"config.secret.key.file={first}") as broker:
        alter(broker, **{SASL: users(FIRST)})
    output = refused_start(data, f"config.secret.key.file={second}")
    assert str(second) in output and SASL in output and "config.secret.old.key.file" in output
    assert "Traceback" not in output and "hunter2" not in output
    both = (f"config.secret.key.file={second}", f"config.secret.old.key.file={first}")
    with BrokerProcess(data, *both):
        pass
    first.unlink()
    with BrokerProcess(data, f"config.secret.key.file={second}") as broker:
        assert "carol" not in log_text(broker)
        assert [row["new"] for row in broker.ask("GET", TRAIL)["items"]] == ["(secret)"]


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_all_that_the_broker_keeps_is_its_users_and_groups_whatever_the_umask(
    tmp_path: Path, umask: int
) -> None:
    data = tmp_path / "data"
    before = os.umask(umask)
    try:
        with BrokerProcess(data, ALL_REQUESTS) as broker:
            AdminClient({"bootstrap.servers": broker.plain}).list_topics(timeout=10)
            alter(broker, **{SASL: users(FIRST)})
    finally:
        os.umask(before)
    modes = {each.relative_to(data): stat.S_IMODE(each.stat().st_mode) for each in (data, *data.rglob("*"))}
    assert len(modes) > 5
    open_to_others = {path: oct(mode) for path, mode in modes.items() if mode & 0o027}
    assert open_to_others == {}


async def test_no_byte_on_disk_and_no_answer_reveals_a_delegation_token_which_outlives_a_crash(
    tmp_path: Path,
) -> None:
    data, key = tmp_path / "data", "a-key-that-nothing-shows"
    broker = BrokerProcess(data, ALL_REQUESTS, f"delegation.token.secret.key={key}")
    login = SaslAuthenticateRequest(f"\0alice\0{USERS['alice']}".encode())

    async def ask(message: Any) -> Any:
        client = await connect(int(broker.sasl.rpartition(":")[2]))
        async with client.stream:
            assert (await client.ask(SaslHandshakeRequest("PLAIN"), 1)).error_code == 0
            assert (await client.ask(login, 2)).error_code == 0
            answer = await client.ask(message, 2)
        assert answer.error_code == 0
        return answer

    await trio.to_thread.run_sync(broker.start)
    try:
        token = await ask(CreateDelegationTokenRequest(max_lifetime_ms=-1))
        hmac = bytes(token.hmac)
        hidden = (key, hmac.hex(), base64.b64encode(hmac).decode())
        await trio.to_thread.run_sync(broker.kill)
        assert holding(data, *hidden) == set(), "after a crash"
        await trio.to_thread.run_sync(broker.start)
        (seen,) = (await ask(DescribeDelegationTokenRequest(None))).tokens
        assert (seen.token_id, bytes(seen.hmac)) == (token.token_id, hmac)
        await ask(RenewDelegationTokenRequest(hmac, -1))
        text = await trio.to_thread.run_sync(log_text, broker)
        trail = await trio.to_thread.run_sync(broker.ask, "GET", "/api/v1/audit?kind=delegation-token")
        assert token.token_id in str(trail)
        assert not [each for each in hidden if each in text + str(trail)]
    finally:
        await trio.to_thread.run_sync(broker.stop)
    assert holding(data, *hidden) == set(), "after a stop"


async def challenge(port: int, mechanism: str, name: str) -> dict[str, str]:
    client = await connect(port)
    async with client.stream:
        assert (await client.ask(SaslHandshakeRequest(mechanism), 1)).error_code == 0
        answer = await client.ask(SaslAuthenticateRequest(f"n,,n={name},r=client".encode()), 2)
        assert answer.error_code == 0
    parts: Any = dict(part.split("=", 1) for part in bytes(answer.auth_bytes).decode().split(","))
    return {"salt": parts["s"], "iterations": parts["i"]}


async def test_a_scram_challenge_does_not_distinguish_known_users_from_unknown_ones_over_a_restart(
    tmp_path: Path,
) -> None:
    mechanism, iterations = "SCRAM-SHA-256", 8_192
    broker = BrokerProcess(tmp_path / "data", f"sasl.enabled.mechanisms={mechanism}")

    def make_users() -> None:
        admin = AdminClient({"bootstrap.servers": broker.plain})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, iterations)
        for number in range(3):
            made = UserScramCredentialUpsertion(f"user-{number}", info, b"secret")
            for future in admin.alter_user_scram_credentials([made]).values():
                future.result(10)

    async def challenges() -> dict[str, dict[str, str]]:
        port = int(broker.sasl.rpartition(":")[2])
        names = [*(f"user-{number}" for number in range(3)), *(f"nobody-{number}" for number in range(5))]
        return {name: await challenge(port, mechanism, name) for name in names}

    await trio.to_thread.run_sync(broker.start)
    try:
        await trio.to_thread.run_sync(make_users)
        before = await challenges()
        assert await challenges() == before, "over reconnects"
        await trio.to_thread.run_sync(broker.stop)
        await trio.to_thread.run_sync(broker.start)
        assert await challenges() == before, "over restarts"
    finally:
        await trio.to_thread.run_sync(broker.stop)
    assert {each["iterations"] for each in before.values()} == {str(iterations)}
    assert len({len(each["salt"]) for each in before.values()}) == 1
    assert len({each["salt"] for each in before.values()}) == len(before)

"""Clients that the gateway logs in, each with its own principal at the upstream broker, whose ACLs decide."""

import hashlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.common.errors import ErrorCode
from broker.controller.commands import (
    AlterUserScramCredentials,
    CreateAcls,
    ScramDeletion,
    ScramUpsertion,
)
from broker.gateway.revocations import CHECK_EVERY_S
from broker.gateway.upstream.tokens import SETTLED_MS, WATCH_EVERY_MS, TokenPrincipals
from broker.metadata.actor import BROKER_ITSELF
from broker.protocol.messages.delegation_tokens import ExpireDelegationTokenRequest
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from broker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from broker.security.acl.acl import Acl, Operation, ResourceType
from broker.security.client_login import SCRAM_MODULE, ClientCredentials
from broker.security.plain import PLAIN_MODULE
from tests.controller.world import AUTHORIZER
from tests.gateway.test_renewals import alter
from tests.security.acl.acls import allow
from tests.support.produce import batch_of, create_topic, produce_request
from tests.support.running import RunningBroker, running_broker
from tests.support.running_gateway import RunningGateway, running_gateway
from tests.support.wire import WireClient

NAMES = ("alice", "bob", "carol")
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
PLAIN_KEY = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
DAY_MS = 86_400_000
REFUSED = "cannot log a client in upstream as its own principal"


def users(*names: str) -> str:
    return f"{PLAIN_MODULE} required " + " ".join(f'user_{name}="{name}-secret"' for name in names) + ";"


@dataclass
class Setup:
    broker: RunningBroker
    gateway: RunningGateway
    file: Path
    settings: tuple[str, ...]
    clients: dict[str, WireClient] = field(default_factory=dict)

    async def connect(self, name: str, mechanism: str = "PLAIN") -> WireClient:
        """Log in at the gateway."""
        client = self.clients[name] = await self.gateway.connect()
        assert (await client.ask(SaslHandshakeRequest(mechanism), 1)).error_code == 0
        if mechanism == "PLAIN":
            reply = await client.ask(SaslAuthenticateRequest(f"\0{name}\0{name}-secret".encode()), 2)
        else:
            login = ClientCredentials(mechanism, name, f"{name}-secret").login()
            first = await client.ask(SaslAuthenticateRequest(login.first()), 2)
            proof = login.answer(bytes(first.auth_bytes))
            assert proof is not None
            reply = await client.ask(SaslAuthenticateRequest(proof), 2)
        assert reply.error_code == 0
        return client

    async def direct(self, name: str) -> WireClient:
        """Log in at the broker."""
        client = await self.broker.connect()
        assert (await client.ask(SaslHandshakeRequest("PLAIN"), 1)).error_code == 0
        reply = await client.ask(SaslAuthenticateRequest(f"\0{name}\0{name}-secret".encode()), 2)
        assert reply.error_code == 0
        return client

    async def grant(self, *acls: Acl) -> None:
        outcomes = await self.broker.server.control.apply(CreateAcls(acls), BROKER_ITSELF)
        assert all(each.ok for each in outcomes)

    @property
    def owners(self) -> list[str]:
        """The owners of the tokens at the broker."""
        return sorted(each.owner for each in self.broker.server.control.image.delegation_tokens.values())

    async def expire(self, owner: str) -> None:
        """Expire a user's tokens, as an administrator."""
        tokens = self.broker.server.control.image.delegation_tokens
        (token_id,) = [token_id for token_id, each in tokens.items() if each.owner == f"User:{owner}"]
        root = await self.direct(owner)
        hmac = self.broker.server.tokens.hmac(token_id)
        assert (await root.ask(ExpireDelegationTokenRequest(hmac, -1), 2)).error_code == 0


@asynccontextmanager
async def setup(
    tmp_path: Path,
    mode: str = "delegation-token",
    *own: str,
    super_users: str = "User:weir;User:root",
    expiry_ms: int = DAY_MS,
) -> AsyncIterator[Setup]:
    file = tmp_path / "principals.properties"
    write(file, *NAMES)
    (tmp_path / "broker").mkdir()
    upstream = (
        AUTHORIZER,
        f"super.users={super_users}",
        "listeners=SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512",
        f"{PLAIN_KEY}={users('weir', 'root', *NAMES)}",
        "delegation.token.secret.key=a key of the tests",
        f"delegation.token.expiry.time.ms={expiry_ms}",
        f"delegation.token.max.lifetime.ms={expiry_ms * 5 // 2}",
    )
    settings = (
        "listeners=SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
        f"{PLAIN_KEY}={users(*NAMES)}",
        "gateway.authentication=gateway",
        "wire.role=admin",
        f"gateway.upstream.principal={mode}",
        *((f"gateway.upstream.principal.map.location={file}",) if mode == "map" else ()),
        "upstream.security.protocol=SASL_PLAINTEXT",
        "upstream.sasl.mechanism=PLAIN",
        f'upstream.sasl.jaas.config={PLAIN_MODULE} required username="weir" password="weir-secret";',
        *own,
    )
    async with (
        running_broker(tmp_path / "broker", *upstream) as broker,
        running_gateway(tmp_path / "gateway", broker.port, *settings) as gateway,
    ):
        found = Setup(broker, gateway, file, settings)
        root = await found.direct("root")
        assert (await root.ask(create_topic(), 5)).topics[0].error_code == 0
        await found.grant(allow(Operation.WRITE, "events"))
        yield found


def write(file: Path, *names: str) -> None:
    file.write_text(
        "".join(
            f'{name}={PLAIN_MODULE} required username="{name}" password="{name}-secret";\n' for name in names
        )
    )


async def produce(client: WireClient) -> int:
    answer = await client.ask(produce_request(batch_of(b"x")), 9)
    return int(answer.responses[0].partition_responses[0].error_code)


async def described(client: WireClient) -> int:
    request = MetadataRequest([MetadataRequestTopic(name="events")], allow_auto_topic_creation=False)
    return int((await client.ask(request, 9)).topics[0].error_code)


async def pass_s(clock: MockClock, seconds: float) -> None:
    clock.jump(seconds)
    await wait_all_tasks_blocked(0.02)


def lines(caplog: pytest.LogCaptureFixture, text: str) -> list[Any]:
    return [each for each in caplog.records if text in each.message]


@pytest.mark.parametrize(
    ("mode", "of_bob"), [("gateway", ErrorCode.NONE), ("delegation-token", DENIED), ("map", DENIED)]
)
async def test_the_acls_of_each_client_decide(tmp_path: Path, mode: str, of_bob: ErrorCode) -> None:
    async with setup(tmp_path, mode) as found:
        alice, bob = await found.connect("alice"), await found.connect("bob")
        assert await produce(alice) == await described(alice) == ErrorCode.NONE
        assert await produce(bob) == await described(bob) == of_bob
        assert found.owners == (["User:alice", "User:bob"] if mode == "delegation-token" else [])
        await found.grant(allow(Operation.WRITE, "events", principal="User:bob"))
        assert await produce(bob) == ErrorCode.NONE


async def test_connections_of_one_user_share_a_token(tmp_path: Path) -> None:
    async with setup(tmp_path) as found:
        for client in [await found.connect("alice") for _ in range(3)]:
            assert await produce(client) == ErrorCode.NONE
        assert found.owners == ["User:alice"]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "SCRAM-SHA-256"])
async def test_a_node_without_the_mechanism_of_the_tokens_is_named(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture, mechanism: str
) -> None:
    """The gateway's own login by SCRAM-SHA-256 would fail before."""
    async with setup(tmp_path) as found:
        principals = found.gateway.server._principals
        assert isinstance(principals, TokenPrincipals)
        if mechanism == "SCRAM-SHA-256":
            upstream = found.gateway.server.config.upstream
            principals.configure(replace(upstream, sasl_mechanism=mechanism))
        alice = await found.connect("alice")
        if mechanism == "SCRAM-SHA-512":
            assert await produce(alice) == ErrorCode.NONE
            return
        mock_clock.autojump_threshold = 0.05
        await alice.send(produce_request(batch_of(b"x")), 9)
        assert await alice.is_closed()
        (line,) = lines(caplog, REFUSED)
        assert "does not accept SCRAM-SHA-256; it accepts PLAIN, SCRAM-SHA-512" in cast(Any, line).reason


async def test_a_user_for_whom_the_gateway_may_make_no_token_is_refused_alone(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with setup(tmp_path, super_users="User:root") as found:
        create = allow(Operation.CREATE_TOKENS, "User:alice", principal="User:weir", kind=ResourceType.USER)
        await found.grant(create)
        alice, bob = await found.connect("alice"), await found.connect("bob")
        assert await produce(alice) == ErrorCode.NONE
        await bob.send(produce_request(batch_of(b"x")), 9)
        await wait_all_tasks_blocked(0.05)
        (line,) = lines(caplog, REFUSED)
        assert line.principal == "User:bob"
        assert line.reason.endswith(
            "kafka-acls.sh --add --allow-principal User:weir --operation CreateTokens "
            "--user-principal User:bob"
        )
        # It closes after upstream.metadata.max.age.ms; nobody else waits for longer.
        await pass_s(mock_clock, 4.999)
        assert len(found.gateway.channels()) == 2
        await pass_s(mock_clock, 0.001)
        assert await bob.is_closed()
        assert await produce(alice) == ErrorCode.NONE
        assert await produce(await found.connect("alice")) == ErrorCode.NONE


async def test_a_login_is_renewed_with_renewed_and_replaced_tokens_on_one_connection(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """Tokens of 40 s, of at most 100 s: 300 s are several of them."""
    async with setup(tmp_path, expiry_ms=40_000) as found:
        alice = await found.connect("alice")
        (channel,) = found.gateway.channels()
        made: set[str] = set()
        for _ in range(150):
            assert await produce(alice) == ErrorCode.NONE
            made |= found.broker.server.control.image.delegation_tokens.keys()
            # A thread writes what has changed: a shorter wait could miss it.
            await wait_all_tasks_blocked(0.1)
            mock_clock.jump(2)
        assert found.gateway.channels() == [channel]
        assert 3 <= len(made) <= 6


async def test_the_connections_of_a_removed_user_close_within_15_seconds(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with setup(tmp_path) as found:
        alice, bob = await found.connect("alice"), await found.connect("bob")
        assert await produce(alice) == ErrorCode.NONE
        assert await produce(bob) == DENIED
        await pass_s(mock_clock, 2 * CHECK_EVERY_S)
        assert len(found.gateway.channels()) == 2
        outcome = await alter(found.gateway.server, {PLAIN_KEY: users("alice", "carol")})
        assert outcome.ok
        await pass_s(mock_clock, CHECK_EVERY_S)
        assert await bob.is_closed()
        assert await produce(alice) == ErrorCode.NONE
        while found.owners != ["User:alice"]:  # a thread writes that the token has been expired
            await trio.lowlevel.checkpoint()
        assert [each.principal for each in lines(caplog, "a client's connections were closed")] == [
            "User:bob"
        ]


@pytest.mark.parametrize("mode", ["gateway", "delegation-token", "map"])
async def test_a_removed_scram_user_is_out_unless_all_are_the_gateway(
    tmp_path: Path, mock_clock: MockClock, mode: str
) -> None:
    async with setup(tmp_path, mode) as found:
        control = found.gateway.server.control
        salted = hashlib.pbkdf2_hmac("sha256", b"alice-secret", b"salt", 4_096)
        added = ScramUpsertion("alice", 1, 4_096, b"salt", salted)
        await control.apply(AlterUserScramCredentials((added,)), BROKER_ITSELF)
        by_scram, by_plain = await found.connect("alice", "SCRAM-SHA-256"), await found.connect("alice")
        for client in (by_scram, by_plain):
            assert await produce(client) == ErrorCode.NONE
        await control.apply(AlterUserScramCredentials((ScramDeletion("alice", 1),)), BROKER_ITSELF)
        await pass_s(mock_clock, CHECK_EVERY_S)
        if mode == "gateway":
            assert await produce(by_scram) == ErrorCode.NONE
        else:
            assert await by_scram.is_closed()
        assert await produce(by_plain) == ErrorCode.NONE


async def test_the_owner_of_an_expired_token_is_out_within_20_seconds(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with setup(tmp_path) as found:
        alice, bob = await found.connect("alice"), await found.connect("bob")
        assert await produce(alice) == ErrorCode.NONE
        assert await produce(bob) == DENIED
        await pass_s(mock_clock, SETTLED_MS / 1_000)
        await found.expire("alice")
        await pass_s(mock_clock, WATCH_EVERY_MS / 1_000)
        assert await alice.is_closed()
        assert await produce(bob) == DENIED
        again = await found.connect("alice")
        await again.send(produce_request(batch_of(b"x")), 9)
        await wait_all_tasks_blocked(0.05)
        await pass_s(mock_clock, 5)
        assert await again.is_closed()
        assert found.owners == ["User:bob"]
        assert lines(caplog, REFUSED)[0].reason == "its delegation token was expired at the cluster"


async def test_a_principal_that_leaves_the_map_is_out_within_a_second(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with setup(tmp_path, "map") as found:
        alice, bob = await found.connect("alice"), await found.connect("bob")
        assert await produce(alice) == ErrorCode.NONE
        assert await produce(bob) == DENIED
        write(found.file, "alice")
        mock_clock.jump(1)
        assert await bob.is_closed()
        assert await produce(alice) == ErrorCode.NONE
        again = await found.connect("bob")
        await again.send(produce_request(batch_of(b"x")), 9)
        await wait_all_tasks_blocked(0.05)
        await pass_s(mock_clock, 5)
        assert await again.is_closed()
        write(found.file, "alice", "bob")
        await pass_s(mock_clock, 1)
        with trio.fail_after(10):
            assert await produce(await found.connect("bob")) == DENIED


async def test_a_wrong_password_in_the_map_concerns_its_principal_alone(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with setup(tmp_path, "map") as found:
        text = found.file.read_text().replace("bob-secret", "wrong-secret")
        found.file.write_text(text)
        caplog.set_level(logging.INFO)
        await pass_s(mock_clock, 1)
        while not lines(caplog, "credentials of principals read again"):
            await trio.lowlevel.checkpoint()
        alice, bob = await found.connect("alice"), await found.connect("bob")
        await bob.send(produce_request(batch_of(b"x")), 9)
        await wait_all_tasks_blocked(0.05)
        mock_clock.autojump_threshold = 0.05
        assert await bob.is_closed()
        assert await produce(alice) == ErrorCode.NONE
        (line,) = lines(caplog, REFUSED)
        assert line.principal == "User:bob" and "Authentication failed" in line.reason
        assert not lines(caplog, "refuses the gateway's credentials")
        assert "secret" not in caplog.text


async def test_a_mechanism_that_the_map_does_not_have_is_refused(tmp_path: Path) -> None:
    async with setup(tmp_path, "map") as found:
        change = {
            "upstream.sasl.mechanism": "SCRAM-SHA-512",
            "upstream.sasl.jaas.config": f'{SCRAM_MODULE} required username="weir" password="weir-secret";',
        }
        outcome = await alter(found.gateway.server, change)
        assert not outcome.ok and "gateway.upstream.principal.map.location" in str(outcome.message)
        assert await produce(await found.connect("alice")) == ErrorCode.NONE


async def test_a_restart_reads_the_map_for_the_mechanism_that_the_console_has_set(tmp_path: Path) -> None:
    login = f'{SCRAM_MODULE} required username="alice" password="alice-secret";'
    async with setup(tmp_path, "map") as found:
        found.file.write_text(f"alice={login}\n")
        change = {"upstream.sasl.mechanism": "SCRAM-SHA-512", "upstream.sasl.jaas.config": login}
        assert (await alter(found.gateway.server, change)).ok
    again = running_gateway(tmp_path / "gateway", 9, *found.settings, finds_cluster=False)
    async with again as gateway:
        credentials = await gateway.server._principals.credentials("alice")
        assert credentials is not None and credentials.mechanism == "SCRAM-SHA-512"

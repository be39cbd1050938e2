"""Logins whose tokens have no request around them: SaslHandshake 0."""

import hashlib
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from broker.protocol.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from broker.security.client_login import ClientCredentials
from tests.network.automq.frames import AUTOMQ
from tests.support.certificates import certificates, tls_settings
from tests.support.hostile import framed, is_served, log_texts, request
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

BEFORE_LOGIN = 524_288
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS = (
    "listeners=SASL_PLAINTEXT://127.0.0.1:0",
    f'listener.name.sasl_plaintext.plain.sasl.jaas.config={PLAIN} user_alice="secret";',
)
GOOD = b"\0alice\0secret"
BAD = b"\0alice\0wrong"


@pytest.fixture(params=[(), (AUTOMQ,)], ids=["kafka", "automq"])
async def broker(
    request: pytest.FixtureRequest, tmp_path: Path, mock_clock: MockClock
) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, *request.param, *SETTINGS) as running:
        yield running


async def shaken(broker: RunningBroker, mechanism: str = "PLAIN") -> WireClient:
    client = await broker.connect()
    assert (await client.ask(SaslHandshakeRequest(mechanism), 0)).error_code == 0
    return client


async def answered(client: WireClient, token: bytes) -> bytes:
    await client.stream.send_all(framed(token))
    return await client.receive_frame()


async def is_refused(client: WireClient, clock: MockClock) -> bool:
    """Whether the broker closes the connection, after the delay and without a byte."""
    await wait_all_tasks_blocked(0.01)
    clock.jump(0.1)
    return await client.is_closed()


async def test_a_token_is_answered_with_a_token_and_the_client_is_served(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await shaken(broker)
    assert await answered(client, GOOD) == b""
    assert await is_served(client)
    [channel] = broker.server.socket_server.channels()
    assert (channel.principal, channel.sends_raw_tokens) == ("alice", False)


async def test_what_is_sent_behind_the_tokens_is_read_after_the_login(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    handshake = request(17, 0, struct.pack(">h", 5) + b"PLAIN")
    await client.stream.send_all(handshake + framed(GOOD) + request(18, 0, b""))
    assert (await client.receive(17, 0))[1].error_code == 0
    assert await client.receive_frame() == b""
    assert (await client.receive(18, 0))[1].error_code == 0


@pytest.mark.parametrize("token", [BAD, b"", b"short", struct.pack(">hhih", 3, 0, 1, -1) + bytes(4)])
async def test_a_bad_token_ends_the_connection_without_an_answer(
    broker: RunningBroker, mock_clock: MockClock, caplog: pytest.LogCaptureFixture, token: bytes
) -> None:
    caplog.set_level("INFO")
    client = await shaken(broker)
    await client.stream.send_all(framed(token))
    assert await is_refused(client, mock_clock)
    assert log_texts(caplog) == ["the login failed"]


async def test_a_failed_login_ends_after_the_delay_and_not_before(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await shaken(broker)
    await client.stream.send_all(framed(BAD) + framed(GOOD))
    await wait_all_tasks_blocked(0.01)
    mock_clock.jump(0.099)
    await wait_all_tasks_blocked(0.01)
    [channel] = broker.server.socket_server.channels()
    assert not channel.authenticated
    mock_clock.jump(0.001)
    assert await client.is_closed()


@pytest.mark.parametrize("size", [BEFORE_LOGIN - 1, BEFORE_LOGIN])
async def test_a_token_up_to_the_limit_is_read(
    broker: RunningBroker, mock_clock: MockClock, caplog: pytest.LogCaptureFixture, size: int
) -> None:
    caplog.set_level("INFO")
    client = await shaken(broker)
    await client.stream.send_all(framed(bytes(size)))
    assert await is_refused(client, mock_clock)
    assert log_texts(caplog) == ["the login failed"]


async def test_a_token_above_the_limit_is_not(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture, mock_clock: MockClock
) -> None:
    client = await shaken(broker)
    await client.stream.send_all(struct.pack(">i", BEFORE_LOGIN + 1))
    assert await client.is_closed()
    assert log_texts(caplog) == [f"Invalid receive (size = {BEFORE_LOGIN + 1} larger than {BEFORE_LOGIN})"]


async def test_an_unknown_mechanism_is_answered_and_begins_no_tokens(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    reply = await client.ask(SaslHandshakeRequest("GSSAPI"), 0)
    assert (reply.error_code, reply.mechanisms) == (33, ["PLAIN"])
    await client.stream.send_all(framed(GOOD))
    assert await is_refused(client, mock_clock)


async def test_scram_takes_two_tokens(tmp_path: Path) -> None:
    mechanisms = "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256"
    async with running_broker(tmp_path, *SETTINGS, mechanisms, "wire.role=admin") as broker:
        admin = await shaken(broker)
        await answered(admin, GOOD)
        salted = hashlib.pbkdf2_hmac("sha256", b"long enough", b"salt", 4096)
        ann = ScramCredentialUpsertion(
            "ann", mechanism=1, iterations=4096, salt=b"salt", salted_password=salted
        )
        reply = await admin.ask(AlterUserScramCredentialsRequest(upsertions=[ann]), 0)
        assert reply.results[0].error_code == 0
        client = await shaken(broker, "SCRAM-SHA-256")
        login = ClientCredentials("SCRAM-SHA-256", "ann", "long enough").login()
        proof = login.answer(await answered(client, login.first()))
        assert proof is not None
        assert login.answer(await answered(client, proof)) is None
        assert await is_served(client)


async def test_a_login_that_ends_is_renewed_by_tokens(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path, *SETTINGS, "connections.max.reauth.ms=1500") as broker:
        client = await shaken(broker)
        await answered(client, GOOD)
        mock_clock.jump(1.4)
        assert (await client.ask(SaslHandshakeRequest("PLAIN"), 0)).error_code == 0
        assert await answered(client, GOOD) == b""
        mock_clock.jump(1.4)
        assert await is_served(client)
        mock_clock.jump(0.2)
        await client.send(ApiVersionsRequest(), 0)
        assert await client.is_closed()


async def test_over_tls_a_good_token_is_answered_and_a_bad_one_ends_the_connection(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    users = SETTINGS[1].replace("sasl_plaintext", "sasl_ssl")
    async with running_broker(tmp_path, *tls_settings("SASL_SSL"), users) as broker:
        context = certificates().client_context()
        good, bad = await broker.connect_tls(context), await broker.connect_tls(context)
        for client in (good, bad):
            assert (await client.ask(SaslHandshakeRequest("PLAIN"), 0)).error_code == 0
        assert await answered(good, GOOD) == b""
        await bad.stream.send_all(framed(BAD))
        await wait_all_tasks_blocked(0.01)
        mock_clock.jump(0.1)
        with pytest.raises(EOFError):
            await bad.receive_frame()
        assert await is_served(good)

"""Limits per address on unauthenticated connections, with a whole broker and real sockets."""

import hashlib
import logging
import ssl
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.network.unauthenticated import HANDSHAKE_FRAMES, LOGIN_FRAMES
from broker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from broker.quotas.unauthenticated import BURST_S, BYTE_RATE, CONNECTIONS, FRAME_RATE
from tests.network.test_login import MODULE, log_in
from tests.support.certificates import certificates, tls_settings
from tests.support.hostile import is_served
from tests.support.live import alter_through, takes_effect
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import OPENED, WireClient

SASL = (
    "listeners=SASL_PLAINTEXT://127.0.0.1:0",
    f'listener.name.sasl_plaintext.plain.sasl.jaas.config={MODULE} user_alice="secret";',
    "connection.authentication.timeout.ms=60000",
    "wire.role=admin",
)
OTHER = "127.0.0.2"
FRAMES_OF_A_LOGIN = 2


WAYS = {
    "kafka": "socket.server.mode=kafka",
    "automq": "socket.server.mode=automq",
    "leased": "queued.max.request.bytes=104857600",
}


@pytest.fixture(params=WAYS)
async def broker(
    request: pytest.FixtureRequest, tmp_path: Path, mock_clock: MockClock
) -> AsyncIterator[RunningBroker]:
    limits = (f"{FRAME_RATE}=3", f"{CONNECTIONS}=4", f"{BYTE_RATE}=1024")
    async with running_broker(tmp_path, *SASL, *limits, WAYS[request.param]) as running:
        yield running


async def connected(broker: RunningBroker, source: str = "127.0.0.1") -> WireClient:
    stream = await trio.open_tcp_stream("127.0.0.1", broker.port, local_address=source)
    OPENED.append(stream)
    client = WireClient(stream, "test")
    broker.clients.append(client)
    await wait_all_tasks_blocked(0.01)
    return client


async def is_open(client: WireClient, broker: RunningBroker) -> bool:
    await wait_all_tasks_blocked(0.01)
    mine = client.stream.socket.getsockname()
    return mine in {(each.address, each.port) for each in broker.server.socket_server.channels()}


def rejected(broker: RunningBroker) -> dict[str, int]:
    return broker.server.socket_server.gate.quotas.listeners["SASL_PLAINTEXT"].rejected


# Requests


async def logged_in(broker: RunningBroker, source: str = "127.0.0.1") -> WireClient:
    client = await connected(broker, source)
    assert await log_in(client, b"secret") == 0
    return client


async def test_an_address_logs_in_as_often_as_its_rate_allows_and_another_is_not_concerned(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    for _ in range(3 * BURST_S // FRAMES_OF_A_LOGIN):
        await logged_in(broker)
    late = await connected(broker)
    await late.send(SaslHandshakeRequest("PLAIN"), 1)
    assert not await is_open(late, broker)
    assert rejected(broker) == {FRAME_RATE: 1}
    assert await is_served(await logged_in(broker, OTHER))
    mock_clock.jump(0.333)
    late = await connected(broker)
    await late.send(SaslHandshakeRequest("PLAIN"), 1)
    assert not await is_open(late, broker)
    mock_clock.jump(0.001)
    # One request is let in; the login goes on, though its address owes for it.
    assert await is_served(await logged_in(broker))
    assert rejected(broker) == {FRAME_RATE: 2}


@pytest.mark.parametrize("frames", [LOGIN_FRAMES, LOGIN_FRAMES + 1])
async def test_a_login_that_has_begun_has_eight_requests_in_any_case(
    broker: RunningBroker, frames: int, mock_clock: MockClock
) -> None:
    client = await connected(broker)
    assert (await client.ask(SaslHandshakeRequest("PLAIN"), 1)).error_code == 0
    broker.server.socket_server.gate.unauthenticated.add_frames(
        "127.0.0.1", 3 * BURST_S - 1, broker.server.clock.ms()
    )
    for _ in range(frames - 1):
        await client.send(SaslHandshakeRequest("PLAIN"), 1)
        await wait_all_tasks_blocked(0.01)
    assert await is_open(client, broker) is (frames == LOGIN_FRAMES)


async def test_a_client_that_has_logged_in_sends_what_it_likes(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await logged_in(broker)
    for _ in range(3 * BURST_S + 10):
        assert await is_served(client)
    assert rejected(broker) == {}


# Bytes


@pytest.mark.parametrize(("size", "stays"), [(10_239, True), (10_240, True), (10_241, False)])
async def test_an_address_sends_as_many_bytes_as_its_rate_allows(
    broker: RunningBroker, size: int, stays: bool, mock_clock: MockClock
) -> None:
    # A request that is announced and does not become whole.
    client = await connected(broker)
    await client.stream.send_all(struct.pack(">i", 100_000) + bytes(size - 4))
    assert await is_open(client, broker) is stays
    assert rejected(broker) == ({} if stays else {BYTE_RATE: 1})
    other = await connected(broker, OTHER)
    await other.stream.send_all(struct.pack(">i", 100_000) + bytes(5_000))
    assert await is_open(other, broker)


async def test_time_pays_for_bytes(broker: RunningBroker, mock_clock: MockClock) -> None:
    client = await connected(broker)
    await client.stream.send_all(struct.pack(">i", 100_000) + bytes(10_236))
    assert await is_open(client, broker)
    mock_clock.jump(1.0)
    await client.stream.send_all(bytes(1_024))
    assert await is_open(client, broker)
    await client.stream.send_all(b"1")
    assert not await is_open(client, broker)


# Connections


@pytest.mark.parametrize(("count", "first_is_open"), [(3, True), (4, True), (5, False)])
async def test_of_too_many_that_say_nothing_the_eldest_is_evicted(
    broker: RunningBroker, count: int, first_is_open: bool, mock_clock: MockClock
) -> None:
    other = await connected(broker, OTHER)
    silent = [await connected(broker) for _ in range(count)]
    assert await is_open(silent[0], broker) is first_is_open
    for client in (other, *silent[1:]):
        assert await is_open(client, broker)
    assert await log_in(silent[-1], b"secret") == 0


async def test_a_client_that_has_logged_in_is_not_counted_and_is_not_evicted(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    clients = [await logged_in(broker) for _ in range(10)]
    for client in clients:
        assert await is_open(client, broker)
    assert rejected(broker) == {}


async def test_a_thousand_silent_connections_keep_no_client_of_their_address_out(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path, *SASL, f"{CONNECTIONS}=50") as broker:
        for _ in range(200):
            stream = await trio.open_tcp_stream("127.0.0.1", broker.port)
            OPENED.append(stream)
        await wait_all_tasks_blocked(0.01)
        assert len(list(broker.server.socket_server.channels())) == 50
        assert await is_served(await logged_in(broker))


@takes_effect(
    "max.unauthenticated.connections.per.ip",
    "max.unauthenticated.byte.rate.per.ip",
    "max.unauthenticated.frame.rate.per.ip",
)
async def test_the_limits_change_while_the_broker_runs(broker: RunningBroker, mock_clock: MockClock) -> None:
    operator = await logged_in(broker, OTHER)
    assert await alter_through(operator, {CONNECTIONS: "1", BYTE_RATE: "2048", FRAME_RATE: "2"}) == (0, None)
    silent = [await connected(broker) for _ in range(2)]
    assert [await is_open(client, broker) for client in silent] == [False, True]
    await silent[1].stream.send_all(struct.pack(">i", 100_000) + bytes(20_476))
    assert await is_open(silent[1], broker)
    await silent[1].stream.send_all(b"1")
    assert not await is_open(silent[1], broker)
    assert await alter_through(operator, {BYTE_RATE: "100000"}) == (0, None)
    for _ in range(2 * BURST_S // FRAMES_OF_A_LOGIN):
        await logged_in(broker)
    late = await connected(broker)
    await late.send(SaslHandshakeRequest("PLAIN"), 1)
    assert not await is_open(late, broker)


async def test_closed_ones_are_forgotten(broker: RunningBroker, mock_clock: MockClock) -> None:
    unauthenticated = broker.server.socket_server.resources
    for _ in range(3):
        client = await connected(broker)
        await client.stream.aclose()
        await wait_all_tasks_blocked(0.01)
    assert [each.unauthenticated._open for each in unauthenticated.values()] == [{}]


async def test_a_burst_of_refusals_is_one_line(
    broker: RunningBroker, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    broker.server.socket_server.gate.unauthenticated.add_frames(
        "127.0.0.1", 3 * BURST_S, broker.server.clock.ms()
    )
    for _ in range(5):
        client = await connected(broker)
        await client.send(SaslHandshakeRequest("PLAIN"), 1)
        assert not await is_open(client, broker)
    mock_clock.jump(1.0)
    await wait_all_tasks_blocked(0.01)
    lines = [record.getMessage() for record in caplog.records if "127.0.0.1" in record.getMessage()]
    assert lines == [
        "Rejected connection from 127.0.0.1, address sends more than the configured maximum of 3 requests "
        "per second before a login"
    ]


# TLS


async def test_a_handshake_counts_for_four_requests_and_its_bytes_count(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    settings = [each for each in tls_settings() if not each.startswith("ssl.client")]
    async with running_broker(tmp_path, *settings, f"{FRAME_RATE}=1", f"{BYTE_RATE}=1048576") as broker:
        context = certificates().client_context()
        for _ in range(BURST_S // HANDSHAKE_FRAMES):
            assert await is_served(await broker.connect_tls(context))
        quotas = broker.server.socket_server.gate.unauthenticated
        sent = quotas._sent["127.0.0.1"]
        assert sent.frames == BURST_S // HANDSHAKE_FRAMES * HANDSHAKE_FRAMES * 1_000 and sent.bytes > 0
        with pytest.raises((trio.BrokenResourceError, ssl.SSLError)):
            await broker.connect_tls(context)


# What a guess costs


async def test_no_key_is_derived_from_a_password_for_a_plain_login(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    def derive(*_: object, **__: object) -> bytes:
        raise AssertionError("a login has derived a key from a password")

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", derive)
    monkeypatch.setattr(hashlib, "scrypt", derive)
    client = await connected(broker)
    assert await log_in(client, b"secret") == 0
    wrong = await connected(broker)
    assert await log_in(wrong, b"wrong") == 58
    mock_clock.jump(0.1)
    assert not await is_open(wrong, broker)

"""Unauthenticated connections: allowed requests, and the end of a failed login."""

import logging
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.protocol.messages.metadata import MetadataRequest
from broker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from broker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.hostile import framed, is_served, log_texts, request
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

BEFORE_LOGIN = 524_288
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(
        tmp_path,
        "listeners=SASL_PLAINTEXT://127.0.0.1:0",
        f'listener.name.sasl_plaintext.plain.sasl.jaas.config={MODULE} user_alice="secret";',
    ) as running:
        yield running


async def log_in(client: WireClient, password: bytes) -> int:
    assert (await client.ask(SaslHandshakeRequest("PLAIN"), 1)).error_code == 0
    return int((await client.ask(SaslAuthenticateRequest(b"\0alice\0" + password), 2)).error_code)


async def is_closed_now(client: WireClient, broker: RunningBroker) -> bool:
    await wait_all_tasks_blocked(0.01)
    port = client.stream.socket.getsockname()[1]
    return port not in {channel.port for channel in broker.server.socket_server.channels()}


async def test_a_client_that_has_logged_in_is_served(broker: RunningBroker, mock_clock: MockClock) -> None:
    client = await broker.connect()
    assert await log_in(client, b"secret") == 0
    assert await is_served(client)


async def test_nothing_else_is_answered_before(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    await client.send(MetadataRequest([]), 9)
    assert await client.is_closed()
    assert log_texts(caplog) == ["Metadata before authentication"]


@pytest.mark.parametrize("size", [BEFORE_LOGIN - 1, BEFORE_LOGIN])
async def test_a_frame_up_to_the_smaller_limit_is_read_before(
    broker: RunningBroker, size: int, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    head = struct.pack(">hhih", 18, 99, 1, 0)
    await client.stream.send_all(framed(head + bytes(size - len(head))))
    assert (await client.receive(18, 0))[1].error_code == 35


async def test_a_frame_above_the_smaller_limit_is_not(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    await client.stream.send_all(struct.pack(">i", BEFORE_LOGIN + 1))
    assert await client.is_closed()
    assert log_texts(caplog) == [f"Invalid receive (size = {BEFORE_LOGIN + 1} larger than {BEFORE_LOGIN})"]


async def test_a_login_lifts_the_smaller_limit(broker: RunningBroker, mock_clock: MockClock) -> None:
    client = await broker.connect()
    assert await log_in(client, b"secret") == 0
    await client.stream.send_all(request(18, 99, bytes(BEFORE_LOGIN)))
    assert (await client.receive(18, 0))[1].error_code == 35


async def test_a_failed_login_is_reported_at_once_and_closed_after_the_delay(
    broker: RunningBroker, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    client, other = await broker.connect(), await broker.connect()
    assert await log_in(client, b"wrong") == 58
    mock_clock.jump(0.099)
    assert not await is_closed_now(client, broker)
    assert await log_in(other, b"secret") == 0
    mock_clock.jump(0.001)
    assert await is_closed_now(client, broker)
    assert log_texts(caplog) == ["the login failed"]
    assert await is_served(other)


async def test_nothing_is_read_from_a_failed_login_any_more(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    assert await log_in(client, b"wrong") == 58
    await client.send(SaslAuthenticateRequest(b"\0alice\0secret"), 2)
    await wait_all_tasks_blocked(0.01)
    mock_clock.jump(0.1)
    assert await client.is_closed()

"""Requests behind a login are admitted only after it succeeds, even if they are already buffered."""

import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from broker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.network.automq.frames import AUTOMQ, channel_of, correlation_ids, encoded, numbered
from tests.support.hostile import is_served
from tests.support.machine_speed import WITHIN_S
from tests.support.running import RunningBroker, running_broker

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(
        tmp_path,
        AUTOMQ,
        "listeners=SASL_PLAINTEXT://127.0.0.1:0",
        f'listener.name.sasl_plaintext.plain.sasl.jaas.config={MODULE} user_alice="secret";',
    ) as running:
        yield running


def login(password: bytes) -> bytes:
    """Versions, mechanism and password, as ids 1 to 3."""
    return (
        numbered(18, 0, 1, b"")
        + encoded(SaslHandshakeRequest("PLAIN"), 1, 2)
        + encoded(SaslAuthenticateRequest(b"\0alice\0" + password), 2, 3)
    )


def metadata(correlation_id: int) -> bytes:
    return numbered(3, 1, correlation_id, struct.pack(">i", 0))


async def test_requests_sent_with_the_login_are_answered_after_it(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    await client.stream.send_all(login(b"secret") + b"".join(map(metadata, range(4, 20))))
    assert await correlation_ids(client, 19) == list(range(1, 20))
    assert channel_of(broker, client).principal == "alice"
    assert await is_served(client)


async def test_requests_sent_with_a_failed_login_are_never_read(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    await client.stream.send_all(login(b"wrong") + b"".join(map(metadata, range(4, 20))))
    assert await correlation_ids(client, 3) == [1, 2, 3]
    await wait_all_tasks_blocked(0.02)
    assert channel_of(broker, client).requests == 3
    mock_clock.jump(0.1)
    assert await client.is_closed()


async def test_a_request_before_the_login_ends_the_connection_and_what_is_behind_it(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    await client.stream.send_all(numbered(18, 0, 1, b"") + metadata(2) + login(b"secret"))
    assert await correlation_ids(client, 1) == [1]
    with trio.fail_after(WITHIN_S):
        assert await client.is_closed()

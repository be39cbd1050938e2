"""The order in which connections beyond max.connections close. (Kafka:
SelectorTest.testLowestPriorityChannel)
"""

import logging
import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from trio.testing import MockClock

from broker.network.acceptor.connection_gate import is_closing
from broker.quotas.entity import Entity
from tests.network.test_pipelining import encoded, stored
from tests.support.connections import (
    EXTERNAL,
    PLAINTEXT,
    channel_of,
    open_to,
    opened,
    passes,
    served,
    settle,
    two_listeners,
)
from tests.support.hostile import is_served, log_texts
from tests.support.live import alter_through
from tests.support.produce import batch_of, create_topic, produce_request, produce_request_of
from tests.support.running import RunningBroker
from tests.support.wire import CLIENT_ID, WireClient


@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with two_listeners(tmp_path) as running:
        yield running


async def limit(operator: WireClient, most: int) -> None:
    """The operator's own connection is one of them; its listener is the protected one."""
    assert await alter_through(operator, {"max.connections": str(most)}) == (0, None)
    await settle()


def remaining(broker: RunningBroker, clients: list[WireClient]) -> list[int]:
    return [number for number, each in enumerate(clients) if channel_of(broker, each) is not None]


async def test_the_least_recently_used_goes_first_and_the_others_in_the_order_of_their_use(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    (operator,) = await opened(broker, 1, PLAINTEXT)
    clients = await opened(broker, 5)
    for number in (4, 3, 1, 0):
        await passes(mock_clock, 0.001)
        assert await is_served(clients[number])
    assert remaining(broker, clients) == [0, 1, 2, 3, 4]
    for most, left in ((6, [0, 1, 2, 3, 4]), (5, [0, 1, 3, 4]), (4, [0, 1, 3]), (3, [0, 1]), (2, [0])):
        await limit(operator, most)
        assert remaining(broker, clients) == left
    assert await is_served(clients[0])


async def held_for_a_second(broker: RunningBroker) -> WireClient:
    """Return a client that is throttled for a second, and is closing after `tear_off`."""
    broker.server.quotas.apply(Entity(client_id=CLIENT_ID), "producer_byte_rate", 1_000)
    client = await open_to(broker, EXTERNAL)
    assert (await client.ask(produce_request_of(2_000, CLIENT_ID), 9)).throttle_time_ms == 1_000
    return client


async def tear_off(client: WireClient) -> None:
    """Reset the connection behind a request of acks=0, which is served after the throttle of a second."""
    await client.stream.send_all(encoded(produce_request(batch_of(b"last words"), acks=0), 9, 7))
    client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await client.stream.aclose()
    await settle()


@pytest.mark.parametrize("torn_off", [True, False])
async def test_a_closing_one_goes_before_the_least_recently_used(
    broker: RunningBroker, mock_clock: MockClock, caplog: pytest.LogCaptureFixture, torn_off: bool
) -> None:
    """The closing connection was used last; otherwise it would stay."""
    caplog.set_level(logging.INFO)
    (operator,) = await opened(broker, 1, PLAINTEXT)
    assert (await operator.ask(create_topic(), 5)).topics[0].error_code == 0
    clients = await opened(broker, 3)
    await passes(mock_clock, 0.001)
    delayed = await held_for_a_second(broker)
    held_channel = channel_of(broker, delayed)
    assert held_channel is not None
    if torn_off:
        await tear_off(delayed)
    assert is_closing(held_channel) is torn_off
    assert broker.server.connections.total == 5
    await limit(operator, 4)
    assert held_channel.closed is torn_off
    assert remaining(broker, clients) == ([0, 1, 2] if torn_off else [1, 2])
    which = "closing" if torn_off else "least recently used"
    assert log_texts(caplog)[-1] == f"{which}, beyond max.connections"
    await limit(operator, 3)
    assert remaining(broker, clients) == ([1, 2] if torn_off else [2])


async def test_a_closing_one_that_is_not_too_many_is_served_to_its_end(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    (operator,) = await opened(broker, 1, PLAINTEXT)
    assert (await operator.ask(create_topic(), 5)).topics[0].error_code == 0
    delayed = await held_for_a_second(broker)
    before = stored(broker)
    await tear_off(delayed)
    await limit(operator, 2)
    assert broker.server.connections.total == 2
    await passes(mock_clock, 1)
    assert stored(broker) == before + 1
    assert broker.server.connections.total == 1


async def test_a_closing_one_of_the_protected_listener_stays(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    operator, *inner = await opened(broker, 2, PLAINTEXT)
    outer = await opened(broker, 2)
    (channel,) = [each for each in (channel_of(broker, client) for client in inner) if each is not None]
    (selector,) = [each for name, each in broker.server.socket_server.selectors() if name == PLAINTEXT]
    selector.stop_watching(channel)
    await limit(operator, 3)
    assert not channel.closed
    assert served(broker, outer) == 1

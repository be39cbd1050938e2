"""Connections that the peer has reset: requests already received are served if they expect no response, and a
response that cannot be delivered closes the connection.
"""

import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.common.errors import BrokerBug
from broker.network.connection.send import Send
from broker.network.requests.request_channel import Request, ResponseSend
from broker.protocol import codec
from broker.protocol.messages.metadata import MetadataRequest
from broker.quotas.entity import Entity
from tests.network.test_pipelining import encoded, stored
from tests.support.hostile import is_served
from tests.support.produce import batch_of, create_topic, produce_request, produce_request_of
from tests.support.rig import unused_route
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

HELD = "held"
SILENT = encoded(produce_request(batch_of(b"last words"), acks=0), 9, 7)


# Every test asks for the mock clock itself: a fixture's clock does not become the run's.
@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path) as running:
        maker = await running.connect("maker")
        assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
        running.server.quotas.apply(Entity(client_id=HELD), "producer_byte_rate", 1_000)
        yield running


async def held_client(broker: RunningBroker) -> WireClient:
    """Return a client that is throttled for exactly one second."""
    client = await broker.connect(HELD)
    assert (await client.ask(produce_request_of(11_000, HELD), 9)).throttle_time_ms == 1_000
    return client


async def tear_off(client: WireClient) -> None:
    """Reset the connection, as a killed process does."""
    client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await client.stream.aclose()
    await wait_all_tasks_blocked(0.02)


def open_connections(broker: RunningBroker) -> int:
    return len(list(broker.server.socket_server.channels()))


async def test_silent_requests_of_a_peer_that_was_reset_are_stored_when_its_throttle_ends(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await held_client(broker)
    before = stored(broker)
    await client.stream.send_all(SILENT * 5)
    await tear_off(client)
    mock_clock.jump(0.999)
    await wait_all_tasks_blocked(0.02)
    assert (stored(broker), open_connections(broker)) == (before, 2)
    mock_clock.jump(0.001)
    await wait_all_tasks_blocked(0.02)
    assert (stored(broker), open_connections(broker)) == (before + 5, 1)


async def test_silent_requests_that_were_read_already_are_stored_too(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect(HELD)
    loud = codec.encode_request(0, 9)(produce_request_of(11_000, HELD, acks=0), 1, HELD)
    await client.stream.send_all(b"".join(map(bytes, loud)) + SILENT * 5)
    await wait_all_tasks_blocked(0.02)
    before = stored(broker)
    await tear_off(client)
    mock_clock.jump(1)
    await wait_all_tasks_blocked(0.02)
    assert (stored(broker), open_connections(broker)) == (before + 5, 1)


async def test_an_undeliverable_answer_closes_the_connection_and_drops_later_requests(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    """As in Kafka, a failed send closes at once (CloseMode.NOTIFY_ONLY)."""
    client = await held_client(broker)
    before = stored(broker)
    loud = encoded(MetadataRequest([]), 9, 8)
    await client.stream.send_all(SILENT + loud + SILENT)
    await tear_off(client)
    mock_clock.jump(1)
    await wait_all_tasks_blocked(0.02)
    assert (stored(broker), open_connections(broker)) == (before + 1, 1)


async def test_a_peer_that_left_nothing_behind_is_forgotten_at_once(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await tear_off(await held_client(broker))
    assert open_connections(broker) == 1


async def test_half_a_request_behind_whole_ones_is_dropped(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await held_client(broker)
    before = stored(broker)
    await client.stream.send_all(SILENT + SILENT[:-1])
    await tear_off(client)
    mock_clock.jump(1)
    await wait_all_tasks_blocked(0.02)
    assert (stored(broker), open_connections(broker)) == (before + 1, 1)


async def test_a_reset_connection_that_is_held_costs_no_turns(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    """Otherwise epoll would report the connection in every turn."""
    client = await held_client(broker)
    await client.stream.send_all(SILENT)
    await tear_off(client)
    (processor,) = broker.server.socket_server.processors()
    assert processor.selector.poll(0, 4096) == []
    assert await is_served(broker.clients[0])


async def test_a_stop_does_not_wait_for_reset_connections(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as running:
        maker = await running.connect("maker")
        assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
        running.server.quotas.apply(Entity(client_id=HELD), "producer_byte_rate", 1_000)
        client = await held_client(running)
        await client.stream.send_all(SILENT)
        await tear_off(client)
        await maker.stream.aclose()
        with trio.fail_after(0.5):
            running.stop.set()
            await running.started.stopped.wait()


async def test_a_response_is_never_begun_while_another_is_being_written(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    """Kafka raises IllegalStateException; in AutoMQ's mode the second response waits for its turn."""
    (channel,) = broker.server.socket_server.channels()
    channel.send = Send([b"first"])
    second = ResponseSend(Request(channel.responder, channel, unused_route(), b"", 0, 0), [b"second"])
    with pytest.raises(BrokerBug, match="a send is already in progress"):
        channel.responder._start_send(channel, second, 0)
    channel.send = None

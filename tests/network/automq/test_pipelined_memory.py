"""Request memory (KIP-72) of a connection that a quota throttles within its next request. On the mock clock.

The throttle begins when a fetch that waited is answered, under a quota of 1 B/s.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.metadata import MetadataRequest
from broker.quotas.entity import Entity
from tests.network.automq.frames import AUTOMQ, channel_of, correlation_ids, encoded
from tests.support.memory import BOUNDED, POOL, readable, settled, taker_of_all, used, waiting
from tests.support.produce import PRODUCE_VERSION, create_topic, produce_request_of
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

GREEDY = "greedy"
WAIT_MS = 1_000
FETCH_VERSION = 11


@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, AUTOMQ, *BOUNDED) as running:
        maker = await running.connect("maker")
        assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
        running.server.quotas.apply(Entity(client_id=GREEDY), "consumer_byte_rate", 1)
        yield running


async def waiting_greedy(broker: RunningBroker) -> WireClient:
    greedy = await broker.connect(GREEDY)
    partition = FetchPartition(0, partition_max_bytes=1_000)
    fetch = FetchRequest(
        max_wait_ms=WAIT_MS,
        min_bytes=1,
        max_bytes=1_000,
        topics=[FetchTopic("events", partitions=[partition])],
    )
    await greedy.stream.send_all(encoded(fetch, FETCH_VERSION, 1, GREEDY))
    await settled()
    assert broker.server.fetches.delayed == 1
    return greedy


def produced(size: int) -> bytes:
    return encoded(produce_request_of(size, GREEDY), PRODUCE_VERSION, 2, GREEDY)


async def throttled(broker: RunningBroker, clock: MockClock, greedy: WireClient) -> int:
    """Let the fetch end, and return the milliseconds for which its connection is throttled."""
    clock.jump(WAIT_MS / 1_000)
    await settled()
    assert channel_of(broker, greedy).mute_state.name == "MUTED_AND_THROTTLED"
    (row,) = broker.server.views.quotas.throttled()
    return row.throttle_ms


async def test_a_throttled_connection_is_read_to_the_end_of_a_request_that_has_memory(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    greedy = await waiting_greedy(broker)
    frame = produced(POOL)
    await greedy.stream.send_all(frame[:1_000])
    await settled()
    assert used(broker) == POOL
    await throttled(broker, mock_clock, greedy)
    polite = await broker.connect()
    await polite.send(MetadataRequest([]), 9)
    await settled()
    assert waiting(broker) == 1
    async with trio.open_nursery() as nursery:
        nursery.start_soon(greedy.stream.send_all, frame[1_000:])
        await settled()
        assert readable(polite)
    assert await correlation_ids(greedy, 2) == [1, 2]
    assert used(broker) == 0


async def test_memory_goes_to_no_connection_that_is_throttled(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    greedy = await waiting_greedy(broker)
    taker = await taker_of_all(broker)
    await greedy.stream.send_all(produced(1_000))
    await settled()
    assert waiting(broker) == 1
    throttle_ms = await throttled(broker, mock_clock, greedy)
    taker.stream.socket.close()
    await settled()
    assert (used(broker), waiting(broker)) == (0, 0)
    assert await correlation_ids(greedy, 1) == [1]
    mock_clock.jump(throttle_ms / 1_000)
    assert await correlation_ids(greedy, 1) == [2]
    assert used(broker) == 0

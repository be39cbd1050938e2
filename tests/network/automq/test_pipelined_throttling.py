"""A throttle mutes the whole connection at once, wherever its request is in the order, and ends to the
millisecond; pending responses are sent meanwhile. On the mock clock.

11,000 bytes under a quota of 1,000 B/s: the window has ten whole seconds, so the rate is 1,100 B/s, and one
second repays the excess; 22,000 bytes take twelve.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.quotas.entity import Entity
from tests.network.automq.frames import (
    AUTOMQ,
    channel_of,
    correlation_ids,
    encoded,
    numbered,
    waiting_fetch,
)
from tests.support.produce import PRODUCE_VERSION, batch_of, create_topic, produce_request, produce_request_of
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

GREEDY = "greedy"


@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, AUTOMQ) as running:
        maker = await running.connect("maker")
        assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
        running.server.quotas.apply(Entity(client_id=GREEDY), "producer_byte_rate", 1_000)
        yield running


def over(correlation_id: int, acks: int = 1, topic: str = "events") -> bytes:
    """Build a produce request of 11,000 bytes."""
    message = produce_request_of(11_000, GREEDY, topic, acks)
    return encoded(message, PRODUCE_VERSION, correlation_id, GREEDY)


def request(correlation_id: int) -> bytes:
    """ApiVersions."""
    return numbered(18, 0, correlation_id, b"")


def in_hand(broker: RunningBroker, client: WireClient) -> int:
    return len(channel_of(broker, client).in_flight)


async def test_the_connection_is_held_although_its_answer_still_waits_for_its_turn(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    maker, greedy = broker.clients[0], await broker.connect(GREEDY)
    assert (await maker.ask(create_topic("own"), 5)).topics[0].error_code == 0
    await greedy.stream.send_all(waiting_fetch(1) + over(2, topic="own"))
    await wait_all_tasks_blocked(0.02)
    await greedy.stream.send_all(request(3))
    await wait_all_tasks_blocked(0.02)
    assert in_hand(broker, greedy) == 2  # the third is not read
    assert len(broker.server.views.quotas.throttled()) == 1
    # What is owed leaves while the connection is throttled.
    await maker.ask(produce_request(batch_of(b"x")), PRODUCE_VERSION)
    assert await correlation_ids(greedy, 2) == [1, 2]
    mock_clock.jump(0.999)
    await wait_all_tasks_blocked(0.02)
    assert channel_of(broker, greedy).mute_state.name == "MUTED_AND_THROTTLED"
    mock_clock.jump(0.001)
    assert await correlation_ids(greedy, 1) == [3]


@pytest.mark.parametrize("acks", [0, 1])
async def test_two_throttles_are_one_hold_until_the_later_end(
    broker: RunningBroker, mock_clock: MockClock, acks: int
) -> None:
    greedy = await broker.connect(GREEDY)
    await greedy.stream.send_all(over(1, acks) + over(2, acks) + request(3))
    await wait_all_tasks_blocked(0.02)
    (row,) = broker.server.views.quotas.throttled()
    assert row.throttle_ms > 1_000 and row.times == 1
    answers = await correlation_ids(greedy, 2 * acks + 1)
    assert answers[-1] == 3  # all three were here before the hold began
    await greedy.stream.send_all(request(4))
    await wait_all_tasks_blocked(0.02)
    mock_clock.jump((row.throttle_ms - 1) / 1_000)
    await wait_all_tasks_blocked(0.02)
    assert len(broker.server.views.quotas.throttled()) == 1
    mock_clock.jump(0.001)
    assert await correlation_ids(greedy, 1) == [4]
    assert broker.server.views.quotas.throttled() == []


async def test_the_end_of_a_hold_serves_what_was_read_already(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    """Frames that lie in the connection's buffer: nothing but the end of the hold wakes the processor."""
    greedy = await broker.connect(GREEDY)
    # 64 fetches fill the pipeline, so what is behind them stays in the buffer; the produce that wakes them
    # breaks the quota.
    await greedy.stream.send_all(
        b"".join(map(waiting_fetch, range(63))) + over(63) + request(64) + request(65)
    )
    assert await correlation_ids(greedy, 64) == list(range(64))
    await wait_all_tasks_blocked(0.02)
    assert channel_of(broker, greedy).receive.has_buffered
    mock_clock.jump(0.999)
    await wait_all_tasks_blocked(0.02)
    assert in_hand(broker, greedy) == 0
    mock_clock.jump(0.001)
    assert await correlation_ids(greedy, 2) == [64, 65]


async def test_a_connection_that_closes_while_it_is_held_leaves_nothing_behind(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    greedy = await broker.connect(GREEDY)
    await greedy.stream.send_all(over(1) + over(2) + waiting_fetch(3))
    await wait_all_tasks_blocked(0.02)
    assert len(broker.server.views.quotas.throttled()) == 1
    greedy.stream.socket.close()
    mock_clock.jump(60)
    await wait_all_tasks_blocked(0.02)
    assert broker.server.views.quotas.throttled() == []
    assert len(list(broker.server.socket_server.channels())) == 1


async def test_a_limit_that_is_removed_frees_the_connection_at_once(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    greedy = await broker.connect(GREEDY)
    await greedy.stream.send_all(over(1) + over(2))
    await correlation_ids(greedy, 2)
    await greedy.stream.send_all(request(3))
    broker.server.quotas.apply(Entity(client_id=GREEDY), "producer_byte_rate", None)
    assert await correlation_ids(greedy, 1) == [3]
    assert broker.server.views.quotas.throttled() == []

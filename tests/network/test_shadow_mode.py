"""Shadow mode over real connections and a mock clock: exceeded limits are counted, and no client is
throttled.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from broker.common.slices import run_through
from broker.controller.commands import AlterClientQuotas, QuotaAlteration, QuotaOp
from broker.controller.rows.quotas import QuotaLimit
from broker.metadata.actor import BROKER_ITSELF
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.support.produce import PRODUCE_VERSION, create_topic, produce_request_of
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

GREEDY = "greedy"
RULE = (("client-id", GREEDY),)


# Every test asks for the mock clock itself: a fixture's clock does not become the run's.
@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path) as running:
        maker = await running.connect("maker")
        assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
        yield running


async def alter(broker: RunningBroker, shadow: bool | None, **limits: float | None) -> None:
    ops = tuple(QuotaOp(key, value) for key, value in limits.items())
    entry = QuotaAlteration(RULE, ops, shadow=shadow)
    (outcome,) = await broker.server.control.apply(AlterClientQuotas((entry,)), BROKER_ITSELF)
    assert outcome.ok


def limit(broker: RunningBroker, key: str) -> QuotaLimit:
    row = run_through(broker.server.views.quotas.quota(RULE))
    assert row is not None
    return next(each for each in row.limits if each.key == key)


def shadow_throttles(broker: RunningBroker, mock_clock: MockClock, key: str) -> tuple[int, int]:
    """Return the number of throttles and their time, when all of them are over."""
    mock_clock.jump(60)
    shadow = limit(broker, key).shadow
    assert shadow is not None
    return shadow.times, shadow.throttle_ms


async def produce(client: WireClient, size: int) -> int:
    answer = await client.ask(produce_request_of(size, GREEDY), PRODUCE_VERSION)
    assert answer.responses[0].partition_responses[0].error_code == 0
    return int(answer.throttle_time_ms)


@pytest.mark.parametrize(("size", "counted"), [(9_999, (0, 0)), (10_000, (0, 0)), (11_000, (1, 1_000))])
async def test_produce_is_counted_at_the_bound_and_above_it(
    broker: RunningBroker, mock_clock: MockClock, size: int, counted: tuple[int, int]
) -> None:
    await alter(broker, True, producer_byte_rate=1_000)
    client = await broker.connect(GREEDY)
    assert await produce(client, size) == 0
    assert broker.server.views.quotas.throttled() == []
    assert limit(broker, "producer_byte_rate").observed == size / 10
    assert shadow_throttles(broker, mock_clock, "producer_byte_rate") == counted


async def test_a_client_in_shadow_is_read_on_and_its_last_verdict_has_a_time_of_day(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await alter(broker, True, producer_byte_rate=1_000)
    client = await broker.connect(GREEDY)
    for _ in range(3):
        assert await produce(client, 11_000) == 0
    wall_ms = broker.server.clock.wall_ms()
    shadow = limit(broker, "producer_byte_rate").shadow
    assert shadow is not None and shadow.last_at_ms is not None
    assert shadow.times == 3
    assert abs(wall_ms - shadow.last_at_ms) < 5_000


async def test_a_fetch_over_its_limit_keeps_its_records_whole(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect(GREEDY)
    await produce(client, 30_000)
    await alter(broker, True, consumer_byte_rate=1_000)
    wanted = FetchTopic(
        "events", partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=1_000_000)]
    )
    answer = await client.ask(FetchRequest(max_wait_ms=0, min_bytes=1, topics=[wanted]), 11)
    assert answer.throttle_time_ms == 0
    assert len(answer.responses[0].partitions[0].records) > 29_000
    times, throttled_ms = shadow_throttles(broker, mock_clock, "consumer_byte_rate")
    assert times == 1 and 19_000 < throttled_ms < 21_000


async def test_topics_that_would_be_refused_are_made(broker: RunningBroker, mock_clock: MockClock) -> None:
    """Eleven windows of 2 save up 22; of two topics of 30 one would be refused, 4 s before the next."""
    await alter(broker, True, controller_mutation_rate=2)
    client = await broker.connect(GREEDY)
    request = CreateTopicsRequest([CreatableTopic(name, 30, 1) for name in ("a", "b")])
    answer = await client.ask(request, 7)
    assert [each.error_code for each in answer.topics] == [0, 0]
    assert answer.throttle_time_ms == 0
    assert shadow_throttles(broker, mock_clock, "controller_mutation_rate") == (1, 4_000)


async def test_a_throttled_client_goes_on_when_the_rule_goes_into_shadow_and_is_throttled_again_after_it(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await alter(broker, None, producer_byte_rate=1_000)
    client = await broker.connect(GREEDY)
    assert await produce(client, 11_000) == 1_000
    started = trio.current_time()
    await alter(broker, True)
    assert await produce(client, 11_000) == 0
    assert trio.current_time() == started
    await alter(broker, False)
    assert limit(broker, "producer_byte_rate").shadow is None
    assert await produce(client, 11_000) == 1_000


async def test_a_mark_is_there_after_a_restart(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as running:
        maker = await running.connect("maker")
        assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
        await alter(running, True, producer_byte_rate=1_000)
    async with running_broker(tmp_path) as running:
        client = await running.connect(GREEDY)
        assert await produce(client, 11_000) == 0
        assert shadow_throttles(running, mock_clock, "producer_byte_rate") == (1, 1_000)
        assert 'kafka_server_produce_shadow_throttles_total{user="",client_id="greedy"} 1' in (
            running.server.prometheus.page()
        )

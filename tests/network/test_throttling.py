"""An exceeded quota over a real connection and a mock clock: the response is sent at once, and the next
request waits exactly.

11,000 bytes under a quota of 1,000 B/s: the window has ten whole seconds, so the rate is 1,100 B/s, and one
second repays the excess.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from broker.common.errors import ErrorCode
from broker.controller.commands import AlterClientQuotas, QuotaAlteration, QuotaOp
from broker.metadata.actor import BROKER_ITSELF
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.quotas.entity import Entity
from tests.support.produce import PRODUCE_VERSION, create_topic, produce_request_of
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

GREEDY = "greedy"


# Every test asks for the mock clock itself: a fixture's clock does not become the run's.
@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path) as running:
        maker = await running.connect("maker")
        assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
        running.server.quotas.apply(Entity(client_id=GREEDY), "producer_byte_rate", 1_000)
        yield running


async def produce(client: WireClient, size: int, acks: int = 1) -> int:
    """Return the throttle time of the response, in ms."""
    answer = await client.ask(produce_request_of(size, GREEDY, acks=acks), PRODUCE_VERSION)
    assert answer.responses[0].partition_responses[0].error_code == 0
    return int(answer.throttle_time_ms)


async def is_answered_now(client: WireClient) -> bool:
    """Return whether Metadata is answered without delay."""
    with trio.move_on_after(1_000) as scope:
        await client.send(MetadataRequest([MetadataRequestTopic(name="events")]), 9)
        await trio.testing.wait_all_tasks_blocked(0.02)
        return bool(_readable(client)) and not scope.cancelled_caught


def _readable(client: WireClient) -> bytes:
    try:
        return client.stream.socket._sock.recv(1, __import__("socket").MSG_PEEK)  # type: ignore[attr-defined]
    except BlockingIOError:
        return b""


@pytest.mark.parametrize(("size", "throttle_ms"), [(9_999, 0), (10_000, 0), (11_000, 1_000)])
async def test_the_throttle_is_reported_at_the_bound_and_above_it(
    broker: RunningBroker, mock_clock: MockClock, size: int, throttle_ms: int
) -> None:
    assert await produce(await broker.connect(GREEDY), size) == throttle_ms


async def test_the_answer_is_written_before_the_mute_begins(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    greedy = await broker.connect(GREEDY)
    started = trio.current_time()
    assert await produce(greedy, 11_000) == 1_000
    assert trio.current_time() == started

    # A client that ignores throttle_time_ms is not read until the second has passed.
    assert not await is_answered_now(greedy)
    mock_clock.jump(0.999)
    await trio.testing.wait_all_tasks_blocked(0.02)
    assert not _readable(greedy)
    mock_clock.jump(0.001)
    await greedy.receive(3, 9)


async def test_others_are_not_throttled(broker: RunningBroker, mock_clock: MockClock) -> None:
    greedy, polite = await broker.connect(GREEDY), await broker.connect("polite")
    assert await produce(greedy, 11_000) == 1_000
    assert await is_answered_now(polite)


async def test_the_held_connection_is_shown_with_its_rule(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    greedy = await broker.connect(GREEDY)
    await produce(greedy, 11_000)
    (row,) = broker.server.views.quotas.throttled()
    assert row.client_id == GREEDY
    assert row.entity == (("client-id", GREEDY),)
    assert (row.observed, row.bound, row.throttle_ms, row.remaining_ms) == (1_100.0, 1_000.0, 1_000, 1_000)


async def test_a_removed_limit_frees_the_held_connection_at_once(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    greedy = await broker.connect(GREEDY)
    await produce(greedy, 11_000)
    assert not await is_answered_now(greedy)
    broker.server.quotas.apply(Entity(client_id=GREEDY), "producer_byte_rate", None)
    await greedy.receive(3, 9)
    assert broker.server.views.quotas.throttled() == []


async def test_acks_0_is_held_too(broker: RunningBroker, mock_clock: MockClock) -> None:
    greedy = await broker.connect(GREEDY)
    await greedy.send(produce_request_of(11_000, GREEDY, acks=0), PRODUCE_VERSION)
    await trio.testing.wait_all_tasks_blocked(0.02)
    assert not await is_answered_now(greedy)
    mock_clock.jump(1.0)
    await greedy.receive(3, 9)


async def test_a_connection_that_closes_while_it_is_held_leaves_nothing_behind(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    greedy = await broker.connect(GREEDY)
    await produce(greedy, 11_000)
    await greedy.stream.aclose()
    mock_clock.jump(2.0)
    await trio.testing.wait_all_tasks_blocked(0.02)
    assert broker.server.views.quotas.throttled() == []


async def test_an_unmuted_connection_goes_on(broker: RunningBroker, mock_clock: MockClock) -> None:
    greedy = await broker.connect(GREEDY)
    await produce(greedy, 11_000)
    await greedy.send(ApiVersionsRequest("test", "1"), 3)
    mock_clock.jump(1.0)
    _, answer = await greedy.receive(18, 3)
    assert answer.error_code == 0


@pytest.mark.parametrize(("per_second", "throttle_ms"), [(900, 0), (4_000, 4_000)])
async def test_a_client_that_runs_already_is_held_from_its_next_request_on(
    tmp_path: Path, mock_clock: MockClock, per_second: int, throttle_ms: int
) -> None:
    async with running_broker(tmp_path) as running:
        client = await running.connect(GREEDY)
        assert (await client.ask(create_topic(), 5)).topics[0].error_code == 0
        for _ in range(5):
            assert await produce(client, per_second) == 0
            mock_clock.jump(1)
        rule = QuotaAlteration((("client-id", GREEDY),), (QuotaOp("producer_byte_rate", 1_000),))
        await running.server.control.apply(AlterClientQuotas((rule,)), BROKER_ITSELF)
        assert await produce(client, per_second) == throttle_ms


async def test_a_refused_topic_holds_the_connection_until_the_tokens_are_back(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    """Eleven windows of 2 save up 22; of two topics of 30 one is made, and 8 are owed for 4 s."""
    broker.server.quotas.apply(Entity(client_id="maker"), "controller_mutation_rate", 2)
    client = await broker.connect("maker")
    request = CreateTopicsRequest([CreatableTopic(name, 30, 1) for name in ("a", "b")])
    answer = await client.ask(request, 7)
    assert [each.error_code for each in answer.topics] == [0, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    left = broker.server.quotas.mutation.throttled.rows(broker.server.clock.ms())
    assert [row.remaining_ms for row in left] == [answer.throttle_time_ms]
    assert answer.throttle_time_ms == 4_000
    await client.send(MetadataRequest([]), 9)
    mock_clock.jump(answer.throttle_time_ms / 1000 - 0.001)
    await trio.testing.wait_all_tasks_blocked(0.02)
    assert not _readable(client)
    mock_clock.jump(0.001)
    await client.receive(3, 9)

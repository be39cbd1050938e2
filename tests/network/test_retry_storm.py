"""A client that repeats a failing request at once gets delayed responses, to the millisecond of the mock
clock, and only its own connection waits.
"""

import errno
import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import (
    AfterCommit,
    Delayed,
    EncodedResponse,
    Outcome,
    Response,
    StagedAppends,
)
from broker.api.requests.retry_storm import GatedFastPath
from broker.common.errors import ErrorCode
from broker.common.slices import SLICE
from broker.log import disk
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from broker.quotas.entity import Entity
from tests.support.live import alter, takes_effect
from tests.support.produce import PRODUCE_VERSION, batch_of, create_topic, produce_request
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

PRODUCE, METADATA = 0, 3
MISSING = MetadataRequest([MetadataRequestTopic(name="missing")], False)


@pytest.fixture(params=["kafka", "automq"])
async def broker(
    tmp_path: Path, mock_clock: MockClock, request: pytest.FixtureRequest
) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, f"socket.server.mode={request.param}") as running:
        maker = await running.connect("maker")
        assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
        yield running


def has_bytes(client: WireClient) -> bool:
    try:
        return bool(client.stream.socket._sock.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


async def is_answered_after(mock_clock: MockClock, client: WireClient, delay_ms: int) -> bool:
    """Whether what it has sent is answered then, and not a millisecond earlier."""
    await trio.testing.wait_all_tasks_blocked(0.02)
    if delay_ms:
        mock_clock.jump((delay_ms - 1) / 1_000)
        await trio.testing.wait_all_tasks_blocked(0.02)
        if has_bytes(client):
            return False
        mock_clock.jump(0.001)
        await trio.testing.wait_all_tasks_blocked(0.02)
    return has_bytes(client)


async def fail(client: WireClient, times: int = 1) -> None:
    """Each must be answered without time passing, for the test would hang otherwise."""
    for _ in range(times):
        (topic,) = (await client.ask(MISSING, 9)).topics
        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@takes_effect("automq.retry.storm.backoff.enabled")
async def test_the_sixth_error_within_a_second_waits_a_second(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    await fail(client, 20)
    await alter(broker, automq_retry_storm_backoff_enabled="true")
    await fail(client, 5)
    await client.send(MISSING, 9)
    assert await is_answered_after(mock_clock, client, 1_000)
    _, answer = await client.receive(METADATA, 9)
    assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    totals = broker.server.retry_storm.storm.totals
    assert (totals.delayed, totals.delayed_ms) == (1, 1_000)
    await client.send(MISSING, 9)
    assert await is_answered_after(mock_clock, client, 1_000)
    await client.receive(METADATA, 9)
    await alter(broker, automq_retry_storm_backoff_enabled="false")
    await fail(client, 20)


@takes_effect("automq.retry.storm.backoff.max.delay.ms")
async def test_the_delay_is_changed_while_the_broker_runs(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    await alter(broker, automq_retry_storm_backoff_enabled="true")
    await fail(client, 5)
    await alter(broker, automq_retry_storm_backoff_max_delay_ms="250")
    await client.send(MISSING, 9)
    assert await is_answered_after(mock_clock, client, 250)
    await client.receive(METADATA, 9)
    await alter(broker, automq_retry_storm_backoff_max_delay_ms="0")
    await fail(client, 3)


async def test_others_are_answered_while_one_waits(broker: RunningBroker, mock_clock: MockClock) -> None:
    await alter(broker, automq_retry_storm_backoff_enabled="true")
    clients = [await broker.connect() for _ in range(20)]
    for client in clients[:19]:
        await fail(client, 5)
        await client.send(MISSING, 9)
    await fail(clients[19], 5)
    await clients[19].ask(MetadataRequest([MetadataRequestTopic(name="events")], False), 9)
    assert broker.server.retry_storm.delayed.delayed == 19
    assert not any(has_bytes(client) for client in clients)
    mock_clock.jump(1)
    for client in clients[:19]:
        await client.receive(METADATA, 9)
    assert broker.server.retry_storm.delayed.delayed == 0


async def test_a_transient_error_waits_from_the_second_on(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    """There is no topic for offsets yet, so there is no coordinator."""
    await alter(broker, automq_retry_storm_backoff_enabled="true")
    client = await broker.connect()
    topics = [OffsetCommitRequestTopic("events", partitions=[OffsetCommitRequestPartition(0, 1)])]
    commit = OffsetCommitRequest("group", topics=topics)
    answer = await client.ask(commit, 8)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    await client.send(commit, 8)
    assert await is_answered_after(mock_clock, client, 1_000)


async def test_a_produce_waits_as_well(broker: RunningBroker, mock_clock: MockClock) -> None:
    await alter(broker, automq_retry_storm_backoff_enabled="true")
    client = await broker.connect()
    request = produce_request(batch_of(b"x"), "missing")
    for _ in range(5):
        answer = await client.ask(request, PRODUCE_VERSION)
        code = answer.responses[0].partition_responses[0].error_code
        assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await client.send(request, PRODUCE_VERSION)
    assert await is_answered_after(mock_clock, client, 1_000)


@pytest.mark.parametrize(("max_wait_ms", "delay_ms"), [(0, 0), (300, 300), (999, 999), (5_000, 1_000)])
async def test_a_fetch_waits_no_longer_than_it_said_it_would(
    broker: RunningBroker, mock_clock: MockClock, max_wait_ms: int, delay_ms: int
) -> None:
    await alter(broker, automq_retry_storm_backoff_enabled="true")
    client = await broker.connect()
    partitions = [FetchPartition(0, fetch_offset=99, partition_max_bytes=1_000)]
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1_000,
        session_epoch=-1,
        topics=[FetchTopic("events", partitions=partitions)],
    )
    for _ in range(5):
        answer = await client.ask(request, 11)
        code = answer.responses[0].partitions[0].error_code
        assert code == ErrorCode.OFFSET_OUT_OF_RANGE
    await client.send(request, 11)
    assert await is_answered_after(mock_clock, client, delay_ms)


async def test_successes_are_never_delayed_and_may_repeat(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await alter(broker, automq_retry_storm_backoff_enabled="true")
    client = await broker.connect()
    await fail(client, 5)
    for _ in range(20):
        answer = await client.ask(produce_request(batch_of(b"x")), PRODUCE_VERSION)
        assert answer.responses[0].partition_responses[0].error_code == 0
        (topic,) = (await client.ask(MetadataRequest([MetadataRequestTopic(name="events")]), 9)).topics
        assert topic.error_code == 0


async def test_a_connection_that_closes_while_it_waits_is_forgotten(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await alter(broker, automq_retry_storm_backoff_enabled="true")
    client = await broker.connect()
    await fail(client, 5)
    await client.send(MISSING, 9)
    await trio.testing.wait_all_tasks_blocked(0.02)
    delayed = broker.server.retry_storm.delayed
    assert delayed.delayed == 1
    client.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # resets
    await trio.aclose_forcefully(client.stream)
    await trio.testing.wait_all_tasks_blocked(0.02)
    assert delayed.delayed == 0
    mock_clock.jump(1)
    await fail(await broker.connect())


async def test_a_broker_that_stops_answers_first(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path, "automq.retry.storm.backoff.enabled=true") as running:
        client = await running.connect()
        await fail(client, 5)
        await client.send(MISSING, 9)
        await trio.testing.wait_all_tasks_blocked(0.02)
        running.stop.set()
        begun = trio.current_time()
        await client.receive(METADATA, 9)
        assert trio.current_time() == begun


async def test_a_produce_whose_write_fails_waits_as_well(
    broker: RunningBroker, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer is known after the commit; from the second one on the short way through the handler is
    taken.
    """
    await alter(broker, automq_retry_storm_backoff_enabled="true")
    client = await broker.connect()
    request = produce_request(batch_of(b"x"))
    for _ in range(2):
        answer = await client.ask(request, PRODUCE_VERSION)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    monkeypatch.setattr(disk, "write_at", no_space)
    for _ in range(5):
        answer = await client.ask(request, PRODUCE_VERSION)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    await client.send(request, PRODUCE_VERSION)
    assert await is_answered_after(mock_clock, client, 1_000)


async def test_a_delayed_answer_and_a_request_quota_go_together(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    broker.server.quotas.apply(Entity(user="ANONYMOUS"), "request_percentage", 1_000.0)
    broker.server.socket_server.time_requests(True)
    await alter(broker, automq_retry_storm_backoff_enabled="true")
    client = await broker.connect()
    await fail(client, 5)
    await client.send(MISSING, 9)
    assert await is_answered_after(mock_clock, client, 1_000)


def no_space(*_: object) -> int:
    raise OSError(errno.ENOSPC, "no space left")


def failed_append() -> Outcome:
    part = PartitionProduceResponse(0, ErrorCode.KAFKA_STORAGE_ERROR)
    return Response(ProduceResponse([TopicProduceResponse("events", partition_responses=[part])]))


async def test_an_append_that_fails_at_the_commit_waits_as_well(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path, "automq.retry.storm.backoff.enabled=true") as running:
        gate = running.server.retry_storm
        # No handler pool serves these appends, and it could not answer them.
        gate.delayed.on_deadline = lambda _deadline_ms: None

        class FailingPath:
            def serve(self, _frame: object, _context: object) -> Outcome:
                return StagedAppends((), failed_append)

            def forget(self) -> None: ...

        client = await running.connect()
        await fail(client)
        (channel,) = running.server.socket_server.channels()
        context = RequestContext()
        context.connection, context.now_ms = channel, 0
        gated = GatedFastPath(FailingPath(), PRODUCE, gate)
        outcomes = []
        for _ in range(6):
            outcome = gated.serve(b"", context)
            assert isinstance(outcome, AfterCommit)
            outcomes.append(outcome.finish())
        assert [type(outcome) for outcome in outcomes] == [Response] * 5 + [Delayed]
        assert channel.waiting is not None and channel.waiting.expiration_ms == 1_000
        encoded = EncodedResponse(b"", None)
        assert gate.passed(encoded, PRODUCE, None, context) is encoded


async def test_an_answer_that_was_made_in_slices_waits_like_any_other(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    await alter(broker, automq_retry_storm_backoff_enabled="true")
    many = MetadataRequest([MetadataRequestTopic(name=f"missing-{at}") for at in range(SLICE + 1)], False)
    for _ in range(5):
        await client.ask(many, 9)
    await client.send(many, 9)
    assert await is_answered_after(mock_clock, client, 1_000)
    _, answer = await client.receive(METADATA, 9)
    assert len(answer.topics) == SLICE + 1

"""Produce requests that wait for a flush (flush.messages=1) of a duration that the test sets."""

import os
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.api.requests.delayed_operations import DelayedProduce
from broker.api.requests.outcome import NO_RESPONSE, StagedAppends
from broker.log.background_jobs import Flush
from broker.log.partition import PartitionLog
from broker.metrics.families import FamilySamples
from broker.network.clock import TrioClock
from broker.network.handling.flush_waits import FlushWaits, Waiting
from broker.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.purgatory import purgatory
from broker.purgatory.purgatory import Purgatory
from broker.quotas.entity import Entity
from broker.server.compiled import COMPILED
from tests.support.hostile import is_served, until
from tests.support.produce import PRODUCE_VERSION, batch_of, create_topic
from tests.support.rig import Rig
from tests.support.running import RunningBroker, leave, running_broker
from tests.support.wire import WireClient

REQUEST_TIMED_OUT = 7
STORAGE_ERROR = 56


class SlowDisk:
    """fdatasync returns when the test lets it, and fails if the test says so."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.error: OSError | None = None
        self.flushed = 0

    def flush(self, fd: int) -> None:
        self.flushed += 1
        assert self.goes_on.wait(20), "the test never let the disk go on"
        if self.error is not None:
            raise self.error


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDisk]:
    slow = SlowDisk()
    monkeypatch.setattr(os, "fdatasync", slow.flush)
    yield slow
    slow.goes_on.set()


@pytest.fixture
async def broker(tmp_path: Path, disk: SlowDisk, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    """Of its two topics one waits for the disk."""
    async with running_broker(tmp_path) as running:
        maker = await running.connect("maker")
        durable = [CreatableTopicConfig("flush.messages", "1")]
        topics = [CreatableTopic("durable", 1, 1, None, durable), CreatableTopic("quick", 1, 1)]
        answer = await maker.ask(CreateTopicsRequest(topics, 5_000), 5)
        assert [each.error_code for each in answer.topics] == [0, 0]
        disk.goes_on.clear()
        try:
            yield running
        finally:
            disk.error = None
            disk.goes_on.set()


def produce(topic: str = "durable", *, acks: int = -1, timeout_ms: int = 1_500) -> ProduceRequest:
    data = PartitionProduceData(0, batch_of(b"kept"))
    return ProduceRequest(None, acks, timeout_ms, [TopicProduceData(topic, partition_data=[data])])


async def waits(client: WireClient, broker: RunningBroker, request: ProduceRequest) -> None:
    """Send the request, and check that it is delayed."""
    before = broker.server.produces.delayed
    await client.send(request, PRODUCE_VERSION)
    await until(lambda: broker.server.produces.delayed == before + 1)


async def error_of(client: WireClient) -> int:
    _, answer = await client.receive(0, PRODUCE_VERSION)
    return int(answer.responses[0].partition_responses[0].error_code)


async def is_silent(client: WireClient) -> bool:
    await wait_all_tasks_blocked(0.01)
    with trio.move_on_after(0) as scope:
        await client.stream.receive_some(1)
    return scope.cancelled_caught


async def test_an_answer_leaves_when_the_disk_has_the_records(
    broker: RunningBroker, disk: SlowDisk, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    await waits(client, broker, produce())
    mock_clock.jump(1.499)
    assert await is_silent(client)
    disk.goes_on.set()
    assert await error_of(client) == 0
    assert broker.server.produces.delayed == 0


@pytest.mark.parametrize("repeated", [False, True], ids=["read in full", "cached"])
async def test_a_disk_that_is_slower_than_the_time_out_is_not_waited_for(
    broker: RunningBroker, disk: SlowDisk, mock_clock: MockClock, repeated: bool
) -> None:
    client = await broker.connect()
    if repeated:
        disk.goes_on.set()
        assert (await client.ask(produce(), PRODUCE_VERSION)).responses[0].partition_responses[
            0
        ].error_code == 0
        disk.goes_on.clear()
    await waits(client, broker, produce())
    mock_clock.jump(1.499)
    assert await is_silent(client)
    mock_clock.jump(0.001)
    assert await error_of(client) == REQUEST_TIMED_OUT
    # The late end of the flush answers no request a second time.
    disk.goes_on.set()
    assert (await client.ask(produce(), PRODUCE_VERSION)).responses[0].partition_responses[0].error_code == 0
    log = broker.server.partitions.log("durable", 0)
    assert log is not None and log.high_watermark == (3 if repeated else 2)


@pytest.mark.parametrize("in_time", [True, False])
@pytest.mark.parametrize("repeated", [False, True], ids=["read in full", "cached"])
async def test_a_produce_that_waited_is_recorded_when_it_is_answered(
    broker: RunningBroker, disk: SlowDisk, mock_clock: MockClock, repeated: bool, in_time: bool
) -> None:
    client = await broker.connect("slow")
    if repeated:
        disk.goes_on.set()
        assert (await client.ask(produce(), PRODUCE_VERSION)).responses[0].partition_responses[
            0
        ].error_code == 0
        disk.goes_on.clear()
    broker.server.quotas.apply(Entity(client_id="slow"), "producer_byte_rate", 10)
    quota = broker.server.quotas.produce
    await waits(client, broker, produce())
    mock_clock.jump(1.25)
    assert await is_silent(client)
    assert quota.find("ANONYMOUS", "slow") is None
    if in_time:
        disk.goes_on.set()
    else:
        mock_clock.jump(0.25)
    _, answer = await client.receive(0, PRODUCE_VERSION)
    sensor = quota.find("ANONYMOUS", "slow")
    assert sensor is not None and sensor.last_record_ms == broker.server.clock.ms()
    used = round(sensor.observed(sensor.last_record_ms) * 10)
    assert answer.throttle_time_ms == (used - 100) * 100 > 0
    (row,) = broker.server.views.quotas.throttled()
    assert row.remaining_ms == answer.throttle_time_ms


async def test_a_client_that_needs_no_flush_does_not_wait_for_those_who_do(
    broker: RunningBroker, disk: SlowDisk, mock_clock: MockClock
) -> None:
    waiting, quick = await broker.connect(), await broker.connect()
    await waits(waiting, broker, produce())
    assert (await quick.ask(produce("quick"), PRODUCE_VERSION)).responses[0].partition_responses[
        0
    ].error_code == 0
    assert await is_silent(waiting)


async def test_requests_staged_together_are_answered_apart(
    broker: RunningBroker, disk: SlowDisk, mock_clock: MockClock
) -> None:
    server = broker.server
    durable, quick = server.partitions.log("durable", 0), server.partitions.log("quick", 0)
    assert durable is not None and quick is not None
    rig = Rig(1_000, 1_000)
    request = rig.request()
    committed: Waiting = [(request, StagedAppends([log], lambda: NO_RESPONSE)) for log in (durable, quick)]
    produces: Purgatory[DelayedProduce] = Purgatory("Produce")
    waits = FlushWaits(produces, 1, TrioClock(), lambda expired: None)
    at_once = waits.delay(committed, [flush := durable.flush(0)])
    assert at_once == committed[1:] and produces.delayed == 1
    assert waits.ended(flush) == ([], [])
    flush.finish()
    assert waits.ended(flush) == (committed[:1], [])
    rig.close()


async def test_whoever_comes_while_the_disk_is_busy_shares_the_next_turn(
    broker: RunningBroker, disk: SlowDisk, mock_clock: MockClock
) -> None:
    clients = [await broker.connect() for _ in range(10)]
    for client in clients:
        await waits(client, broker, produce())
    assert broker.server.socket_server.handlers.flush_waits.queued == 1
    disk.flushed = 0
    disk.goes_on.set()
    assert [await error_of(client) for client in clients] == [0] * 10
    assert disk.flushed == 1, "beside the one that was under way"


async def test_all_waiting_clients_get_the_error_of_a_failed_disk(
    broker: RunningBroker, disk: SlowDisk, mock_clock: MockClock
) -> None:
    clients = [await broker.connect() for _ in range(3)]
    for client in clients:
        await waits(client, broker, produce())
    disk.error = OSError(5, "Input/output error")
    disk.goes_on.set()
    assert [await error_of(client) for client in clients] == [STORAGE_ERROR] * 3


async def test_a_flush_that_could_not_begin_is_not_acknowledged(
    broker: RunningBroker, disk: SlowDisk, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No descriptor is left to flush with. That says nothing about the disk, so the partition stays."""
    flush = PartitionLog.flush
    refusal = OSError(24, "Too many open files")

    def refused(log: PartitionLog, now_ms: int, **rest: bool) -> Flush:
        return Flush(log, (), log.high_watermark, now_ms, refusal)

    if COMPILED:
        pytest.skip("a method of a compiled class cannot be replaced")
    monkeypatch.setattr(PartitionLog, "flush", refused)
    client = await broker.connect()
    await client.send(produce(), PRODUCE_VERSION)
    assert await error_of(client) == REQUEST_TIMED_OUT
    monkeypatch.setattr(PartitionLog, "flush", flush)
    disk.goes_on.set()
    await client.send(produce(), PRODUCE_VERSION)
    assert await error_of(client) == 0


async def test_an_offset_that_could_not_be_flushed_is_not_acknowledged(
    tmp_path: Path, disk: SlowDisk, mock_clock: MockClock
) -> None:
    """It is in the log, but may not survive a power failure: the connection closes without a response."""
    async with running_broker(tmp_path, "log.flush.interval.messages=1") as running:
        client = await running.connect()
        await client.ask(create_topic(), 5)
        await client.ask(FindCoordinatorRequest("group", 0), 1)
        topic = OffsetCommitRequestTopic("events", partitions=[OffsetCommitRequestPartition(0, 7)])
        commit = OffsetCommitRequest("group", -1, "", topics=[topic])
        answer = await client.ask(commit, 6)
        assert answer.topics[0].partitions[0].error_code == 0
        disk.error = OSError(5, "Input/output error")
        await client.send(commit, 6)
        assert await client.is_closed()
        disk.error = None


async def test_a_client_without_acknowledgements_is_not_hung_up_on_by_a_slow_disk(
    broker: RunningBroker, disk: SlowDisk, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    await waits(client, broker, produce(acks=0))
    mock_clock.jump(1.5)
    assert await is_served(client)


async def test_a_client_that_has_gone_leaves_its_records_and_nothing_else(
    broker: RunningBroker, disk: SlowDisk, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    await waits(client, broker, produce())
    await trio.aclose_forcefully(client.stream)
    await wait_all_tasks_blocked(0.01)
    disk.goes_on.set()
    await until(lambda: broker.server.produces.delayed == 0)
    assert broker.server.produces.watched == 0
    log = broker.server.partitions.log("durable", 0)
    assert log is not None and log.high_watermark == 1


async def test_a_consumer_is_woken_by_records_whose_flush_came_too_late(
    broker: RunningBroker, disk: SlowDisk, mock_clock: MockClock
) -> None:
    consumer, client = await broker.connect(), await broker.connect()
    partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=1_000)
    fetch = FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=1_000)
    fetch.topics = [FetchTopic("durable", partitions=[partition])]
    await consumer.send(fetch, 11)
    await until(lambda: broker.server.fetches.delayed == 1)
    await waits(client, broker, produce())
    mock_clock.jump(1.5)
    _, answer = await consumer.receive(1, 11)
    assert answer.responses[0].partitions[0].high_watermark == 1


def sizes(broker: RunningBroker) -> dict[str, dict[str, float]]:
    families: list[FamilySamples] = list(purgatory.families(broker.server.delayed.purgatories))
    return {
        family.name.rpartition("_")[2]: {
            dict(each.labels)["delayedOperation"]: each.value for each in family.samples
        }
        for family in families
    }


async def test_the_gauges_describe_the_purgatories_that_exist_and_no_other(
    broker: RunningBroker, disk: SlowDisk, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    await waits(client, broker, produce())
    expected = {"Fetch": 0, "ShareFetch": 0, "Produce": 1}
    assert sizes(broker) == {"purgatorysize": expected, "numdelayedoperations": expected}
    mock_clock.jump(1.5)
    await error_of(client)
    # What has ended lingers in the list until its flush ends or it is purged.
    assert sizes(broker)["numdelayedoperations"]["Produce"] == 0
    assert sizes(broker)["purgatorysize"]["Produce"] == 1


@pytest.mark.parametrize("stop_first", [False, True])
async def test_a_stop_waits_for_the_disk_as_for_any_answer(
    broker: RunningBroker, disk: SlowDisk, mock_clock: MockClock, stop_first: bool
) -> None:
    client = await broker.connect()
    await waits(client, broker, produce())
    if stop_first:
        broker.stop.set()
        await wait_all_tasks_blocked(0.01)
    disk.goes_on.set()
    assert await error_of(client) == 0
    await leave(broker.server.socket_server, broker.port)
    broker.stop.set()
    await broker.started.stopped.wait()

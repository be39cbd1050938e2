"""The time of each request phase by the mock clock, and the other request metrics."""

from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.metrics.histogram import bucket_of, no_counts, quantiles
from broker.network.connection.channel import MuteState
from broker.network.requests.request_channel import Request
from broker.network.requests.request_metrics import (
    PHASES,
    TICK_NS,
    AllMetrics,
    ApiMetrics,
    RequestMetrics,
    quantiles_ms,
)
from broker.network.responder import BURST
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from broker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from broker.quotas.entity import Entity
from tests.support.produce import batch_of, create_topic, produce_request, produce_request_of
from tests.support.rig import Rig, unused_route
from tests.support.running import RunningBroker, running_broker


class Stamps:
    """A request as far as its metrics look at it; times in nanoseconds."""

    def __init__(self, received: int, dequeued: int, completed: int, local_complete: int = 0) -> None:
        self.received, self.dequeued, self.completed = received, dequeued, completed
        self.local_complete = local_complete
        self.size = 100


def spread(metrics: RequestMetrics) -> dict[str, int]:
    """Return the bucket of the only request in each phase that it has."""
    counts = {name: getattr(metrics, attribute) for name, attribute in PHASES.items()}
    return {name: each.index(1) for name, each in counts.items() if 1 in each}


def ticks(nanoseconds: int) -> int:
    return bucket_of(nanoseconds // TICK_NS)


@pytest.mark.parametrize("longest", [4096 * TICK_NS - 1, 4096 * TICK_NS, 10**12])
@pytest.mark.parametrize("phase", range(3))
def test_an_answer_that_is_written_at_once_has_four_phases(phase: int, longest: int) -> None:
    """Below the end of the table, at it, and far above: in each phase."""
    spent = [20_000, 30_000, 40_000]
    spent[phase] = longest
    metrics = RequestMetrics("Produce", 9)
    at = 7_000_000_000_000
    request = Stamps(at, at + spent[0], at + spent[0] + spent[1])
    metrics.record(request, at + sum(spent), 50)  # type: ignore[arg-type]
    assert spread(metrics) == {
        "RequestQueueTimeMs": ticks(spent[0]),
        "LocalTimeMs": ticks(spent[1]),
        "ResponseQueueTimeMs": ticks(spent[2]),
        "TotalTimeMs": ticks(sum(spent)),
    }
    assert metrics.size[bucket_of(100)] == 1


def test_waiting_counts_as_remote_and_a_full_socket_as_sending() -> None:
    metrics = RequestMetrics("Produce", 9)
    metrics.record_slow(Stamps(0, 1_000_000, 9_000_000, 3_000_000), 10_000_000, 15_000_000, 50)  # type: ignore[arg-type]
    assert spread(metrics) == {
        "RequestQueueTimeMs": ticks(1_000_000),
        "LocalTimeMs": ticks(2_000_000),
        "RemoteTimeMs": ticks(6_000_000),
        "ResponseQueueTimeMs": ticks(1_000_000),
        "ResponseSendTimeMs": ticks(5_000_000),
        "TotalTimeMs": ticks(15_000_000),
    }


@pytest.mark.parametrize("nanoseconds", [0, 1, 1_023, 1_024, 5_000, 999_999, 123_456_789, 10**11])
def test_a_quantile_is_at_most_an_eighth_above_and_a_tick_below(nanoseconds: int) -> None:
    counts = no_counts()
    counts[ticks(nanoseconds)] += 1
    shown = quantiles_ms(counts, (0.99,))[0] * 1e6
    assert nanoseconds - TICK_NS < shown <= nanoseconds * 9 / 8


def test_phases_that_a_request_did_not_have_took_no_time() -> None:
    api = AllMetrics()
    metrics = api.of("Produce", 9)
    for _ in range(3):
        metrics.record(Stamps(0, 1, 2), 3, 50)  # type: ignore[arg-type]
    metrics.record_slow(Stamps(0, 1, 5_000_000, 2), 5_000_000, 5_000_000, 50)  # type: ignore[arg-type]
    (produce,) = api
    assert [sum(produce.counts(phase)) for phase in PHASES.values()] == [4] * len(PHASES)
    none, some = quantiles(produce.counts("remote"), (0.75, 0.76)) or []
    assert none == 0 != some


def test_versions_are_counted_apart_and_measured_together() -> None:
    metrics = AllMetrics()
    for version in (9, 9, 12):
        metrics.of("Produce", version).record(Stamps(0, 1, 2), 3, 50)  # type: ignore[arg-type]
    metrics.of("Produce", 12).cached += 5
    (produce,) = metrics
    assert produce.by_version() == {9: 2, 12: 6}
    assert sum(produce.counts("total")) == 3


@pytest.mark.parametrize(("answers", "looks"), [(BURST - 1, 1), (BURST, 1), (BURST + 1, 2), (3 * BURST, 3)])
def test_the_clock_is_looked_at_once_for_a_burst_of_answers(answers: int, looks: int) -> None:
    """Each look is a millisecond later than the one before: so many answers lay that much longer."""
    rig = Rig(1_000_000, 100_000)
    metrics = RequestMetrics("Produce", 9)
    route = unused_route(metrics)
    for _ in range(answers):
        channel, _ = rig.connect()
        channel.mute_state = MuteState.MUTED_AND_RESPONSE_PENDING
        request = Request(rig.responder, channel, route, b"", 0, 0)
        request.dequeued = request.completed = 0
        request.reply = b"answer"
        rig.responder.responses.append(request)
    rig.responder._clock = SimpleNamespace(ns=count(1_000_000, 1_000_000).__next__, base_ms=0)  # type: ignore[assignment]
    rig.responder.flush(0)
    rig.close()
    late = [metrics.response_queue[ticks(look * 1_000_000)] for look in range(looks)]
    assert late == [BURST] * (looks - 1) + [answers - BURST * (looks - 1)]


def api(broker: RunningBroker, name: str) -> ApiMetrics:
    return broker.server.socket_server.metrics.by_name[name]


def longest(metrics: ApiMetrics, phase: str) -> float:
    return quantiles_ms(metrics.counts(PHASES[phase]), (1.0,))[0]


def waited_remotely(broker: RunningBroker, name: str) -> int:
    """How many requests were recorded with a remote phase, however short."""
    return sum(sum(part.remote) for part in api(broker, name).parts)


def fetch(*, max_wait_ms: int, offset: int = 0, replica_id: int = -1) -> FetchRequest:
    partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=100_000)
    return FetchRequest(
        replica_id=replica_id,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=100_000,
        session_epoch=-1,
        topics=[FetchTopic("events", partitions=[partition])],
    )


async def test_a_delayed_fetch_waits_remotely(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as broker:
        client = await broker.connect()
        await client.ask(create_topic(), 5)
        mock_clock.jump(1)  # 0 stands for a request that did not wait
        await client.send(fetch(max_wait_ms=800), 11)
        await wait_all_tasks_blocked(0.02)
        mock_clock.jump(0.8)
        await client.receive(1, 11)
        consumer = api(broker, "FetchConsumer")
        waited = longest(consumer, "RemoteTimeMs")
        assert 800 - 0.002 < waited <= 900
        assert longest(consumer, "TotalTimeMs") == waited
        assert longest(consumer, "LocalTimeMs") == 0 == longest(consumer, "RequestQueueTimeMs")


async def test_a_fetch_that_finds_something_waits_for_nothing(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as broker:
        client = await broker.connect()
        await client.ask(create_topic(), 5)
        await client.ask(produce_request(batch_of(b"one")), 9)
        mock_clock.jump(1)
        await client.ask(fetch(max_wait_ms=800), 11)
        assert waited_remotely(broker, "FetchConsumer") == 0


async def test_a_fetch_of_a_follower_is_counted_apart_and_both_as_fetch(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path) as broker:
        client = await broker.connect()
        await client.ask(create_topic(), 5)
        await client.ask(fetch(max_wait_ms=0), 11)
        await client.ask(fetch(max_wait_ms=0, replica_id=2), 11)
        new = fetch(max_wait_ms=0)
        new.replica_state = ReplicaState(2, 0)
        topic_id = broker.server.partitions.by_name["events"].topic_id
        new.topics[0].topic_id = topic_id
        await client.ask(new, 15)
        assert api(broker, "FetchConsumer").by_version() == {11: 1, 15: 0}
        assert api(broker, "FetchFollower").by_version() == {11: 1, 15: 1}
        assert api(broker, "Fetch").by_version() == {11: 2, 15: 1}


async def test_a_throttle_is_measured_and_its_answer_does_not_wait(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path) as broker:
        client = await broker.connect("greedy")
        await client.ask(create_topic(), 5)
        broker.server.quotas.apply(Entity(client_id="greedy"), "producer_byte_rate", 1_000)
        assert (await client.ask(produce_request_of(11_000, "greedy"), 9)).throttle_time_ms == 1_000
        produce = api(broker, "Produce")
        assert 999 < longest(produce, "ThrottleTimeMs") <= 1_125
        assert longest(produce, "TotalTimeMs") == 0


async def test_an_acknowledgement_that_waits_for_the_disk_waits_remotely(tmp_path: Path) -> None:
    async with running_broker(tmp_path, "log.flush.interval.messages=1") as broker:
        client = await broker.connect()
        await client.ask(create_topic(), 5)
        await client.ask(produce_request(batch_of(b"one")), 9)
        assert waited_remotely(broker, "Produce") == 1


async def test_a_change_waits_remotely_for_its_commit(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        client = await broker.connect()
        await client.ask(create_topic(), 5)
        assert waited_remotely(broker, "CreateTopics") == 1


async def test_every_error_code_of_an_answer_counts_and_the_rest_are_none(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path) as broker:
        client = await broker.connect()
        await client.ask(create_topic(), 5)
        await client.ask(create_topic(), 5)
        wanted = [ListOffsetsTopic("nowhere", [ListOffsetsPartition(index) for index in range(3)])]
        await client.ask(ListOffsetsRequest(topics=wanted), 6)
        await client.ask(produce_request(batch_of(b"one")), 9)
        await client.ask(produce_request(batch_of(b"one"), "nowhere"), 9)
        assert api(broker, "CreateTopics").by_error() == {0: 1, 36: 1}
        assert api(broker, "ListOffsets").by_error() == {0: 0, 3: 3}
        assert api(broker, "Produce").by_error() == {0: 1, 3: 1}


async def test_an_append_without_an_answer_has_its_error_counted(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path) as broker:
        client = await broker.connect()
        await client.send(produce_request(batch_of(b"one"), "nowhere", acks=0), 9)
        assert await client.is_closed()
        assert api(broker, "Produce").by_error() == {0: 0, 3: 1}


async def test_cached_answers_are_counted_and_have_no_phases(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as broker:
        client = await broker.connect()
        for _ in range(3):
            await client.ask(ApiVersionsRequest("x", "1"), 3)
        metrics = api(broker, "ApiVersions")
        assert metrics.by_version() == {3: 3} and metrics.by_error() == {0: 3}
        assert sum(metrics.counts("total")) == 1


async def test_versions_that_do_not_exist_are_counted_together(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as broker:
        client = await broker.connect()
        for version in (99, 100):
            head = (18).to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + b"\xff\xff"
            await client.stream.send_all(len(head).to_bytes(4, "big") + head)
            await client.receive(18, 0)
        assert api(broker, "ApiVersions").by_version() == {-1: 2}
        assert api(broker, "ApiVersions").by_error() == {0: 0, 35: 2}


async def test_an_answer_whose_connection_ended_is_recorded(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as broker:
        client = await broker.connect()
        await client.ask(create_topic(), 5)
        await client.ask(produce_request(batch_of(bytes(900_000))), 9)
        big = fetch(max_wait_ms=0)
        big.max_bytes = big.topics[0].partitions[0].partition_max_bytes = 2**30
        for _ in range(12):
            await client.ask(produce_request(batch_of(bytes(900_000))), 9)
        await client.send(big, 11)
        await wait_all_tasks_blocked(0.02)
        assert "FetchConsumer" not in {each.name for each in broker.server.socket_server.metrics}
        mock_clock.jump(2)
        await trio.aclose_forcefully(client.stream)
        await wait_all_tasks_blocked(0.02)
        consumer = api(broker, "FetchConsumer")
        assert consumer.requests == 1
        assert 2_000 - 0.002 < longest(consumer, "ResponseSendTimeMs") <= 2_250


async def test_a_bug_of_ours_is_an_unknown_server_error(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as broker:
        client = await broker.connect()
        await client.ask(create_topic(), 5)
        (listener,) = broker.server.socket_server.listeners
        (route,) = listener.routes.all()

        def fail(*_: object) -> None:
            raise ZeroDivisionError

        route.handle = fail
        answer = await client.ask(create_topic("other"), 5)
        assert [(topic.name, topic.error_code) for topic in answer.topics] == [("other", -1)]
        assert api(broker, "CreateTopics").by_error() == {0: 1, -1: 1}

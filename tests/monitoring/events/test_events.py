"""The broker's events over real connections and a mock clock: a batch a second."""

import json
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from broker.config.sections import BrokerQuotaConfig
from broker.controller.commands import (
    AlterClientQuotas,
    CreateTopics,
    DeleteTopics,
    NewTopic,
    QuotaAlteration,
    QuotaOp,
    TopicRef,
)
from broker.metadata.actor import BROKER_ITSELF, Actor, ChangeOrigin, Role
from broker.metrics.histogram import bucket_of
from broker.monitoring.events.activity import RequestEvents
from broker.monitoring.events.writer import append_rest
from broker.network.requests.client_usage import ApiUsage, UsageTaps
from broker.network.requests.request_metrics import TICK_BITS, AllMetrics
from broker.partitions.event_log import EventBuffer
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.quotas.entity import Entity
from broker.records.build import NewRecord
from tests.monitoring.events.written import (
    event_records,
    partition_records,
    quota_events,
    second_passes,
    values,
    written,
)
from tests.support.live import alter, takes_effect
from tests.support.produce import PRODUCE_VERSION, batch_of, create_topic, produce_request, produce_request_of
from tests.support.running import RunningBroker, running_broker

ALL = "events.topics=requests,throttles,connections,quota_changes"
OPERATOR = Actor("olga", Role.EDITOR, "10.0.0.7", ChangeOrigin.REST)


@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, ALL) as running:
        maker = await running.connect("maker")
        assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
        await maker.stream.aclose()
        await second_passes(running, mock_clock)
        yield running


async def test_a_client_s_requests_of_a_second_are_one_row_by_api(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client, twin = await broker.connect("orders"), await broker.connect("orders")
    for each in (client, client, twin):
        await each.ask(produce_request_of(1_000, "orders"), PRODUCE_VERSION)
    await second_passes(broker, mock_clock)
    (row,) = [each for each in written(broker, "requests") if each.get("client_id") == "orders"]
    assert row.pop("bytes_out") > 0
    assert row == {
        "source": "client",
        "principal": "ANONYMOUS",
        "client_id": "orders",
        "api": "Produce",
        "requests": 3,
        "bytes_in": 3 * 1_004,
        "throttle_ms": 0,
        "errors": {},
        "timed": 3,
        # On the mock clock every phase takes no time: all are in the lowest bucket, of 1,024 ns, and no
        # request waited or filled its socket.
        "local_us": 3 * 2,
        "buckets": [20, 21, 23, 25],
        "counts": [3, 3, 3, 3],
    }


@pytest.mark.parametrize("ns", [0, 1_023, 1_024, 17_000, 1_000_000, 10**9, 2**50, 2**60])
def test_a_bucket_has_its_phase_and_an_upper_edge(ns: int) -> None:
    use = ApiUsage()
    use.requests = use.timed = 7
    for place, phase in enumerate(use.phases):
        phase[bucket_of(ns >> TICK_BITS)] = place + 1
    metrics, usage = AllMetrics(), UsageTaps()
    usage.drain = lambda most: iter([(None, use)])  # type: ignore[method-assign]
    (event,) = RequestEvents(1, usage, metrics).drain(0)
    row = json.loads(event.value)
    assert [each % 10 for each in row["buckets"]] == [0, 1, 2, 3, 4, 5]
    assert row["counts"] == [1, 2, 3, 4, 5, 6]
    (edge,) = {each // 10 for each in row["buckets"]}
    longest = min(ns, 2**50)  # The last bucket has everything beyond.
    assert longest < edge * 1_000 and edge * 8_000 <= max(longest, 16 * 1_024) * 9 + 8_000
    assert row["local_us"] == 2 * edge


async def test_errors_and_throttles_are_in_the_row_of_their_second(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    broker.server.quotas.apply(Entity(client_id="greedy"), "producer_byte_rate", 1_000)
    greedy = await broker.connect("greedy")
    answer = await greedy.ask(produce_request_of(11_000, "greedy"), PRODUCE_VERSION)
    assert answer.throttle_time_ms == 1_000
    lost = await broker.connect("lost")
    await lost.ask(produce_request(batch_of(b"x"), topic="nowhere"), PRODUCE_VERSION)
    await second_passes(broker, mock_clock)
    rows = {each["client_id"]: each for each in written(broker, "requests") if "client_id" in each}
    assert rows["greedy"]["throttle_ms"] == 1_000
    assert rows["lost"]["errors"] == {"3": 1}


async def test_requests_answered_from_the_cache_are_counted_by_api(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect("curious")
    for _ in range(5):
        await client.ask(MetadataRequest([MetadataRequestTopic(name="events")]), 9)
    await second_passes(broker, mock_clock)
    rows = [each for each in written(broker, "requests") if each["api"] == "Metadata"]
    assert sum(each["requests"] for each in rows) == 5
    assert {each["source"] for each in rows} == {"client", "cached"}


async def test_a_throttle_has_its_client_reason_and_time(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    broker.server.quotas.apply(Entity(client_id="greedy"), "producer_byte_rate", 1_000)
    greedy = await broker.connect("greedy")
    await greedy.ask(produce_request_of(11_000, "greedy"), PRODUCE_VERSION)
    await second_passes(broker, mock_clock)
    (row,) = written(broker, "throttles")
    assert row.pop("connection").startswith(f"127.0.0.1:{broker.port}-127.0.0.1:")
    assert row == {
        "kind": "produce",
        "entity": {"client-id": "greedy"},
        "principal": "ANONYMOUS",
        "client_id": "greedy",
        "listener": "PLAINTEXT",
        "address": "127.0.0.1",
        "upstream_node": None,
        "observed": 1_100.0,
        "bound": 1_000.0,
        "count": 1,
        "throttle_ms": 1_000,
        "longest_ms": 1_000,
        "software_name": "unknown",
        "software_version": "unknown",
        "obeys": None,
        "waited": 0,
        "sent_early": 0,
    }


async def test_a_throttle_by_the_quota_of_the_whole_broker_names_that_as_its_rule(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    config = BrokerQuotaConfig(quota_enabled=True, produce_bytes=1_000.0)
    broker.server.quotas.configure_broker(config, broker.server.clock.ms())
    greedy = await broker.connect("greedy")
    answer = await greedy.ask(produce_request_of(12_000, "greedy"), PRODUCE_VERSION)
    await second_passes(broker, mock_clock)
    (row,) = written(broker, "throttles")
    assert (row["kind"], row["entity"]) == ("broker_produce", {"broker quota": "produce bytes"})
    assert (row["bound"], row["throttle_ms"]) == (1_000, answer.throttle_time_ms)


@pytest.mark.parametrize(("sends_at_ms", "seen"), [(500, (False, 0, 3)), (1_000, (True, 3, 0))])
async def test_whether_a_client_waits_is_reported_with_its_throttles_and_each_of_them_once(
    tmp_path: Path, mock_clock: MockClock, sends_at_ms: int, seen: tuple[bool, int, int]
) -> None:
    settings = ALL, "quota.bandwidth.algorithm=rate", "quota.max.throttle.ms=1000"
    async with running_broker(tmp_path, *settings) as broker:
        maker = await broker.connect("maker")
        await maker.ask(create_topic(), 5)
        broker.server.quotas.apply(Entity(client_id="held"), "producer_byte_rate", 1_000)
        client = await broker.connect("held")
        await client.send(produce_request_of(30_000, "held"), PRODUCE_VERSION)
        for _ in range(3):
            await client.receive(0, PRODUCE_VERSION)
            # The broker's checks: after a grace period, and before the end.
            for from_ms, to_ms in pairwise(sorted({0, 250, 500, 980, 1_000})):
                mock_clock.jump((to_ms - from_ms) / 1000 + 1e-7)
                await trio.testing.wait_all_tasks_blocked(0.01)
                if to_ms == sends_at_ms:
                    await client.send(produce_request_of(1_000, "held"), PRODUCE_VERSION)
                    await trio.testing.wait_all_tasks_blocked(0.01)
        await client.receive(0, PRODUCE_VERSION)
        await second_passes(broker, mock_clock)
        rows = [each for each in written(broker, "throttles") if each["client_id"] == "held"]
        counts = sum(each["waited"] for each in rows), sum(each["sent_early"] for each in rows)
        assert (rows[-1]["obeys"], *counts) == seen


async def test_connections_are_reported_as_they_come_and_go(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    before = len(written(broker, "connections"))
    client = await broker.connect("short")
    await client.ask(ApiVersionsRequest("probe", "1.0"), 3)
    await second_passes(broker, mock_clock)
    (opened,) = written(broker, "connections")[before:]
    assert opened["event"] == "opened" and opened["count"] == 1
    assert opened["connection"].endswith(f"127.0.0.1:{client.stream.socket.getsockname()[1]}-0-1")
    await client.stream.aclose()
    await second_passes(broker, mock_clock)
    (closed,) = written(broker, "connections")[before + 1 :]
    assert (closed["event"], closed["client_id"], closed["reason"]) == (
        "closed",
        "short",
        "closed by the peer",
    )
    assert (closed["software_name"], closed["requests"], closed["connection"]) == (
        "probe",
        1,
        opened["connection"],
    )
    assert closed["lived_ms"] == 2_000


async def test_a_storm_is_reported_in_a_row_for_each_reason(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path, ALL, "max.connections.per.ip=3") as broker:
        for _ in range(8):
            await broker.connect()
            await trio.testing.wait_all_tasks_blocked(0.02)
        await second_passes(broker, mock_clock)
        rows = {each["event"]: each for each in written(broker, "connections")}
        assert rows["opened"]["count"] == 3 and rows["opened"]["connection"] is None
        refused = rows["refused"]
        assert (refused["count"], refused["bound"], refused["address"]) == (5, 3, "127.0.0.1")


async def test_a_change_of_a_quota_says_the_editor_and_the_old_value(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    entity = (("user", "alice"), ("client-id", None))
    for value in (1_000.0, 2_000.0, None):
        command = AlterClientQuotas((QuotaAlteration(entity, (QuotaOp("producer_byte_rate", value),)),))
        assert all(outcome.ok for outcome in await broker.server.control.apply(command, OPERATOR))
    await second_passes(broker, mock_clock)
    rows = quota_events(broker, "limit")
    assert [(row["old"], row["new"]) for row in rows] == [(None, 1_000), (1_000, 2_000), (2_000, None)]
    row = rows[0]
    assert row["entity"] == {"user": "alice", "client-id": None} and row["key"] == "producer_byte_rate"
    assert (row["actor"], row["role"], row["address"], row["origin"]) == (
        "olga",
        "editor",
        "10.0.0.7",
        "rest",
    )


async def test_every_record_names_its_cluster_and_node(broker: RunningBroker, mock_clock: MockClock) -> None:
    client = await broker.connect("orders")
    await client.ask(produce_request_of(1_000, "orders"), PRODUCE_VERSION)
    await second_passes(broker, mock_clock)
    cluster = broker.server.control.image.cluster_id.encode()
    for topic in ("__weir_requests", "__weir_connections", "__weir_quota_changes"):
        headers = {each.headers for each in event_records(broker, topic)}
        assert headers == {(("cluster", cluster), ("node", b"1"))}


async def test_a_client_s_rows_are_in_one_of_eight_partitions(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    names = [f"client {number}" for number in range(20)]
    for _ in range(2):
        for name in names:
            client = await broker.connect(name)
            await client.ask(produce_request_of(1_000, name), PRODUCE_VERSION)
        await second_passes(broker, mock_clock)
    assert broker.server.partitions.by_name["__weir_requests"].count == 8
    keys = [
        {each.key for each in partition_records(broker, "__weir_requests", index)} - {None}
        for index in range(8)
    ]
    assert set().union(*keys) >= {f"ANONYMOUS/{name}".encode() for name in names}
    assert sum(map(len, keys)) == len(set().union(*keys)) and sum(map(bool, keys)) > 4


async def test_a_topic_of_one_partition_stays_as_it_is(tmp_path: Path, mock_clock: MockClock) -> None:
    old = NewTopic("__weir_requests", 1, 1, ())
    async with running_broker(tmp_path, ALL) as broker:
        (made,) = await broker.server.control.apply(CreateTopics((old,)), BROKER_ITSELF)
        assert made.ok
        for name in ("orders", "bills", "visits"):
            client = await broker.connect(name)
            await client.ask(produce_request_of(1_000, name), PRODUCE_VERSION)
        await second_passes(broker, mock_clock)
        found = {each.key for each in partition_records(broker, "__weir_requests", 0)}
        assert found >= {f"ANONYMOUS/{name}".encode() for name in ("orders", "bills", "visits")}
        assert broker.server.partitions.by_name["__weir_requests"].count == 1


async def test_nothing_happens_and_nothing_is_written(broker: RunningBroker, mock_clock: MockClock) -> None:
    before = {
        name: len(values(broker, f"__weir_{name}")) for name in ("requests", "connections", "throttles")
    }
    for _ in range(5):
        await second_passes(broker, mock_clock)
    assert before == {name: len(values(broker, f"__weir_{name}")) for name in before}
    assert "__weir_throttles" not in broker.server.partitions.by_name


async def test_clients_beyond_the_rows_are_added_up(tmp_path: Path, mock_clock: MockClock) -> None:
    limits = ("events.topics=requests", "events.max.rows.per.second=2")
    async with running_broker(tmp_path, *limits) as broker:
        maker = await broker.connect("maker")
        await maker.ask(create_topic(), 5)
        await second_passes(broker, mock_clock)
        before = len(written(broker, "requests"))
        for name in ("a", "b", "c", "d"):
            client = await broker.connect(name)
            await client.ask(produce_request_of(500, name), PRODUCE_VERSION)
        await second_passes(broker, mock_clock)
        rows = written(broker, "requests")[before:]
        found = {row.get("client_id"): row["requests"] for row in rows}
        assert len(rows) == 3 and found == {"a": 1, "b": 1, None: 2}
        assert {row["source"] for row in rows if "client_id" not in row} == {"others"}


async def test_clients_can_read_the_topics_and_not_write_to_them(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    reader = await broker.connect("reader")
    answer = await reader.ask(MetadataRequest([MetadataRequestTopic(name="__weir_connections")]), 9)
    assert answer.topics[0].is_internal
    pages = DescribeTopicPartitionsRequest([TopicRequest("__weir_connections")])
    assert (await reader.ask(pages, 0)).topics[0].is_internal
    produced = await reader.ask(produce_request(batch_of(b"{}"), topic="__weir_connections"), PRODUCE_VERSION)
    assert produced.responses[0].partition_responses[0].error_code == 17


async def test_a_topic_that_was_deleted_is_made_again(broker: RunningBroker, mock_clock: MockClock) -> None:
    await broker.server.control.apply(DeleteTopics((TopicRef("__weir_connections"),)), BROKER_ITSELF)
    await broker.connect("late")
    await second_passes(broker, mock_clock)
    assert [row["event"] for row in written(broker, "connections")] == ["opened"]


@takes_effect("events.topics")
async def test_events_are_switched_on_and_off_while_the_broker_runs(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path) as broker:
        client = await broker.connect("steady")
        await client.ask(create_topic(), 5)
        ask = produce_request_of(500, "steady")
        await client.ask(ask, PRODUCE_VERSION)
        await second_passes(broker, mock_clock)
        assert not any(name.startswith("__weir_") for name in broker.server.partitions.by_name)

        await alter(broker, events_topics="requests")
        await client.ask(ask, PRODUCE_VERSION)
        await second_passes(broker, mock_clock)
        steady = [row for row in written(broker, "requests") if row.get("client_id") == "steady"]
        assert [row["requests"] for row in steady] == [1]

        await alter(broker, events_topics="")
        await client.ask(ask, PRODUCE_VERSION)
        await second_passes(broker, mock_clock)
        after = [row for row in written(broker, "requests") if row.get("client_id") == "steady"]
        assert after == steady


async def test_the_last_second_is_written_when_the_broker_stops(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path, ALL) as broker:
        client = await broker.connect("last")
        await client.ask(create_topic(), 5)
    async with running_broker(tmp_path) as again:
        rows = [row for row in written(again, "requests") if row.get("client_id") == "last"]
        assert [row["api"] for row in rows] == ["CreateTopics"]


@pytest.mark.parametrize(
    ("refusals", "appends", "took_s", "left"), [(0, 1, 0.1, 0), (19, 20, 2.0, 0), (20, 20, 2.0, 1)]
)
async def test_a_shutdown_appends_what_waits_for_two_seconds(
    autojump_clock: MockClock, refusals: int, appends: int, took_s: float, left: int
) -> None:
    log, calls = EventBuffer(), 0
    log.offer("__weir_requests", NewRecord(None, b"{}", 0))

    async def append() -> None:
        nonlocal calls
        calls += 1
        if calls > refusals:
            log.take("__weir_requests")

    await append_rest(log, append)
    assert (calls, len(log.topics["__weir_requests"].records)) == (appends, left)
    assert trio.current_time() == pytest.approx(took_s)


async def test_a_shutdown_without_events_does_not_wait(autojump_clock: MockClock) -> None:
    async def append() -> None:
        raise AssertionError("nothing waits")

    await append_rest(EventBuffer(), append)
    assert trio.current_time() == 0

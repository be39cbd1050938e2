"""A Fetch as another broker: subject to the leader's replication throttle and to no client quota."""

from pathlib import Path
from typing import Protocol

import pytest
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.common.errors import ErrorCode
from broker.common.slices import SLICE
from broker.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from broker.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.quotas.entity import Entity
from tests.support.live import SET, alter, takes_effect
from tests.support.produce import PRODUCE_VERSION, batch_of, create_topic, produce_request
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

TOPIC = 2
REPLICA, OURSELVES = 2, 1
PIECES = 2
RECORD = b"x" * 50_000


class Fetch(Protocol):
    def __call__(
        self, *partitions: int, replica: int = REPLICA, max_wait_ms: int = 0, offset: int = 0
    ) -> FetchRequest: ...


def small(*partitions: int, replica: int = REPLICA, max_wait_ms: int = 0, offset: int = 0) -> FetchRequest:
    fetched = [
        FetchPartition(each, fetch_offset=offset, partition_max_bytes=1_000_000) for each in partitions
    ]
    return FetchRequest(
        replica_id=replica,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1_000_000,
        session_epoch=-1,
        topics=[FetchTopic("events", partitions=fetched)],
    )


def large(*partitions: int, replica: int = REPLICA, max_wait_ms: int = 0, offset: int = 0) -> FetchRequest:
    """The same among more partitions than are read in one slice; the others do not exist."""
    request = small(*partitions, replica=replica, max_wait_ms=max_wait_ms, offset=offset)
    for name, first in (("before", 0), ("after", 1)):
        others = [
            FetchPartition(each, fetch_offset=0, partition_max_bytes=1) for each in range(PIECES * SLICE)
        ]
        request.topics.insert(first * len(request.topics), FetchTopic(name, partitions=others))
    return request


@pytest.fixture(params=[small, large], ids=["small", "large"])
def fetch(request: pytest.FixtureRequest) -> Fetch:
    fetch_with: Fetch = request.param
    return fetch_with


async def mark(broker: RunningBroker, replicas: str, key: str = "leader") -> tuple[int, str | None]:
    client = await broker.connect("operator")
    configs = [AlterableConfig(f"{key}.replication.throttled.replicas", SET, replicas)]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(TOPIC, "events", configs)], False)
    answer = (await client.ask(request, 1)).responses[0]
    return answer.error_code, answer.error_message


async def with_records(broker: RunningBroker, partitions: int = 2) -> WireClient:
    client = await broker.connect()
    await client.ask(create_topic(partitions=partitions), 5)
    for index in range(partitions):
        request = produce_request(batch_of(RECORD))
        request.topic_data[0].partition_data[0].index = index
        await client.ask(request, PRODUCE_VERSION)
    return client


def sizes(answer: FetchResponse) -> list[int]:
    return [len(each.records or b"") for each in of_events(answer)]


def of_events(answer: FetchResponse) -> list[PartitionData]:
    """Return the partitions of `events`, which later versions name by its id."""
    topics = [topic for topic in answer.responses if topic.topic in ("", "events")]
    return [each for topic in topics for each in topic.partitions]


@takes_effect("leader.replication.throttled.rate")
async def test_a_marked_partition_is_left_out_while_the_quota_is_exceeded_and_others_are_not(
    tmp_path: Path, fetch: Fetch, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path) as broker:
        client = await with_records(broker)
        await alter(broker, leader_replication_throttled_rate="10000")
        assert await mark(broker, "0:1") == (0, None)
        # 50 kB in the first second are five times the rate, and are through: what comes next is throttled.
        first = await client.ask(fetch(0, 1), 11)
        assert all(size > 50_000 for size in sizes(first))
        second = await client.ask(fetch(0, 1), 11)
        assert sizes(second)[0] == 0 and sizes(second)[1] > 50_000
        partition = of_events(second)[0]
        assert (partition.error_code, partition.high_watermark, partition.log_start_offset) == (0, 1, 0)
        observed = broker.server.storage.replication.leader.observed(broker.server.clock.ms())
        assert 50_000 < observed < 50_500, "only what was sent of the marked one was counted"
        # Of just over 50 kB one second's worth was free; the rest is repaid in just over four seconds.
        mock_clock.jump(4.0)
        assert sizes(await client.ask(fetch(0), 11)) == [0]
        mock_clock.jump(0.1)
        assert sizes(await client.ask(fetch(0), 11))[0] > 50_000


async def test_traffic_of_marked_partitions_is_counted_without_a_bound_too(
    tmp_path: Path, fetch: Fetch
) -> None:
    async with running_broker(tmp_path) as broker:
        client = await with_records(broker)
        await mark(broker, "*")
        for _ in range(2):
            assert all(size > 50_000 for size in sizes(await client.ask(fetch(0, 1), 11)))
        page = broker.server.prometheus.page()
        assert "kafka_server_leaderreplication_byte_rate 200" in page
        assert "\nkafka_server_leaderreplication_quota_bound" not in page


async def test_a_replica_in_sync_and_a_consumer_are_never_throttled(tmp_path: Path, fetch: Fetch) -> None:
    async with running_broker(tmp_path, "leader.replication.throttled.rate=1") as broker:
        client = await with_records(broker)
        await mark(broker, "*")
        assert all(size > 50_000 for size in sizes(await client.ask(fetch(0), 11)))
        assert sizes(await client.ask(fetch(0), 11)) == [0]
        for replica in (OURSELVES, -1):
            assert all(size > 50_000 for size in sizes(await client.ask(fetch(0, replica=replica), 11)))


async def test_another_brokers_replica_in_the_list_marks_nothing_here(tmp_path: Path, fetch: Fetch) -> None:
    async with running_broker(tmp_path, "leader.replication.throttled.rate=1") as broker:
        client = await with_records(broker)
        await mark(broker, "0:2,1:1")
        for _ in range(2):
            assert sizes(await client.ask(fetch(0), 11))[0] > 50_000
        assert sizes(await client.ask(fetch(1), 11))[0] > 50_000
        assert sizes(await client.ask(fetch(1), 11)) == [0]


async def test_a_held_replica_waits_for_its_time_and_an_append_does_not_wake_it(
    tmp_path: Path, fetch: Fetch, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path, "leader.replication.throttled.rate=1000") as broker:
        client = await with_records(broker)
        await mark(broker, "0:1")
        await client.ask(fetch(0), 11)
        producer = await broker.connect()
        await client.send(fetch(0, max_wait_ms=500), 11)
        await wait_all_tasks_blocked(0.01)
        await producer.ask(produce_request(batch_of(RECORD)), PRODUCE_VERSION)
        mock_clock.jump(0.499)
        await wait_all_tasks_blocked(0.01)
        assert broker.server.fetches.delayed == 1
        mock_clock.jump(0.101)
        _, answer = await client.receive(1, 11)
        assert sizes(answer) == [0]


async def test_a_held_replica_is_told_of_an_offset_that_is_out_of_range_at_once(
    tmp_path: Path, fetch: Fetch
) -> None:
    async with running_broker(tmp_path, "leader.replication.throttled.rate=1") as broker:
        client = await with_records(broker)
        await mark(broker, "0:1")
        await client.ask(fetch(0), 11)
        answer = await client.ask(fetch(0, offset=7, max_wait_ms=60_000), 11)
        assert of_events(answer)[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_client_quotas_neither_hold_nor_count_a_replica(
    tmp_path: Path, fetch: Fetch, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path) as broker:
        client = await with_records(broker)
        quotas = broker.server.quotas
        quotas.apply(Entity(None, client.client_id), "consumer_byte_rate", 1_000)
        for _ in range(3):
            answer = await client.ask(fetch(0), 11)
            assert answer.throttle_time_ms == 0 and sizes(answer)[0] > 50_000
        assert list(quotas.fetch.sensors()) == []
        assert (await client.ask(fetch(0, replica=-1), 11)).throttle_time_ms > 0


async def test_a_replica_by_its_state_is_one_too_and_is_not_cached(tmp_path: Path) -> None:
    async with running_broker(tmp_path, "leader.replication.throttled.rate=1") as broker:
        client = await with_records(broker)
        await mark(broker, "*")
        request = small(0, replica=-1)
        request.replica_state = ReplicaState(REPLICA, 0)
        request.topics[0].topic_id = broker.server.partitions.by_name["events"].topic_id
        assert sizes(await client.ask(request, 15))[0] > 50_000
        assert sizes(await client.ask(request, 15)) == [0]


async def test_a_client_that_may_not_administer_the_cluster_may_not_ask_as_a_replica(
    tmp_path: Path, fetch: Fetch
) -> None:
    async with running_broker(tmp_path) as broker:
        client = await with_records(broker)
        security = broker.server.security.config
        broker.server.security.configure(type(security)(wire_role="editor"))
        answer = await client.ask(fetch(0), 11)
        assert of_events(answer)[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert sizes(await client.ask(fetch(0, replica=-1), 11))[0] > 50_000


@pytest.mark.parametrize("replicas", ["1", "0:1:2", "a:b", "*,0:1"])
async def test_replicas_that_are_none_are_refused_in_kafkas_words(tmp_path: Path, replicas: str) -> None:
    async with running_broker(tmp_path) as broker:
        client = await broker.connect()
        await client.ask(create_topic(), 5)
        key = "leader.replication.throttled.replicas"
        shown = ", ".join(replicas.split(","))
        assert await mark(broker, replicas) == (
            ErrorCode.INVALID_CONFIG,
            f"Invalid value [{shown}] for configuration {key}: {key} must be the literal '*' or a list of "
            "replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
        )


@takes_effect("follower.replication.throttled.rate")
async def test_the_followers_bound_is_kept_until_there_is_a_leader_to_follow(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await with_records(broker)
        await alter(broker, follower_replication_throttled_rate="5000")
        assert await mark(broker, "1:1", key="follower") == (0, None)
        follower = broker.server.storage.replication.follower
        assert follower.bound == 5_000
        assert follower.is_marked("events", 1) and not follower.is_marked("events", 0)

"""cluster.quota.* over the wire: set at run time, and enforced for every request that creates topics."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.common.errors import ErrorCode
from broker.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.live import alter, takes_effect
from tests.support.produce import create_topic
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path) as running:
        yield running


async def create(client: WireClient, name: str, partitions: int = 1) -> tuple[int, str | None]:
    (topic,) = (await client.ask(create_topic(name, partitions), 5)).topics
    return topic.error_code, topic.error_message


@takes_effect("cluster.quota.topic.count")
async def test_no_more_topics_than_the_quota_allows(broker: RunningBroker) -> None:
    client = await broker.connect()
    assert await create(client, "a") == (0, None)
    await alter(broker, cluster_quota_topic_count="2")
    assert await create(client, "b") == (0, None)
    refused = (ErrorCode.POLICY_VIOLATION, "There are 2 topics, and cluster.quota.topic.count allows 2.")
    assert await create(client, "c") == refused
    await alter(broker, cluster_quota_topic_count=None)
    assert await create(client, "c") == (0, None)


@takes_effect("cluster.quota.partition.count")
async def test_no_more_partitions_than_the_quota_allows(broker: RunningBroker) -> None:
    client = await broker.connect()
    await alter(broker, cluster_quota_partition_count="4")
    assert await create(client, "a", 3) == (0, None)
    for count, error in (
        (5, ErrorCode.POLICY_VIOLATION),
        (4, ErrorCode.NONE),
        (5, ErrorCode.POLICY_VIOLATION),
    ):
        request = CreatePartitionsRequest([CreatePartitionsTopic("a", count)], 5_000, False)
        (result,) = (await client.ask(request, 3)).results
        assert result.error_code == error
    assert "allows" in result.error_message


async def test_a_topic_is_not_made_automatically_beyond_the_quota(broker: RunningBroker) -> None:
    client = await broker.connect()
    await alter(broker, cluster_quota_topic_count="1")
    for name, error in (("a", ErrorCode.NONE), ("b", ErrorCode.POLICY_VIOLATION), ("a", ErrorCode.NONE)):
        request = MetadataRequest([MetadataRequestTopic(name=name)], True)
        (topic,) = (await client.ask(request, 9)).topics
        assert topic.error_code == error
    assert set(broker.server.control.image.topics) == {"a"}


async def test_the_topic_of_committed_offsets_counts_and_is_refused_like_any_other(
    broker: RunningBroker,
) -> None:
    client = await broker.connect()
    await alter(broker, cluster_quota_topic_count="0")
    answer = await client.ask(FindCoordinatorRequest(key="group"), 2)
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    await alter(broker, cluster_quota_topic_count="1")
    assert (await client.ask(FindCoordinatorRequest(key="group"), 2)).error_code == ErrorCode.NONE
    assert (await create(client, "a"))[0] == ErrorCode.POLICY_VIOLATION


async def test_the_brokers_event_topics_are_refused_too_and_made_when_there_is_a_place(
    tmp_path: Path,
) -> None:
    settings = ("events.topics=connections", "cluster.quota.topic.count=0")
    async with running_broker(tmp_path, *settings) as running:
        await running.connect()
        await running.server.events.write()
        assert running.server.control.image.topics == {}
        await alter(running, cluster_quota_topic_count="1")
        await running.server.events.write()
        assert set(running.server.control.image.topics) == {"__weir_connections"}

"""What a gateway shows of its cluster while a node is frozen or refuses something, and what it sends."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
import trio
from trio.testing import MockClock

from broker.common.errors import ApiError, ErrorCode
from broker.common.slice_runner import OneAtATime
from broker.config.load import load
from broker.controller.group_changes import DeleteGroupOffsets, ResetKind, ResetOffsets
from broker.controller.plan import Situation
from broker.controller.rows.upstream import RefusedRead
from broker.controller.topic_records import BrowseRecords, Start, StartKind
from broker.gateway.contents.asking import TIMEOUT_MS, Asking
from broker.gateway.contents.group_changes import GroupChanges
from broker.gateway.contents.groups import read_group, read_groups
from broker.gateway.contents.readings import UpstreamReadings
from broker.gateway.contents.records import THROTTLED_MS, UpstreamRecords
from broker.gateway.contents.refusals import Notes
from broker.gateway.contents.topics import LISTED_AT_ONCE, TopicContents, read_topics
from broker.gateway.upstream.errors import UpstreamError
from broker.network.clock import TrioClock
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.describe_configs import DescribeConfigsResponse, DescribeConfigsResult
from broker.protocol.messages.describe_groups import DescribeGroupsResponse
from broker.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from broker.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from broker.protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from broker.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from broker.protocol.messages.log_dirs import DescribeLogDirsResponse
from broker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from broker.records.build import NewRecord, build_batch
from tests.gateway.upstream.test_client import client_of
from tests.support.fake_upstream import FakeCluster, FakeNode, fake_cluster

VERSIONS = {
    ApiKey.LIST_OFFSETS: (1, 10),
    ApiKey.DESCRIBE_LOG_DIRS: (1, 4),
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 6),
    ApiKey.OFFSET_FETCH: (1, 9),
}


def metadata(leaders: list[int], topics: int = 1) -> MetadataResponse:
    """Topics t0, t1, ... whose partitions have these leaders."""
    partitions = [
        MetadataResponsePartition(0, index, leader, replica_nodes=[0, 1], isr_nodes=[0])
        for index, leader in enumerate(leaders)
    ]
    return MetadataResponse(
        topics=[MetadataResponseTopic(0, f"t{each}", partitions=partitions) for each in range(topics)]
    )


def offsets(request: Any, first: int = 5, end: int = 12) -> ListOffsetsResponse:
    """Every partition begins and ends there."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                topic.name,
                [
                    ListOffsetsPartitionResponse(
                        each.partition_index, offset=first if each.timestamp == -2 else end
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def refused_configs(request: Any) -> DescribeConfigsResponse:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(code, None, each.resource_type, each.resource_name)
            for each in request.resources
        ]
    )


def prepare(node: FakeNode, leaders: list[int], topics: int = 1) -> None:
    node.versions |= VERSIONS
    node.answers |= {
        ApiKey.METADATA: lambda _request: metadata(leaders, topics),
        ApiKey.LIST_OFFSETS: offsets,
        ApiKey.DESCRIBE_LOG_DIRS: lambda _request: DescribeLogDirsResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        ),
        ApiKey.DESCRIBE_CONFIGS: refused_configs,
    }


@asynccontextmanager
async def asking(nodes: int = 2, rate: int = 1_000) -> AsyncIterator[tuple[FakeCluster, Asking]]:
    async with fake_cluster(nodes) as cluster, client_of(cluster) as client:
        ids = [node.node_id for node in cluster.live]
        yield cluster, Asking(client, lambda: ids, lambda: 0, lambda: True, rate)


async def read(found: Asking, notes: Notes) -> TopicContents:
    return (await read_topics(found, notes))["t0"]


async def test_what_is_refused_leaves_the_rest_and_names_the_acls() -> None:
    async with asking(1) as (cluster, found):
        prepare(cluster.live[0], [0, 0, -1], topics=3)
        notes = Notes()
        topic = await read(found, notes)
        assert (topic.row.records, topic.row.size_bytes, topic.row.configs) == (14, None, ())
        partitions = list(topic.partitions())
        assert [(each.start, each.end, each.size_bytes) for each in partitions[:2]] == [(5, 12, None)] * 2
        assert [each.leader for each in partitions] == [0, 0, -1] and partitions[2].offline
        assert (partitions[0].replicas, partitions[0].isr) == ((0, 1), (0,))
        assert notes.errors == []
        assert sorted(notes.refused, key=lambda each: each.api) == [
            RefusedRead(
                "DescribeConfigs", "TOPIC_AUTHORIZATION_FAILED", "DESCRIBE_CONFIGS", "TOPIC", "t0", 3
            ),
            RefusedRead(
                "DescribeLogDirs",
                "CLUSTER_AUTHORIZATION_FAILED",
                "DESCRIBE",
                "CLUSTER",
                "kafka-cluster",
                1,
            ),
        ]


async def test_a_frozen_node_takes_its_own_partitions_only(autojump_clock: MockClock) -> None:
    async with asking() as (cluster, found):
        for node in cluster.live:
            prepare(node, [0, 1])
        cluster.live[1].answers_nothing = True
        notes, begun = Notes(), trio.current_time()
        with trio.fail_after(3 * TIMEOUT_MS / 1_000):
            topic = await read(found, notes)
        assert trio.current_time() - begun <= 2 * TIMEOUT_MS / 1_000 + 1
        assert [(each.start, each.end) for each in topic.partitions()] == [(5, 12), (0, 0)]
        (error,) = notes.errors
        assert "within" in error or "did not answer" in error


async def test_a_cluster_that_answers_nothing_fails_in_time(autojump_clock: MockClock) -> None:
    async with asking() as (cluster, found):
        for node in cluster.live:
            node.versions |= VERSIONS
            await found.ask(node.node_id, metadata_request())
            node.answers_nothing = True
        begun = trio.current_time()
        with pytest.raises(UpstreamError):
            await read_groups(found, Notes())
        assert trio.current_time() - begun == pytest.approx(TIMEOUT_MS / 1_000, abs=0.1)


async def test_many_requests_to_a_frozen_node_end_with_the_first_and_hold_back_no_others(
    autojump_clock: MockClock,
) -> None:
    async with asking() as (cluster, found):
        for node in cluster.live:
            prepare(node, [0, 1])
        frozen, other = cluster.live
        await found.ask(frozen.node_id, metadata_request())
        frozen.answers_nothing = True
        begun, ends = trio.current_time(), []

        async def ask() -> None:
            with pytest.raises(UpstreamError):
                await found.ask(frozen.node_id, metadata_request())
            ends.append(trio.current_time() - begun)

        with trio.fail_after(3 * TIMEOUT_MS / 1_000):
            async with trio.open_nursery() as nursery:
                for _ in range(40):
                    nursery.start_soon(ask)
                await trio.sleep(1)
                await found.ask(other.node_id, metadata_request())
                assert trio.current_time() - begun < 2
        assert ends == pytest.approx([TIMEOUT_MS / 1_000] * 40, abs=0.1)
        frozen.answers_nothing = False
        await found.ask(frozen.node_id, metadata_request())


async def test_nodes_that_are_gone_are_forgotten_once_nothing_is_asked_of_them(
    autojump_clock: MockClock,
) -> None:
    async with fake_cluster(3) as cluster, client_of(cluster) as client:
        ids = {0, 1, 2}
        found = Asking(client, lambda: ids, lambda: 0, lambda: True, 1_000)
        for node in cluster.live:
            prepare(node, [0])
            await found.ask(node.node_id, metadata_request())
        _, failed, silent = cluster.live
        for node in (failed, silent):
            node.answers_nothing = True
        with pytest.raises(UpstreamError):
            await found.ask(failed.node_id, metadata_request())
        assert set(found._node_slots) == ids and set(found._failed) == {failed.node_id}

        async def wait() -> None:
            with pytest.raises(UpstreamError):
                await found.ask(silent.node_id, metadata_request())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep(1)
            ids = {0}
            # A node, or none, of which nothing has been asked: nodes may have changed.
            await found.ask(None, metadata_request())
            assert set(found._node_slots) == {0, silent.node_id, None} and not found._failed
        ids = {0, 3}
        with pytest.raises(UpstreamError):
            await found.ask(3, metadata_request())
        assert set(found._node_slots) == {0, 3, None} and not found._failed


def metadata_request() -> MetadataRequest:
    return MetadataRequest([])


@pytest.mark.parametrize(
    ("partitions", "requests"),
    [(LISTED_AT_ONCE - 1, 2), (LISTED_AT_ONCE, 2), (LISTED_AT_ONCE + 1, 4)],
)
async def test_many_partitions_are_several_requests(partitions: int, requests: int) -> None:
    async with asking(1) as (cluster, found):
        (node,) = cluster.live
        prepare(node, [0] * partitions)
        topic = await read(found, Notes())
        assert topic.row.records == 7 * partitions
        assert node.count(ApiKey.LIST_OFFSETS) == requests


async def test_no_second_has_more_requests_than_allowed(autojump_clock: MockClock) -> None:
    async with asking(1, rate=3) as (cluster, found):
        (node,) = cluster.live
        prepare(node, [0])
        times: list[float] = []
        answer = node.answers[ApiKey.METADATA]

        def note(request: Any) -> Any:
            times.append(trio.current_time())
            return answer(request)

        node.answers[ApiKey.METADATA] = note
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(found.ask, 0, metadata_request())
        assert len(times) == 10
        for at in range(len(times) - 3):
            assert times[at + 3] - times[at] >= 0.99


async def test_another_cluster_is_asked_nothing() -> None:
    async with fake_cluster(1) as cluster, client_of(cluster) as client:
        found = Asking(client, lambda: [0], lambda: 0, lambda: False, 10)
        with pytest.raises(UpstreamError, match="another one"):
            await found.ask(0, metadata_request())
        with pytest.raises(ApiError) as caught:
            await found.change(0, metadata_request())
        assert caught.value.code is ErrorCode.BROKER_NOT_AVAILABLE
        assert cluster.live[0].requests == []


async def test_a_cancelled_change_waits_for_its_response(mock_clock: MockClock) -> None:
    async with asking(1) as (cluster, found):
        (node,) = cluster.live
        prepare(node, [0])
        node.delay_s = 3
        changed = []

        async def change() -> None:
            changed.append(await found.change_at_controller(metadata_request()))

        mock_clock.autojump_threshold = 0.01
        with trio.move_on_after(1):
            await change()
        assert len(changed) == 1


async def test_the_lag_of_partitions_that_cannot_be_read_is_unknown_and_not_zero() -> None:
    async with asking(1) as (cluster, found):
        (node,) = cluster.live
        prepare(node, [0, 0])
        node.answers[ApiKey.LIST_GROUPS] = lambda _request: ListGroupsResponse(
            groups=[ListedGroup("readers", "consumer", "Stable", "Classic")]
        )
        partitions = [OffsetFetchResponsePartitions(index, 2) for index in (0, 1)]
        topics = [OffsetFetchResponseTopics("t0", partitions=partitions)]
        node.answers[ApiKey.OFFSET_FETCH] = lambda _request: OffsetFetchResponse(
            groups=[OffsetFetchResponseGroup("readers", topics)]
        )
        node.answers[ApiKey.DESCRIBE_GROUPS] = lambda _request: DescribeGroupsResponse()
        assert (await read_groups(found, Notes()))["readers"].lag == 20
        node.answers[ApiKey.METADATA] = lambda _request: MetadataResponse(
            topics=[MetadataResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "t0")]
        )
        notes = Notes()
        assert (await read_groups(found, notes))["readers"].lag is None
        (refused,) = [each for each in notes.refused if each.api == "Metadata"]
        assert refused.resource_name == "t0"


async def test_a_lag_is_known_where_a_topic_is_gone_and_not_where_its_end_is_missing() -> None:
    async with asking(1) as (cluster, found):
        (node,) = cluster.live
        prepare(node, [0, -1])
        committed_in(node, "readers", ("t0", 0, 2), ("gone", 0, 4), ("t0", 7, 1))
        row = (await read_groups(found, Notes()))["readers"]
        assert (row.lag, row.lag_is_known) == (10, True)
        committed_in(node, "readers", ("t0", 0, 2), ("t0", 1, 2))
        row = (await read_groups(found, Notes()))["readers"]
        assert (row.lag, row.lag_is_known) == (10, False)
        committed_in(node, "readers")
        row = (await read_groups(found, Notes()))["readers"]
        assert (row.lag, row.lag_is_known) == (None, True)
        node.answers[ApiKey.OFFSET_FETCH] = lambda _request: OffsetFetchResponse(
            groups=[OffsetFetchResponseGroup("readers", error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)]
        )
        row = (await read_groups(found, Notes()))["readers"]
        assert (row.lag, row.lag_is_known) == (None, False)


async def test_a_lag_is_not_known_where_the_offset_of_a_partition_cannot_be_read() -> None:
    async with asking(1) as (cluster, found):
        (node,) = cluster.live
        prepare(node, [0, 0])
        committed_in(node, "readers", ("t0", 0, 2))
        bad = OffsetFetchResponsePartitions(1, -1, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
        good = OffsetFetchResponsePartitions(0, 2)
        topics = [OffsetFetchResponseTopics("t0", partitions=[good, bad])]
        node.answers[ApiKey.OFFSET_FETCH] = lambda _request: OffsetFetchResponse(
            groups=[OffsetFetchResponseGroup("readers", topics)]
        )
        row = (await read_groups(found, Notes()))["readers"]
        assert (row.lag, row.lag_is_known) == (10, False)


async def test_a_list_is_whole_only_if_every_node_has_listed_its_groups(autojump_clock: MockClock) -> None:
    async with asking() as (cluster, found):
        for node in cluster.live:
            prepare(node, [0])
            committed_in(node, f"of-{node.node_id}")
        notes = Notes()
        assert set(await read_groups(found, notes)) == {"of-0", "of-1"} and notes.lists_all
        second = cluster.live[1]
        second.answers[ApiKey.LIST_GROUPS] = lambda _request: ListGroupsResponse(
            error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        )
        notes = Notes()
        assert set(await read_groups(found, notes)) == {"of-0"} and not notes.lists_all
        second.answers_nothing = True
        notes = Notes()
        assert set(await read_groups(found, notes)) == {"of-0"} and not notes.lists_all


@pytest.mark.parametrize("last", [2, 7, 8, 9])
async def test_offsets_are_read_from_brokers_that_take_one_group_a_request(last: int) -> None:
    """From version 8 on a request is about several groups."""
    async with asking(1) as (cluster, found):
        (node,) = cluster.live
        prepare(node, [0, 0])
        node.versions[ApiKey.OFFSET_FETCH] = (0, last)
        node.answers[ApiKey.LIST_GROUPS] = lambda _request: ListGroupsResponse(
            groups=[ListedGroup(name, "consumer", "Stable", "Classic") for name in ("a", "b", "none")]
        )
        node.answers[ApiKey.DESCRIBE_GROUPS] = lambda _request: DescribeGroupsResponse()
        committed = {"a": [("t0", 0, 2)], "b": [("t0", 0, 5), ("t0", 1, 12)], "none": []}
        node.answers[ApiKey.OFFSET_FETCH] = lambda request: (
            several(request, committed) if last >= 8 else single(request, committed)
        )
        notes = Notes()
        rows = await read_groups(found, notes)
        assert {name: (row.lag, row.lag_is_known) for name, row in rows.items()} == {
            "a": (10, True),
            "b": (7, True),
            "none": (None, True),
        }
        asked = [version for key, version in node.request_versions if key == ApiKey.OFFSET_FETCH]
        assert asked == ([last] if last >= 8 else [last] * 3)
        assert not any("OffsetFetch" in error for error in notes.errors)


async def test_one_group_of_an_older_broker_can_be_refused() -> None:
    async with asking(1) as (cluster, found):
        (node,) = cluster.live
        prepare(node, [0])
        node.versions[ApiKey.OFFSET_FETCH] = (0, 7)
        node.answers[ApiKey.LIST_GROUPS] = lambda _request: ListGroupsResponse(
            groups=[ListedGroup(name, "consumer", "Stable", "Classic") for name in ("a", "b")]
        )
        node.answers[ApiKey.DESCRIBE_GROUPS] = lambda _request: DescribeGroupsResponse()
        node.answers[ApiKey.OFFSET_FETCH] = lambda request: (
            OffsetFetchResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
            if request.group_id == "a"
            else single(request, {"b": [("t0", 0, 2)]})
        )
        notes = Notes()
        rows = await read_groups(found, notes)
        assert [(rows[name].lag, rows[name].lag_is_known) for name in "ab"] == [(None, False), (10, True)]
        (refused,) = [each for each in notes.refused if each.api == "OffsetFetch"]
        assert (refused.resource_type, refused.resource_name) == ("GROUP", "a")


async def test_without_a_usable_version_the_lag_is_unknown() -> None:
    """Version 1 cannot ask for all topics."""
    async with asking(1) as (cluster, found):
        (node,) = cluster.live
        prepare(node, [0])
        committed_in(node, "readers", ("t0", 0, 2))
        node.versions[ApiKey.OFFSET_FETCH] = (0, 1)
        notes = Notes()
        row = (await read_groups(found, notes))["readers"]
        assert (row.lag, row.lag_is_known) == (None, False)
        assert any("does not serve OffsetFetch" in error for error in notes.errors)


Offsets = list[tuple[str, int, int]]
"""Topics, partitions and committed offsets."""


def committed_in(node: FakeNode, group: str, *committed: tuple[str, int, int]) -> None:
    """Let the node list a group with these offsets; t0 alone exists."""
    node.answers[ApiKey.LIST_GROUPS] = lambda _request: ListGroupsResponse(
        groups=[ListedGroup(group, "consumer", "Stable", "Classic")]
    )
    node.answers[ApiKey.OFFSET_FETCH] = lambda request: several(request, {group: list(committed)})
    node.answers[ApiKey.DESCRIBE_GROUPS] = lambda _request: DescribeGroupsResponse()
    t0 = node.answers[ApiKey.METADATA](None).topics[0]

    def topics(request: Any) -> MetadataResponse:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return MetadataResponse(
            topics=[
                t0 if each.name == "t0" else MetadataResponseTopic(unknown, each.name)
                for each in request.topics
            ]
        )

    node.answers[ApiKey.METADATA] = lambda request: (
        topics(request) if request else MetadataResponse(topics=[t0])
    )


def several(request: Any, committed: dict[str, Offsets]) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        groups=[
            OffsetFetchResponseGroup(
                each.group_id,
                [
                    OffsetFetchResponseTopics(
                        topic, partitions=[OffsetFetchResponsePartitions(index, offset)]
                    )
                    for topic, index, offset in committed[each.group_id]
                ],
            )
            for each in request.groups
        ]
    )


def single(request: Any, committed: dict[str, Offsets]) -> OffsetFetchResponse:
    assert request.topics is None
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(topic, [OffsetFetchResponsePartition(index, offset)])
            for topic, index, offset in committed[request.group_id]
        ]
    )


async def test_groups_whose_parts_are_refused_are_listed() -> None:
    async with asking(1) as (cluster, found):
        (node,) = cluster.live
        prepare(node, [0])
        node.answers[ApiKey.LIST_GROUPS] = lambda _request: ListGroupsResponse(
            groups=[ListedGroup("readers", "consumer", "Stable", "Classic")]
        )
        notes = Notes()
        rows = await read_groups(found, notes)
        row = rows["readers"]
        assert (row.state, row.protocol, row.members, row.lag, row.group_type) == (
            "Stable",
            "consumer",
            0,
            None,
            "classic",
        )
        assert len(notes.errors) >= 1


def committed(request: Any) -> OffsetFetchResponse:
    """Three groups have read 1, 2 and 3 records; as in Kafka, the version decides who is answered."""

    def offset(group_id: str) -> int:
        return int(group_id.removeprefix("readers-"))

    if not request.groups:
        partitions = [OffsetFetchResponsePartition(0, offset(request.group_id))]
        return OffsetFetchResponse(topics=[OffsetFetchResponseTopic("t0", partitions)])
    return OffsetFetchResponse(
        groups=[
            OffsetFetchResponseGroup(
                each.group_id,
                [
                    OffsetFetchResponseTopics(
                        "t0", partitions=[OffsetFetchResponsePartitions(0, offset(each.group_id))]
                    )
                ],
            )
            for each in request.groups
        ]
    )


@pytest.mark.parametrize(("last_version", "requests"), [(2, 3), (7, 3), (8, 1), (9, 1)])
async def test_brokers_that_answer_for_one_group_at_a_time_are_asked_for_each(
    last_version: int, requests: int
) -> None:
    """Kafka before 3.0. A reset of all offsets would else succeed, and reset none. (KIP-709)"""
    async with asking(1) as (cluster, found):
        (node,) = cluster.live
        prepare(node, [0])
        node.versions[ApiKey.OFFSET_FETCH] = (1, last_version)
        ids = [f"readers-{number}" for number in (1, 2, 3)]
        node.answers[ApiKey.LIST_GROUPS] = lambda _request: ListGroupsResponse(
            groups=[ListedGroup(each, "consumer", "Empty", "Classic") for each in ids]
        )
        node.answers[ApiKey.DESCRIBE_GROUPS] = lambda _request: DescribeGroupsResponse()
        node.answers[ApiKey.OFFSET_FETCH] = committed
        node.answers[ApiKey.FIND_COORDINATOR] = coordinated
        rows = await read_groups(found, Notes())
        assert {name: row.lag for name, row in rows.items()} == dict(zip(ids, (11, 10, 9), strict=True))
        assert node.count(ApiKey.OFFSET_FETCH) == requests
        detail = await read_group(found, Notes(), ids[1])
        assert detail is not None and [each.committed for each in detail.offsets] == [2]
        assert node.count(ApiKey.OFFSET_FETCH) == requests + 1


async def test_an_old_brokers_refusal_of_one_group_leaves_the_others() -> None:
    async with asking(1) as (cluster, found):
        (node,) = cluster.live
        prepare(node, [0])
        node.versions[ApiKey.OFFSET_FETCH] = (1, 7)
        node.answers[ApiKey.LIST_GROUPS] = lambda _request: ListGroupsResponse(
            groups=[ListedGroup(f"readers-{number}", "consumer", "Empty", "Classic") for number in (1, 2)]
        )
        node.answers[ApiKey.DESCRIBE_GROUPS] = lambda _request: DescribeGroupsResponse()
        node.answers[ApiKey.OFFSET_FETCH] = lambda request: (
            OffsetFetchResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
            if request.group_id == "readers-1"
            else committed(request)
        )
        notes = Notes()
        rows = await read_groups(found, notes)
        assert [rows[f"readers-{number}"].lag for number in (1, 2)] == [None, 10]
        assert [(each.api, each.resource_name) for each in notes.refused] == [("OffsetFetch", "readers-1")]


def coordinated(request: Any) -> FindCoordinatorResponse:
    """Node 0 coordinates everything."""
    return FindCoordinatorResponse(coordinators=[Coordinator(key, 0) for key in request.coordinator_keys])


LOADING: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_groups_of_a_coordinator_that_is_loading_are_not_gone() -> None:
    async with asking(1) as (cluster, found):
        (node,) = cluster.live
        prepare(node, [0])
        known = [ListedGroup("readers-1", "consumer", "Empty", "Classic")]
        node.answers[ApiKey.LIST_GROUPS] = lambda _request: ListGroupsResponse(
            error_code=LOADING, groups=known
        )
        node.answers[ApiKey.DESCRIBE_GROUPS] = lambda _request: DescribeGroupsResponse()
        node.answers[ApiKey.OFFSET_FETCH] = committed
        node.answers[ApiKey.FIND_COORDINATOR] = coordinated
        notes = Notes()
        assert list(await read_groups(found, notes)) == ["readers-1"]
        assert "COORDINATOR_LOAD_IN_PROGRESS" in notes.errors[0]
        assert await read_group(found, Notes(), "readers-1") is not None
        with pytest.raises(ApiError) as caught:
            await read_group(found, Notes(), "readers-2")
        assert caught.value.code is LOADING


@pytest.mark.parametrize("is_cut", [False, True])
async def test_offsets_that_cannot_be_read_are_not_reset(is_cut: bool) -> None:
    """A reset of all that the group has would say that it has made it, and make nothing."""
    async with asking(1) as (cluster, found):
        (node,) = cluster.live
        prepare(node, [0])
        node.answers[ApiKey.LIST_GROUPS] = lambda _request: ListGroupsResponse(
            groups=[ListedGroup("readers-1", "consumer", "Empty", "Classic")]
        )
        node.answers[ApiKey.DESCRIBE_GROUPS] = lambda _request: DescribeGroupsResponse()
        node.answers[ApiKey.FIND_COORDINATOR] = coordinated
        node.answers[ApiKey.OFFSET_FETCH] = lambda _request: (
            None
            if is_cut
            else OffsetFetchResponse(groups=[OffsetFetchResponseGroup("readers-1", error_code=LOADING)])
        )
        changes = GroupChanges(found, UpstreamReadings({}, 1_000, TrioClock()))
        for command, change in (
            (ResetOffsets("readers-1", ResetKind.EARLIEST), changes.reset),
            (DeleteGroupOffsets("readers-1", "t0"), changes.delete_offsets),
        ):
            with pytest.raises(ApiError) as caught:
                await change(command, AT_ANY_ROLE)  # type: ignore[arg-type]
            assert caught.value.code is ErrorCode.BROKER_NOT_AVAILABLE


def held_back(throttle_ms: int, records: bytes = b"") -> FetchResponse:
    """What Kafka answers to a user whose quota is exceeded; or records, if there are some."""
    partition = PartitionData(0, 0, 2, records=records)
    topics = [FetchableTopicResponse("t0", partitions=[partition])] if records else []
    return FetchResponse(throttle_time_ms=throttle_ms, responses=topics)


AT_ANY_ROLE: Final = cast(
    Situation, SimpleNamespace(config=load(None, (), {}).config, require=lambda *_: None)
)
FROM_THE_BEGINNING: Final = BrowseRecords("t0", Start(StartKind.EARLIEST), limit=10)


@pytest.mark.parametrize("throttle_ms", [1, THROTTLED_MS - 1, THROTTLED_MS, THROTTLED_MS + 1])
async def test_records_that_a_quota_of_the_gateways_user_holds_back_are_waited_for(
    autojump_clock: MockClock, throttle_ms: int
) -> None:
    """They would else look like the end of the topic."""
    clock = TrioClock()
    async with asking(1) as (cluster, found):
        (node,) = cluster.live
        prepare(node, [0])
        node.versions[ApiKey.FETCH] = (4, 12)
        node.answers[ApiKey.LIST_OFFSETS] = lambda request: offsets(request, 0, 2)
        batch = build_batch([NewRecord(None, each, 1) for each in (b"a", b"b")])
        answers = [held_back(throttle_ms), held_back(0, bytes(batch))]
        node.answers[ApiKey.FETCH] = lambda _request: answers.pop(0)
        records = UpstreamRecords(found, OneAtATime().run, clock.ms, clock.wall_ms)
        begun = trio.current_time()
        if throttle_ms > THROTTLED_MS:
            with pytest.raises(ApiError, match=f"for {throttle_ms} ms") as caught:
                await records.browse(FROM_THE_BEGINNING, AT_ANY_ROLE)
            assert caught.value.code is ErrorCode.BROKER_NOT_AVAILABLE and len(answers) == 1
            return
        page = (await records.browse(FROM_THE_BEGINNING, AT_ANY_ROLE)).result
        assert [each.value.kept for each in page.records if each.value is not None] == [b"a", b"b"]
        assert trio.current_time() - begun >= throttle_ms / 1_000


async def test_a_refused_fetch_is_no_end_of_the_topic() -> None:
    clock = TrioClock()
    async with asking(1) as (cluster, found):
        (node,) = cluster.live
        prepare(node, [0])
        node.versions[ApiKey.FETCH] = (4, 12)
        node.answers[ApiKey.FETCH] = lambda _request: FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        records = UpstreamRecords(found, OneAtATime().run, clock.ms, clock.wall_ms)
        page = (await records.browse(FROM_THE_BEGINNING, AT_ANY_ROLE)).result
        (unreadable,) = page.unreadable
        assert "UNKNOWN_SERVER_ERROR" in unreadable.reason

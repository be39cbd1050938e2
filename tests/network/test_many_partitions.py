"""Requests that name more partitions, topics or offsets than one slice has are answered as small ones are."""

from pathlib import Path
from typing import Any

import pytest
import trio

from broker.api.requests.change_limits import MAX_ELEMENTS
from broker.common.errors import ErrorCode
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.delete_topics import DeleteTopicsRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.list_groups import ListGroupsRequest
from broker.protocol.messages.metadata import MetadataRequest
from broker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.protocol.messages.offset_fetch import OffsetFetchRequest
from broker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.machine_speed import WITHIN_S
from tests.support.produce import batch_of
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

MANY = 1_200


async def wide_topic(broker: RunningBroker) -> WireClient:
    client = await broker.connect()
    topic = CreatableTopic("wide", MANY, 1)
    answer = await client.ask(CreateTopicsRequest([topic], 60_000, False), 5)
    assert answer.topics[0].error_code == 0
    return client


def produce(*indexes: int) -> ProduceRequest:
    data = [PartitionProduceData(index, bytes(batch_of(b"x"))) for index in indexes]
    return ProduceRequest(
        acks=-1, timeout_ms=5_000, topic_data=[TopicProduceData("wide", partition_data=data)]
    )


def fetch(wait_ms: int, count: int = MANY, session: int = 0, epoch: int = -1) -> FetchRequest:
    partitions = [
        FetchPartition(index, fetch_offset=0, partition_max_bytes=1 << 20, current_leader_epoch=-1)
        for index in range(count)
    ]
    topics = [FetchTopic("wide", partitions=partitions)] if count else []
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=50 << 20,
        session_id=session,
        session_epoch=epoch,
        topics=topics,
    )


def with_records(answer: Any) -> list[int]:
    return [each.partition_index for topic in answer.responses for each in topic.partitions if each.records]


async def test_every_partition_of_a_produce_is_appended_and_answered(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        client = await wide_topic(broker)
        answer = await client.ask(produce(*range(MANY), MANY), 9)
        (topic,) = answer.responses
        assert [each.index for each in topic.partition_responses] == [*range(MANY), MANY]
        errors = [each.error_code for each in topic.partition_responses]
        assert errors == [0] * MANY + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert {each.base_offset for each in topic.partition_responses[:MANY]} == {0}


async def test_a_fetch_of_many_partitions_is_answered_at_once_or_when_one_has_a_record(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path) as broker:
        client, other = await wide_topic(broker), await broker.connect()
        await client.send(fetch(wait_ms=60_000), 12)
        await other.ask(MetadataRequest([]), 9)
        await other.ask(produce(MANY - 1), 9)
        with trio.fail_after(WITHIN_S):
            _, answer = await client.receive(1, 12)
        assert with_records(answer) == [MANY - 1]
        await other.ask(produce(0, 700), 9)
        assert with_records(await client.ask(fetch(wait_ms=0), 12)) == [0, 700, MANY - 1]


async def test_a_session_of_many_partitions_returns_what_is_new(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        client = await wide_topic(broker)
        first = await client.ask(fetch(wait_ms=0, epoch=0), 12)
        assert first.session_id and sum(len(topic.partitions) for topic in first.responses) == MANY
        await client.ask(produce(5, 900), 9)
        news = await client.ask(fetch(0, 0, first.session_id, 1), 12)
        assert with_records(news) == [5, 900]
        assert sum(len(topic.partitions) for topic in news.responses) == 2


@pytest.mark.parametrize("mode", ["kafka", "automq"])
async def test_many_offsets_are_committed_and_found_again(tmp_path: Path, mode: str) -> None:
    async with running_broker(tmp_path, f"socket.server.mode={mode}") as broker:
        client = await wide_topic(broker)
        await client.ask(FindCoordinatorRequest("group", 0), 1)
        offsets = [OffsetCommitRequestPartition(index, index + 7) for index in range(MANY + 1)]
        topic = OffsetCommitRequestTopic("wide", partitions=offsets)
        request = OffsetCommitRequest("group", -1, "", topics=[topic])
        answer = await client.ask(request, 6)
        errors = [each.error_code for each in answer.topics[0].partitions]
        assert errors == [0] * MANY + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        found = await client.ask(OffsetFetchRequest("group", None), 5)
        committed = {each.partition_index: each.committed_offset for each in found.topics[0].partitions}
        assert committed == {index: index + 7 for index in range(MANY)}


async def test_metadata_of_a_topic_of_many_partitions_has_all_of_them(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        client = await wide_topic(broker)
        answer = await client.ask(MetadataRequest(None), 9)
        assert [each.partition_index for each in answer.topics[0].partitions] == list(range(MANY))


@pytest.mark.parametrize(
    ("count", "error"),
    [
        (MAX_ELEMENTS - 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (MAX_ELEMENTS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (MAX_ELEMENTS + 1, ErrorCode.POLICY_VIOLATION),
    ],
)
async def test_how_much_one_request_may_change(tmp_path: Path, count: int, error: ErrorCode) -> None:
    async with running_broker(tmp_path) as broker:
        client = await broker.connect()
        names = [f"missing-{at}" for at in range(count)]
        answer = await client.ask(DeleteTopicsRequest(topic_names=names, timeout_ms=5_000), 5)
        assert [each.name for each in answer.responses] == names
        assert {each.error_code for each in answer.responses} == {error}


async def test_of_many_filters_those_that_mean_nothing_match_nothing(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        client = await wide_topic(broker)
        await client.ask(FindCoordinatorRequest("group", 0), 1)
        topic = OffsetCommitRequestTopic("wide", partitions=[OffsetCommitRequestPartition(0, 7)])
        await client.ask(OffsetCommitRequest("group", -1, "", topics=[topic]), 6)
        for states, listed in (([], 1), ([" EMPTY "], 1), ([f"no-{at}" for at in range(2_000)], 0)):
            assert len((await client.ask(ListGroupsRequest(states), 4)).groups) == listed

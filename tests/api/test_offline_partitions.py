"""Every API responds KAFKA_STORAGE_ERROR for an offline partition."""

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from broker.common.errors import ErrorCode
from broker.log.partition import PartitionLog
from broker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from broker.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from broker.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
)
from broker.protocol.messages.describe_topic_partitions import (
    TopicRequest as DescribedTopic,
)
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from broker.views.topics import partition_rows
from tests.api.harness import WALL_MS, Harness
from tests.support.produce import batch_of, produce_request

BROKEN: Final = OSError(errno.EIO, "Input/output error")
STORAGE: Final = ErrorCode.KAFKA_STORAGE_ERROR
NODE: Final = 1


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    harness = Harness(tmp_path)
    yield harness
    harness.close()


async def offline(harness: Harness) -> PartitionLog:
    """Take partition 0 of two offline."""
    await harness.create_topic("orders", 2)
    for partition in range(2):
        harness.append("orders", WALL_MS, partition=partition)
    log = harness.partitions.log("orders", 0)
    assert log is not None
    log.go_offline(BROKEN)
    return log


async def listed(harness: Harness, timestamp: int, partition: int = 0) -> Any:
    listed_partition = ListOffsetsPartition(partition, 0, timestamp)
    reply = await harness.ask(ListOffsetsRequest(-1, 0, [ListOffsetsTopic("orders", [listed_partition])]))
    return reply.topics[0].partitions[0]


@pytest.mark.parametrize("timestamp", [-1, -2, -3, -4, -5, 0, WALL_MS])
async def test_list_offsets_does_not_answer_zero(harness: Harness, timestamp: int) -> None:
    await offline(harness)
    answer = await listed(harness, timestamp)
    assert (answer.error_code, answer.offset) == (STORAGE, -1)
    assert (await listed(harness, -1, partition=1)).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", range(14))
async def test_metadata_names_no_leader_and_the_offline_replica(harness: Harness, version: int) -> None:
    await offline(harness)
    reply = await harness.ask(MetadataRequest([MetadataRequestTopic(name="orders")]), version)
    broken, well = sorted(reply.topics[0].partitions, key=lambda each: each.partition_index)
    assert reply.topics[0].error_code == ErrorCode.NONE
    assert (broken.error_code, broken.leader_id, broken.isr_nodes) == (STORAGE, -1, [])
    assert (broken.replica_nodes, well.error_code, well.leader_id) == ([NODE], ErrorCode.NONE, NODE)
    if version >= 5:
        assert (broken.offline_replicas, well.offline_replicas) == ([NODE], [])


async def test_describe_topic_partitions_says_the_same(harness: Harness) -> None:
    await offline(harness)
    reply = await harness.ask(DescribeTopicPartitionsRequest([DescribedTopic("orders")], 2_000))
    broken, well = reply.topics[0].partitions
    assert (broken.error_code, broken.leader_id, broken.offline_replicas) == (STORAGE, -1, [NODE])
    assert (well.error_code, well.leader_id, well.offline_replicas) == (ErrorCode.NONE, NODE, [])


async def test_offset_for_leader_epoch(harness: Harness) -> None:
    await offline(harness)
    topics = [OffsetForLeaderTopic("orders", [OffsetForLeaderPartition(0, -1, 0)])]
    answer = (await harness.ask(OffsetForLeaderEpochRequest(-1, topics))).topics[0].partitions[0]
    assert (answer.error_code, answer.end_offset) == (STORAGE, -1)


async def test_delete_records(harness: Harness) -> None:
    await offline(harness)
    topics = [DeleteRecordsTopic("orders", [DeleteRecordsPartition(0, -1)])]
    answer = (await harness.ask(DeleteRecordsRequest(topics, 1_000))).topics[0].partitions[0]
    assert (answer.error_code, answer.low_watermark) == (STORAGE, -1)


async def test_describe_producers(harness: Harness) -> None:
    await offline(harness)
    reply = await harness.ask(DescribeProducersRequest([TopicRequest("orders", [0])]))
    assert reply.topics[0].partitions[0].error_code == STORAGE


async def test_produce(harness: Harness) -> None:
    await offline(harness)
    reply = await harness.ask(produce_request(batch_of(b"one"), "orders", 0, acks=-1), 9)
    assert reply.responses[0].partition_responses[0].error_code == STORAGE


@pytest.mark.parametrize("max_bytes", [1, 1_000_000])
async def test_fetch_also_where_no_bytes_are_left_for_the_partition(harness: Harness, max_bytes: int) -> None:
    await offline(harness)
    partitions = [FetchPartition(each, fetch_offset=0, partition_max_bytes=1_000_000) for each in (1, 0)]
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=max_bytes, topics=[FetchTopic("orders", partitions=partitions)]
    )
    well, broken = (await harness.ask(request, 11)).responses[0].partitions
    assert (well.error_code, bool(well.records)) == (ErrorCode.NONE, True)
    assert (broken.error_code, broken.high_watermark) == (STORAGE, -1)


async def test_the_console_says_why(harness: Harness) -> None:
    await offline(harness)
    rows = partition_rows(harness.partitions, "orders")
    assert [row.offline for row in rows] == [str(BROKEN), ""]


async def test_it_is_reported_once_when_it_goes_offline(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    reported: list[str] = []
    harness.partitions.on_offline(lambda: reported.append("changed"))
    log = await offline(harness)
    log.go_offline(BROKEN)
    lines = [record for record in caplog.records if record.message == "a partition is offline"]
    assert (len(lines), lines[0].__dict__["partition"], reported) == (1, "orders-0", ["changed"])
    assert lines[0].__dict__["path"] == log.directory


async def test_a_deleted_topic_is_offline_no_longer(harness: Harness) -> None:
    await offline(harness)
    assert len(harness.log.offline) == 1
    harness.partitions.on_metadata_update(harness.control.image, [])
    log = harness.partitions.log("orders", 0)
    assert log is not None
    log.delete()
    assert len(harness.log.offline) == 0

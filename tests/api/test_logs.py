"""ListOffsets, DeleteRecords and OffsetForLeaderEpoch: the start and the end of a partition."""

from pathlib import Path

import pytest

from broker.common.errors import ErrorCode
from broker.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from broker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from broker.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.api.harness import WALL_MS, Harness

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(-1, -7, -1)


@pytest.fixture
async def orders(harness: Harness) -> Harness:
    """Create five records in three batches; the third batch is the latest."""
    await harness.create_topic("orders", 2)
    assert harness.append("orders", 1_000, 1_010) == 0
    assert harness.append("orders", 5_000) == 2
    assert harness.append("orders", 3_000, 3_000) == 3
    return harness


async def offset(
    harness: Harness,
    timestamp: int,
    *,
    topic: str = "orders",
    partition: int = 0,
    epoch: int = -1,
    version: int | None = None,
) -> tuple[int, int, int, int]:
    """Return (error, timestamp, offset, leader epoch)."""
    listed_topic = ListOffsetsTopic(topic, [ListOffsetsPartition(partition, epoch, timestamp)])
    reply = await harness.ask(ListOffsetsRequest(-1, 0, [listed_topic]), version)
    (answer,) = reply.topics[0].partitions
    assert (reply.topics[0].name, answer.partition_index) == (topic, partition)
    return answer.error_code, answer.timestamp, answer.offset, answer.leader_epoch


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (LATEST, (0, -1, 5, 0)),
        (EARLIEST, (0, -1, 0, 0)),
        (MAX_TIMESTAMP, (0, 5_000, 2, 0)),
        (EARLIEST_LOCAL, (0, -1, 0, 0)),
        (LATEST_TIERED, (0, -1, -1, -1)),
        (EARLIEST_PENDING_UPLOAD, (0, -1, -1, -1)),
        (0, (0, 1_000, 0, 0)),
        (1_000, (0, 1_000, 0, 0)),
        (1_001, (0, 1_010, 1, 0)),
        (1_010, (0, 1_010, 1, 0)),
        (1_011, (0, 5_000, 2, 0)),
        (5_000, (0, 5_000, 2, 0)),
        (5_001, (0, -1, -1, -1)),
    ],
)
async def test_offsets_are_found_by_time(
    orders: Harness, timestamp: int, expected: tuple[int, int, int, int]
) -> None:
    assert await offset(orders, timestamp) == expected


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (LATEST, (0, -1, 0, 0)),
        (EARLIEST, (0, -1, 0, 0)),
        (MAX_TIMESTAMP, (0, -1, -1, -1)),
        (1_000, (0, -1, -1, -1)),
    ],
)
async def test_an_empty_partition_begins_and_ends_at_0(
    orders: Harness, timestamp: int, expected: tuple[int, int, int, int]
) -> None:
    assert await offset(orders, timestamp, partition=1) == expected


@pytest.mark.parametrize(
    ("timestamp", "first"),
    [
        *((LATEST, 1), (EARLIEST, 1), (MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9)),
        (EARLIEST_PENDING_UPLOAD, 11),
    ],
)
async def test_a_special_time_has_a_first_version(orders: Harness, timestamp: int, first: int) -> None:
    for version in range(1, 11):
        error, *_ = await offset(orders, timestamp, version=version)
        assert error == (ErrorCode.NONE if version >= first else ErrorCode.UNSUPPORTED_VERSION)


@pytest.mark.parametrize("timestamp", [EARLIEST_PENDING_UPLOAD - 1, -(1 << 63)])
async def test_an_unknown_special_time_is_not_supported(orders: Harness, timestamp: int) -> None:
    for version in (1, 10):
        error, *_ = await offset(orders, timestamp, version=version)
        assert error == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("topic", "partition", "epoch", "error"),
    [
        ("orders", 2, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", -1, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("missing", 0, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", 0, 0, ErrorCode.NONE),
        ("orders", 0, 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ("orders", 0, -2, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
async def test_an_unknown_offset_topic_or_epoch_has_its_error(
    orders: Harness, topic: str, partition: int, epoch: int, error: ErrorCode
) -> None:
    found = await offset(orders, EARLIEST, topic=topic, partition=partition, epoch=epoch)
    assert found == ((error, -1, 0, 0) if not error else (error, -1, -1, -1))


async def test_a_partition_asked_for_twice_is_an_invalid_request(orders: Harness) -> None:
    partitions = [ListOffsetsPartition(index, -1, LATEST) for index in (0, 1, 0)]
    reply = await orders.ask(ListOffsetsRequest(-1, 0, [ListOffsetsTopic("orders", partitions)]))
    assert [(each.partition_index, each.error_code) for each in reply.topics[0].partitions] == [
        (0, ErrorCode.INVALID_REQUEST),
        (1, ErrorCode.NONE),
    ]


async def test_a_topic_whose_partitions_all_have_their_entry_is_not_named_again(orders: Harness) -> None:
    topics = [ListOffsetsTopic("orders", [ListOffsetsPartition(0, -1, LATEST)])] * 3
    reply = await orders.ask(ListOffsetsRequest(-1, 0, [*topics, ListOffsetsTopic("orders", [])]))
    assert [[each.error_code for each in topic.partitions] for topic in reply.topics] == [
        [ErrorCode.INVALID_REQUEST],
        [],
    ]


async def delete(harness: Harness, before: int, topic: str = "orders", partition: int = 0) -> tuple[int, int]:
    """Return (error, low watermark)."""
    deleted_topic = DeleteRecordsTopic(topic, [DeleteRecordsPartition(partition, before)])
    (answer,) = (await harness.ask(DeleteRecordsRequest([deleted_topic]))).topics[0].partitions
    return answer.error_code, answer.low_watermark


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (0, (ErrorCode.NONE, 0)),
        (1, (ErrorCode.NONE, 1)),
        (4, (ErrorCode.NONE, 4)),
        (5, (ErrorCode.NONE, 5)),
        (6, (ErrorCode.OFFSET_OUT_OF_RANGE, -1)),
        (-1, (ErrorCode.NONE, 5)),
        (-2, (ErrorCode.OFFSET_OUT_OF_RANGE, -1)),
    ],
)
async def test_records_before_an_offset_are_deleted(
    orders: Harness, before: int, expected: tuple[int, int]
) -> None:
    assert await delete(orders, before) == expected
    assert (await offset(orders, EARLIEST))[2] == max(expected[1], 0)


async def test_deleted_records_stay_deleted(orders: Harness) -> None:
    assert await delete(orders, 3) == (ErrorCode.NONE, 3)
    assert await delete(orders, 2) == (ErrorCode.NONE, 3)


async def test_records_of_some_topics_cannot_be_deleted(orders: Harness) -> None:
    await orders.ask(FindCoordinatorRequest(coordinator_keys=["readers"]))
    compacted = CreatableTopic("compacted", 1, 1, configs=[CreatableTopicConfig("cleanup.policy", "compact")])
    await orders.ask(CreateTopicsRequest([compacted]))
    assert await delete(orders, 0, "__consumer_offsets") == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
    assert await delete(orders, 0, "compacted") == (ErrorCode.POLICY_VIOLATION, -1)
    assert await delete(orders, 0, "missing") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert await delete(orders, 0, partition=2) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


@pytest.mark.parametrize("role", ["viewer", "editor"])
async def test_only_administrators_delete_records(tmp_path: Path, role: str) -> None:
    harness = Harness(tmp_path, f"wire.role={role}")
    assert await delete(harness, 0) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)
    harness.close()


async def end_of(
    harness: Harness, epoch: int, current: int = -1, topic: str = "orders", partition: int = 0
) -> tuple[int, int, int]:
    """Return (error, leader epoch, end offset)."""
    epoch_topic = OffsetForLeaderTopic(topic, [OffsetForLeaderPartition(partition, current, epoch)])
    for version in (2, 3, 4):
        reply = await harness.ask(OffsetForLeaderEpochRequest(-2, [epoch_topic]), version)
        (answer,) = reply.topics[0].partitions
    return answer.error_code, answer.leader_epoch, answer.end_offset


async def test_the_only_epoch_ends_where_the_log_ends(orders: Harness) -> None:
    assert await end_of(orders, 0) == (ErrorCode.NONE, 0, 5)
    assert await end_of(orders, 0, partition=1) == (ErrorCode.NONE, 0, 0)


@pytest.mark.parametrize("epoch", [-1, 1])
async def test_an_epoch_that_never_was_has_no_end(orders: Harness, epoch: int) -> None:
    assert await end_of(orders, epoch) == (ErrorCode.NONE, -1, -1)


async def test_a_client_with_another_epoch_gets_an_error(orders: Harness) -> None:
    assert await end_of(orders, 0, current=0) == (ErrorCode.NONE, 0, 5)
    assert await end_of(orders, 0, current=1) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
    assert await end_of(orders, 0, topic="missing") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert await end_of(orders, 0, partition=2) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)


async def test_times_are_the_records_own(orders: Harness) -> None:
    orders.append("orders", WALL_MS, partition=1)
    assert await offset(orders, WALL_MS, partition=1) == (0, WALL_MS, 0, 0)

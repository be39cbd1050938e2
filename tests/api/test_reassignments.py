"""Reassignments between brokers, as kafka-reassign-partitions needs them with a single broker."""

from pathlib import Path

import pytest

from broker.common.errors import ErrorCode
from broker.protocol.messages.partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.api.harness import Harness


async def reassign(
    harness: Harness, topic: str, index: int, replicas: list[int] | None, version: int = 1
) -> tuple[ErrorCode, str | None]:
    topics = [ReassignableTopic(topic, [ReassignablePartition(index, replicas)])]
    answer = await harness.ask(AlterPartitionReassignmentsRequest(60_000, True, topics), version)
    assert answer.error_code == 0
    partition = answer.responses[0].partitions[0]
    assert (answer.responses[0].name, partition.partition_index) == (topic, index)
    return ErrorCode(partition.error_code), partition.error_message


@pytest.mark.parametrize("version", [0, 1])
async def test_a_partition_may_stay_where_it_is(harness: Harness, version: int) -> None:
    await harness.create_topic("orders", 2)
    assert await reassign(harness, "orders", 1, [1], version) == (ErrorCode.NONE, None)


@pytest.mark.parametrize(
    ("topic", "index", "replicas", "code", "words"),
    [
        ("missing", 0, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find a topic named missing."),
        ("orders", 2, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition orders:2."),
        ("orders", -1, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition orders:-1."),
        ("orders", 0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None),
        ("orders", 0, [2], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 2, but no such broker"),
        ("orders", 0, [1, 2], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 2, but no such broker"),
        ("orders", 0, [9, 1, 8], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 8, but no such broker"),
        ("orders", 0, [0, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 0, but no such broker"),
        ("orders", 0, [1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the broker 1 more than once."),
        ("orders", 0, [2, 1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the broker 1 more than once."),
        ("orders", 0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "an empty replica list."),
    ],
)
async def test_anything_else_is_refused(
    harness: Harness, topic: str, index: int, replicas: list[int] | None, code: ErrorCode, words: str | None
) -> None:
    await harness.create_topic("orders", 2)
    found, message = await reassign(harness, topic, index, replicas)
    assert found == code
    assert (message is None) == (words is None) and (words or "") in (message or "")


async def test_nothing_is_ever_on_its_way(harness: Harness) -> None:
    await harness.create_topic("orders", 2)
    for topics in (None, [ListPartitionReassignmentsTopics("orders", [0, 1])]):
        answer = await harness.ask(ListPartitionReassignmentsRequest(60_000, topics))
        assert (answer.error_code, answer.topics) == (0, [])


async def test_no_partition_is_assigned_while_all_directories_are_cordoned(tmp_path: Path) -> None:
    dirs = f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'}"
    cordoned = "The manual partition assignment includes broker 1, but all its log directories are cordoned."
    for setting, words in ((f"{tmp_path / 'a'}", None), (f"{tmp_path / 'a'},{tmp_path / 'b'}", cordoned)):
        harness = Harness(tmp_path, dirs, f"cordoned.log.dirs={setting}")
        if words is None:
            await harness.create_topic("orders")
        code = ErrorCode.NONE if words is None else ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert await reassign(harness, "orders", 0, [1]) == (code, words)
        assert "broker 0, but no such" in (await reassign(harness, "orders", 0, [1, 0]))[1]  # type: ignore[operator]
        if words is not None:
            for replicas in ([1, 1], [2, 1]):
                assert (await reassign(harness, "orders", 0, replicas))[1] == cordoned
        assert (await reassign(harness, "orders", 0, None))[0] == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        harness.close()

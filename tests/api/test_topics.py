"""CreateTopics, DeleteTopics and CreatePartitions in each version."""

from pathlib import Path

import pytest

from broker.common.errors import ErrorCode
from broker.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from broker.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from broker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.api.harness import Harness

NO_PLACE = "All brokers are currently fenced, or have all their log directories cordoned."


@pytest.mark.parametrize("cordoned", ["{}/a,{}/b", "*", "{}/b,{}/c/../a"])
async def test_no_partition_is_made_while_all_directories_are_cordoned(tmp_path: Path, cordoned: str) -> None:
    dirs = f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'}"
    harness = Harness(tmp_path, dirs)
    await harness.create_topic("known")
    harness.close()
    harness = Harness(tmp_path, dirs, f"cordoned.log.dirs={cordoned.replace('{}', str(tmp_path))}")
    assigned = [CreatableReplicaAssignment(0, [1])]
    topics = [CreatableTopic("a", 1, 1), CreatableTopic("b", 1, 2), CreatableTopic("c", -1, -1, assigned)]
    reply = await harness.ask(CreateTopicsRequest(topics))
    by_hand = "The manual partition assignment includes broker 1, but all its log directories are cordoned."
    assert [(each.error_code, each.error_message) for each in reply.topics] == [
        (ErrorCode.INVALID_REPLICATION_FACTOR, f"Unable to replicate the partition 1 time(s): {NO_PLACE}"),
        (ErrorCode.INVALID_REPLICATION_FACTOR, f"Unable to replicate the partition 2 time(s): {NO_PLACE}"),
        (ErrorCode.INVALID_REPLICA_ASSIGNMENT, by_hand),
    ]
    for assignments, error, message in (
        (None, ErrorCode.INVALID_REPLICATION_FACTOR, NO_PLACE),
        ([CreatePartitionsAssignment([1])], ErrorCode.INVALID_REPLICA_ASSIGNMENT, by_hand),
    ):
        grown = CreatePartitionsRequest([CreatePartitionsTopic("known", 2, assignments)])
        (result,) = (await harness.ask(grown)).results
        assert (result.error_code, result.error_message) == (error, message)
    assert list(harness.control.image.topics) == ["known"]
    harness.append("known", 1)  # a topic that exists gets its log
    harness.close()


@pytest.mark.parametrize("version", range(2, 8))
async def test_a_topic_is_made_in_every_version(harness: Harness, version: int) -> None:
    reply = await harness.ask(CreateTopicsRequest([CreatableTopic("orders", 3, 1)]), version)
    assert [(each.name, each.error_code) for each in reply.topics] == [("orders", ErrorCode.NONE)]
    assert harness.control.image.topics["orders"].partitions == 3
    assert harness.partitions.log("orders", 2) is not None


async def test_the_answer_says_what_the_topic_has_become(harness: Harness) -> None:
    topic = CreatableTopic("orders", -1, -1, configs=[CreatableTopicConfig("retention.ms", "5000")])
    (made,) = (await harness.ask(CreateTopicsRequest([topic]))).topics
    assert made.topic_id == harness.control.image.topics["orders"].topic_id
    assert (made.num_partitions, made.replication_factor) == (1, 1)
    configs = {each.name: (each.value, each.config_source) for each in made.configs}
    assert configs["retention.ms"] == ("5000", 1)
    assert configs["cleanup.policy"] == ("delete", 5)
    assert configs["min.insync.replicas"] == ("1", 3)


async def test_validating_answers_the_same_and_makes_nothing(harness: Harness) -> None:
    request = CreateTopicsRequest([CreatableTopic("orders", 2, 1)], validate_only=True)
    (made,) = (await harness.ask(request)).topics
    assert (made.error_code, made.num_partitions) == (ErrorCode.NONE, 2)
    assert not harness.control.image.topics


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (CreatableTopic("exists", 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS),
        (CreatableTopic("a/b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (CreatableTopic("none", 0, 1), ErrorCode.INVALID_PARTITIONS),
        (CreatableTopic("three", 1, 3), ErrorCode.INVALID_REPLICATION_FACTOR),
        (
            CreatableTopic("odd", 1, 1, configs=[CreatableTopicConfig("bad.key", "1")]),
            ErrorCode.INVALID_CONFIG,
        ),
        (
            CreatableTopic("far", -1, -1, [CreatableReplicaAssignment(0, [9])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
    ],
)
async def test_one_refusal_leaves_the_others_alone(
    harness: Harness, topic: CreatableTopic, error: ErrorCode
) -> None:
    await harness.create_topic("exists")
    reply = await harness.ask(CreateTopicsRequest([topic, CreatableTopic("fine", 1, 1)]))
    refused, made = reply.topics
    assert (refused.name, refused.error_code, refused.num_partitions) == (topic.name, error, -1)
    assert refused.error_message
    assert (made.name, made.error_code) == ("fine", ErrorCode.NONE)


@pytest.mark.parametrize("version", [1, 5])
async def test_topics_are_deleted_by_name(harness: Harness, version: int) -> None:
    await harness.create_topic("orders")
    reply = await harness.ask(DeleteTopicsRequest(["orders", "missing"]), version)
    assert [(each.name, each.error_code) for each in reply.responses] == [
        ("orders", ErrorCode.NONE),
        ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert harness.partitions.log("orders", 0) is None


async def test_topics_are_deleted_by_name_or_id(harness: Harness) -> None:
    for name in ("orders", "payments"):
        await harness.create_topic(name)
    by_id = harness.control.image.topics["payments"].topic_id
    request = DeleteTopicsRequest(
        topics=[
            DeleteTopicState("orders"),
            DeleteTopicState(None, by_id),
            DeleteTopicState(None, b"unknown topic id"),
            DeleteTopicState("both", by_id),
        ]
    )
    reply = await harness.ask(request, 6)
    assert [(each.name, each.error_code) for each in reply.responses] == [
        ("orders", ErrorCode.NONE),
        ("payments", ErrorCode.NONE),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
        ("both", ErrorCode.INVALID_REQUEST),
    ]
    assert not harness.control.image.topics


@pytest.mark.parametrize(
    ("version", "error"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)]
)
async def test_a_broker_that_deletes_no_topics_says_so_to_clients_that_know_the_error_code(
    tmp_path: Path, version: int, error: ErrorCode
) -> None:
    harness = Harness(tmp_path, "delete.topic.enable=false")
    await harness.create_topic("orders")
    reply = await harness.ask(DeleteTopicsRequest(["orders"]), version)
    assert reply.responses[0].error_code == error
    harness.close()


@pytest.mark.parametrize("version", range(4))
async def test_partitions_are_added(harness: Harness, version: int) -> None:
    await harness.create_topic("orders", 2)
    topics = [CreatePartitionsTopic("orders", 4, None), CreatePartitionsTopic("missing", 4, None)]
    reply = await harness.ask(CreatePartitionsRequest(topics), version)
    assert [(each.name, each.error_code) for each in reply.results] == [
        ("orders", ErrorCode.NONE),
        ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert harness.partitions.log("orders", 3) is not None


@pytest.mark.parametrize(
    ("count", "brokers", "error"),
    [
        (2, None, ErrorCode.INVALID_PARTITIONS),
        (1, None, ErrorCode.INVALID_PARTITIONS),
        (3, [[1]], ErrorCode.NONE),
        (3, [[2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (4, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
async def test_partitions_are_added_as_asked_or_not_at_all(
    harness: Harness, count: int, brokers: list[list[int]] | None, error: ErrorCode
) -> None:
    await harness.create_topic("orders", 2)
    assignments = None if brokers is None else [CreatePartitionsAssignment(each) for each in brokers]
    topic = CreatePartitionsTopic("orders", count, assignments)
    reply = await harness.ask(CreatePartitionsRequest([topic]))
    assert reply.results[0].error_code == error
    assert harness.control.image.topics["orders"].partitions == (2 if error else count)


async def test_validating_partitions_adds_none(harness: Harness) -> None:
    await harness.create_topic("orders")
    request = CreatePartitionsRequest([CreatePartitionsTopic("orders", 5, None)], validate_only=True)
    assert (await harness.ask(request)).results[0].error_code == ErrorCode.NONE
    assert harness.control.image.topics["orders"].partitions == 1

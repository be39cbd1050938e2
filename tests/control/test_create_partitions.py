"""CreatePartitions with the codes and messages of Kafka's ReplicationControlManager."""

import pytest

from broker.control.commands import CreatePartitions, CreateTopics, NewPartitions, NewTopic, PartitionsOutcome
from broker.control.create_partitions import plan_create_partitions
from broker.control.create_topics import plan_create_topics
from broker.errors import ErrorCode
from broker.metadata.actor import Role
from tests.control.world import World


@pytest.fixture
def world() -> World:
    world = World()
    world.do(plan_create_topics, CreateTopics((NewTopic("t", 3), NewTopic("u", 1))))
    return world


def grow(world: World, *wanted: NewPartitions, validate_only: bool = False) -> list[PartitionsOutcome]:
    return world.do(plan_create_partitions, CreatePartitions(wanted, validate_only))


@pytest.mark.parametrize(
    ("count", "error", "message"),
    [
        (
            2,
            ErrorCode.INVALID_PARTITIONS,
            "The topic t currently has 3 partition(s); 2 would not be an increase.",
        ),
        (3, ErrorCode.INVALID_PARTITIONS, "Topic already has 3 partition(s)."),
        (4, ErrorCode.NONE, None),
        (
            0,
            ErrorCode.INVALID_PARTITIONS,
            "The topic t currently has 3 partition(s); 0 would not be an increase.",
        ),
        (
            -1,
            ErrorCode.INVALID_PARTITIONS,
            "The topic t currently has 3 partition(s); -1 would not be an increase.",
        ),
    ],
)
def test_the_count_is_a_larger_total(world: World, count: int, error: ErrorCode, message: str | None) -> None:
    (outcome,) = grow(world, NewPartitions("t", count))
    assert (outcome.error, outcome.message) == (error, message)
    assert world.image.topics["t"].partitions == (count if outcome.ok else 3)


def test_growing_keeps_the_id_and_the_settings(world: World) -> None:
    before = world.image.topics["t"]
    grow(world, NewPartitions("t", 5))
    after = world.image.topics["t"]
    assert (after.topic_id, after.configs, after.partitions) == (before.topic_id, before.configs, 5)


def test_validating_only_changes_nothing(world: World) -> None:
    assert grow(world, NewPartitions("t", 5), validate_only=True)[0].ok
    assert world.image.topics["t"].partitions == 3


def test_an_unknown_topic_is_told_so_and_others_grow(world: World) -> None:
    first, second = grow(world, NewPartitions("absent", 5), NewPartitions("u", 2))
    assert (first.topic, first.error) == ("absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert second.ok and world.image.topics["u"].partitions == 2


def test_a_topic_given_twice_grows_not_even_once(world: World) -> None:
    (outcome,) = grow(world, NewPartitions("t", 5), NewPartitions("t", 6))
    assert (outcome.error, outcome.message) == (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    assert world.image.topics["t"].partitions == 3


@pytest.mark.parametrize(
    ("assignments", "error"),
    [
        (((1,),), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (((1,), (1,)), ErrorCode.NONE),
        (((1,), (1,), (1,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (((1,), (2,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (((1,), ()), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_assignments_are_for_the_added_partitions(
    world: World, assignments: tuple[tuple[int, ...], ...], error: ErrorCode
) -> None:
    (outcome,) = grow(world, NewPartitions("t", 5, assignments))
    assert outcome.error is error


@pytest.mark.parametrize(("count", "error"), [(10_003, ErrorCode.NONE), (10_004, ErrorCode.POLICY_VIOLATION)])
def test_one_request_adds_at_most_10000_partitions(world: World, count: int, error: ErrorCode) -> None:
    (outcome,) = grow(world, NewPartitions("t", count))
    assert outcome.error is error


def test_partitions_are_an_editors_to_add(world: World) -> None:
    command = CreatePartitions((NewPartitions("t", 5),))
    (outcome,) = world.do(plan_create_partitions, command, Role.VIEWER)
    assert outcome.error is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    (outcome,) = world.do(plan_create_partitions, command, Role.EDITOR)
    assert outcome.ok

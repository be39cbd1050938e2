"""The maximum number of topics and partitions: just below, at and just above, through every interface."""

import pytest

from broker.control.commands import (
    CreatePartitions,
    CreateTopics,
    NewPartitions,
    NewTopic,
    PartitionsOutcome,
    TopicOutcome,
)
from broker.control.create_partitions import plan_create_partitions
from broker.control.create_topics import plan_create_topics
from broker.errors import ErrorCode
from tests.control.world import World

TOPICS = "cluster.quota.topic.count"
PARTITIONS = "cluster.quota.partition.count"


def create(world: World, *topics: NewTopic, validate_only: bool = False) -> list[TopicOutcome]:
    return world.do(plan_create_topics, CreateTopics(topics, validate_only))


def grow(world: World, *wanted: NewPartitions, validate_only: bool = False) -> list[PartitionsOutcome]:
    return world.do(plan_create_partitions, CreatePartitions(wanted, validate_only))


def test_without_a_limit_there_is_none() -> None:
    world = World()
    assert all(each.ok for each in create(world, *(NewTopic(f"t{number}", 90) for number in range(100))))


@pytest.mark.parametrize(("limit", "fine"), [(2, False), (3, True), (4, True)])
@pytest.mark.parametrize("validate_only", [False, True])
def test_the_third_topic(limit: int, *, fine: bool, validate_only: bool) -> None:
    world = World(f"{TOPICS}={limit}")
    create(world, NewTopic("a"), NewTopic("__consumer_offsets"))
    (outcome,) = create(world, NewTopic("b"), validate_only=validate_only)
    assert outcome.ok is fine
    assert ("b" in world.image.topics) is (fine and not validate_only)
    if not fine:
        assert (outcome.error, outcome.message) == (
            ErrorCode.POLICY_VIOLATION,
            "There are 2 topics, and cluster.quota.topic.count allows 2.",
        )


@pytest.mark.parametrize(("limit", "fine"), [(6, False), (7, True), (8, True)])
@pytest.mark.parametrize("validate_only", [False, True])
def test_the_partitions_of_another_topic(limit: int, *, fine: bool, validate_only: bool) -> None:
    world = World(f"{PARTITIONS}={limit}", "num.partitions=3")
    create(world, NewTopic("a", 4))
    (outcome,) = create(world, NewTopic("b", -1), validate_only=validate_only)
    assert outcome.ok is fine
    assert ("b" in world.image.topics) is (fine and not validate_only)
    if not fine:
        assert (outcome.error, outcome.message) == (
            ErrorCode.POLICY_VIOLATION,
            "There are 4 partitions; 3 more would exceed the 6 that cluster.quota.partition.count allows.",
        )


@pytest.mark.parametrize(("count", "fine"), [(4, True), (5, True), (6, False)])
@pytest.mark.parametrize("validate_only", [False, True])
def test_more_partitions_of_a_topic(count: int, *, fine: bool, validate_only: bool) -> None:
    world = World(f"{PARTITIONS}=8", f"{TOPICS}=2")
    create(world, NewTopic("a", 3), NewTopic("b", 3))
    (outcome,) = grow(world, NewPartitions("a", count), validate_only=validate_only)
    assert outcome.ok is fine
    assert world.image.topics["a"].partitions == (count if fine and not validate_only else 3)
    if not fine:
        assert (outcome.error, outcome.message) == (
            ErrorCode.POLICY_VIOLATION,
            "There are 6 partitions; 3 more would exceed the 8 that cluster.quota.partition.count allows.",
        )


def test_of_one_request_those_are_made_that_fit_in_their_order() -> None:
    world = World(f"{TOPICS}=3", f"{PARTITIONS}=10")
    outcomes = create(
        world, NewTopic("a", 4), NewTopic("b", 7), NewTopic("c", 4), NewTopic("d", 2), NewTopic("e", 1)
    )
    assert [each.ok for each in outcomes] == [True, False, True, True, False]
    assert set(world.image.topics) == {"a", "c", "d"}
    grown = grow(world, NewPartitions("a", 5), NewPartitions("c", 5))
    assert [each.error for each in grown] == [ErrorCode.POLICY_VIOLATION] * 2


def test_growing_is_counted_within_one_request() -> None:
    world = World(f"{PARTITIONS}=4")
    create(world, NewTopic("a"), NewTopic("b"))
    grown = grow(world, NewPartitions("a", 3), NewPartitions("b", 2))
    assert [each.ok for each in grown] == [True, False]


def test_a_cluster_beyond_its_limit_keeps_what_it_has_and_gets_nothing_more() -> None:
    world = World(f"{TOPICS}=0", f"{PARTITIONS}=0")
    (outcome,) = create(world, NewTopic("a"))
    assert (outcome.error, outcome.message) == (
        ErrorCode.POLICY_VIOLATION,
        "There are 0 topics, and cluster.quota.topic.count allows 0.",
    )


def test_a_refused_topic_is_not_charged_to_the_mutation_quota() -> None:
    charged: list[int] = []
    world = World(f"{TOPICS}=1")
    world.do(plan_create_topics, CreateTopics((NewTopic("a", 2), NewTopic("b", 5)), charge=charged.append))
    assert charged == [2]


def test_a_topic_that_exists_is_told_so_where_the_quota_is_used_up() -> None:
    world = World(f"{TOPICS}=1")
    create(world, NewTopic("a"))
    (outcome,) = create(world, NewTopic("a"))
    assert outcome.error is ErrorCode.TOPIC_ALREADY_EXISTS

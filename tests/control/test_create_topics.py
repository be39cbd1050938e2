"""CreateTopics with the codes and messages of Kafka's ReplicationControlManager."""

import pytest

from broker.control.commands import CreateTopics, NewTopic, TopicOutcome
from broker.control.create_topics import plan_create_topics
from broker.errors import ErrorCode
from broker.metadata.actor import Role
from tests.control.world import World


def create(world: World, *topics: NewTopic, validate_only: bool = False) -> list[TopicOutcome]:
    return world.do(plan_create_topics, CreateTopics(topics, validate_only))


def refusal(world: World, topic: NewTopic) -> tuple[ErrorCode, str | None]:
    (outcome,) = create(world, topic)
    assert world.image.topics == {}
    return outcome.error, outcome.message


def test_a_topic_gets_an_id_and_what_was_asked_for(world: World) -> None:
    (outcome,) = create(world, NewTopic("t", 3, 1, (("retention.ms", "5"), ("cleanup.policy", "compact"))))
    topic = world.image.topics["t"]
    assert (topic.partitions, topic.configs) == (3, {"cleanup.policy": "compact", "retention.ms": "5"})
    assert len(topic.topic_id) == 16 and any(topic.topic_id)
    assert outcome == TopicOutcome(
        name="t",
        topic_id=topic.topic_id,
        partitions=3,
        replication_factor=1,
        configs=(("cleanup.policy", "compact"), ("retention.ms", "5")),
    )


def test_minus_one_is_the_brokers_default() -> None:
    world = World("num.partitions=7")
    (outcome,) = create(world, NewTopic("t", -1, -1))
    assert (outcome.partitions, outcome.replication_factor) == (7, 1)
    assert world.image.topics["t"].partitions == 7


def test_validating_only_makes_nothing_and_says_what_would_be(world: World) -> None:
    (outcome,) = create(world, NewTopic("t", 3), validate_only=True)
    assert (outcome.ok, outcome.partitions) == (True, 3)
    assert world.image.topics == {}
    assert create(world, NewTopic("..", 3), validate_only=True)[0].error is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_two_topics_have_two_ids_and_a_topic_made_again_a_third(world: World) -> None:
    one, two = create(world, NewTopic("a"), NewTopic("b"))
    assert one.topic_id != two.topic_id


@pytest.mark.parametrize(("partitions", "fine"), [(-2, False), (-1, True), (0, False), (1, True)])
def test_the_number_of_partitions_is_positive_or_minus_one(world: World, partitions: int, fine: bool) -> None:
    (outcome,) = create(world, NewTopic("t", partitions))
    assert outcome.ok is fine
    if not fine:
        assert (outcome.error, outcome.message) == (
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )


@pytest.mark.parametrize(("replicas", "fine"), [(-2, False), (-1, True), (0, False), (1, True), (2, False)])
def test_the_replication_factor_is_one(world: World, replicas: int, fine: bool) -> None:
    (outcome,) = create(world, NewTopic("t", 1, replicas))
    assert outcome.ok is fine
    assert outcome.error is (ErrorCode.NONE if fine else ErrorCode.INVALID_REPLICATION_FACTOR)


def test_too_many_replicas_are_refused_in_kafkas_words(world: World) -> None:
    assert refusal(world, NewTopic("t", 1, 3))[1] == (
        "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached "
        "because only 1 broker(s) are registered."
    )


def test_a_topic_that_exists_is_not_made_again(world: World) -> None:
    create(world, NewTopic("t"))
    before = world.image
    (outcome,) = create(world, NewTopic("t", 9))
    assert (outcome.error, outcome.message) == (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists.")
    assert world.image.topics == before.topics


def test_names_that_metrics_cannot_tell_apart_collide_also_within_a_request(world: World) -> None:
    first, second = create(world, NewTopic("a.b"), NewTopic("a_b"))
    assert first.ok
    assert (second.error, second.message) == (
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        "Topic 'a_b' collides with existing topic: a.b",
    )


def test_a_name_given_twice_is_made_not_even_once(world: World) -> None:
    outcomes = create(world, NewTopic("t", 1), NewTopic("u"), NewTopic("t", 2))
    assert [(each.name, each.error, each.message) for each in outcomes] == [
        ("t", ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
        ("u", ErrorCode.NONE, None),
    ]
    assert list(world.image.topics) == ["u"]


def test_a_bad_topic_does_not_stop_a_good_one(world: World) -> None:
    bad, good = create(world, NewTopic("a b"), NewTopic("good"))
    assert (bad.ok, good.ok) == (False, True)
    assert list(world.image.topics) == ["good"]


# Settings


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ((("no.such.key", "1"),), "Unknown topic config name: no.such.key"),
        (
            (("retention.ms", "-2"),),
            "Invalid value -2 for configuration retention.ms: "
            "must be a whole number from -1 to 9223372036854775807",
        ),
        (
            (("cleanup.policy", "shred"),),
            "Invalid value shred for configuration cleanup.policy: must be a list of delete, compact",
        ),
        ((("retention.ms", None),), "Null value not supported for topic configs: retention.ms"),
    ],
)
def test_bad_settings_are_an_invalid_config(
    world: World, configs: tuple[tuple[str, str | None], ...], message: str
) -> None:
    assert refusal(world, NewTopic("t", configs=configs)) == (ErrorCode.INVALID_CONFIG, message)


# Manual assignments


def test_an_assignment_to_this_broker_says_how_many_partitions(world: World) -> None:
    (outcome,) = create(world, NewTopic("t", assignments=((1, (1,)), (0, (1,)))))
    assert (outcome.partitions, outcome.replication_factor) == (2, 1)
    assert world.image.topics["t"].partitions == 2


@pytest.mark.parametrize(
    ("topic", "error", "words"),
    [
        (
            NewTopic("t", 1, -1, assignments=((0, (1,)),)),
            ErrorCode.INVALID_REQUEST,
            "but numPartitions was not set to -1.",
        ),
        (
            NewTopic("t", -1, 1, assignments=((0, (1,)),)),
            ErrorCode.INVALID_REQUEST,
            "but replication factor was not set to -1.",
        ),
        (
            NewTopic("t", assignments=((0, (1,)), (0, (1,)))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Found multiple manual partition assignments for partition 0",
        ),
        (
            NewTopic("t", assignments=((0, (1,)), (2, (1,)))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            NewTopic("t", assignments=((1, (1,)),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            NewTopic("t", assignments=((0, ()),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "includes an empty replica list.",
        ),
        (
            NewTopic("t", assignments=((0, (1, 1)),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "includes the broker 1 more than once.",
        ),
        (
            NewTopic("t", assignments=((0, (1, 2)),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "includes broker 2, but no such broker is registered.",
        ),
    ],
)
def test_bad_assignments_are_refused_in_kafkas_words(
    world: World, topic: NewTopic, error: ErrorCode, words: str
) -> None:
    code, message = refusal(world, topic)
    assert code is error
    assert message is not None and message.endswith(words)


# Bounds and roles


def test_one_request_makes_at_most_10000_partitions(world: World) -> None:
    outcomes = create(world, NewTopic("a", 9_999), NewTopic("b", 2), NewTopic("c", 1), NewTopic("d", 1))
    assert [(each.name, each.error) for each in outcomes] == [
        ("a", ErrorCode.NONE),
        ("b", ErrorCode.POLICY_VIOLATION),
        ("c", ErrorCode.NONE),
        ("d", ErrorCode.POLICY_VIOLATION),
    ]
    assert sum(topic.partitions for topic in world.image.topics.values()) == 10_000


@pytest.mark.parametrize(
    ("role", "error"),
    [
        (Role.VIEWER, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (Role.EDITOR, ErrorCode.NONE),
        (Role.ADMIN, ErrorCode.NONE),
    ],
)
def test_topics_are_an_editors_to_make(world: World, role: Role, error: ErrorCode) -> None:
    (outcome,) = world.do(plan_create_topics, CreateTopics((NewTopic("t"),)), role)
    assert outcome.error is error
    assert bool(world.image.topics) is outcome.ok


def test_who_may_not_make_topics_does_not_learn_which_exist(world: World) -> None:
    create(world, NewTopic("t"))
    outcomes = world.do(plan_create_topics, CreateTopics((NewTopic("t"), NewTopic("u"))), Role.VIEWER)
    assert len({(each.error, each.message) for each in outcomes}) == 1

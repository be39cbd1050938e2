"""CreateTopics, CreatePartitions and DeleteTopics with Kafka's codes and messages, and their limits."""

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.controller.commands import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    NewPartitions,
    NewTopic,
    PartitionsOutcome,
    TopicOutcome,
    TopicRef,
)
from broker.controller.topics import (
    ONLY_BY_WEIR,
    collision_key,
    plan_create_partitions,
    plan_create_topics,
    plan_delete_topics,
    validate_topic_name,
)
from broker.metadata.actor import ChangeOrigin, Role
from broker.metadata.image import INTERNAL_TOPICS
from tests.controller.world import World


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
        "because only 1 broker(s) are registered or some brokers have all their log directories cordoned."
    )


def test_tiered_storage_is_refused_in_kafkas_words(world: World) -> None:
    error, message = refusal(world, NewTopic("t", configs=(("remote.storage.enable", "true"),)))
    assert error is ErrorCode.INVALID_CONFIG
    assert message == (
        "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log "
        "storage."
    )
    _, message = refusal(world, NewTopic("t", configs=(("remote.storage.enable", "yes"),)))
    assert message is not None and message.startswith("Invalid value yes for configuration")


def test_a_topic_that_exists_is_not_made_again(world: World) -> None:
    create(world, NewTopic("t"))
    before = world.image
    (outcome,) = create(world, NewTopic("t", 9))
    assert (outcome.error, outcome.message) == (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists.")
    assert world.image.topics == before.topics


def test_names_that_metrics_cannot_distinguish_collide_also_within_a_request(world: World) -> None:
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


def test_a_user_that_may_not_make_topics_does_not_learn_which_exist(world: World) -> None:
    create(world, NewTopic("t"))
    outcomes = world.do(plan_create_topics, CreateTopics((NewTopic("t"), NewTopic("u"))), Role.VIEWER)
    assert len({(each.error, each.message) for each in outcomes}) == 1


@pytest.fixture
def partitioned() -> World:
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
def test_the_count_is_a_larger_total(
    partitioned: World, count: int, error: ErrorCode, message: str | None
) -> None:
    (outcome,) = grow(partitioned, NewPartitions("t", count))
    assert (outcome.error, outcome.message) == (error, message)
    assert partitioned.image.topics["t"].partitions == (count if outcome.ok else 3)


@pytest.mark.parametrize("name", sorted(INTERNAL_TOPICS))
def test_topics_whose_partitions_are_found_by_a_key_do_not_grow(world: World, name: str) -> None:
    """Else a group's next records go to another partition, and which of both counts after a restart is
    chance.
    """
    world.do(plan_create_topics, CreateTopics((NewTopic(name, 3),)))
    for count, error in ((3, ErrorCode.INVALID_PARTITIONS), (4, ErrorCode.INVALID_REQUEST)):
        (outcome,) = grow(world, NewPartitions(name, count))
        assert outcome.error == error
    assert world.image.topics[name].partitions == 3


def test_growing_keeps_the_id_and_the_settings(partitioned: World) -> None:
    before = partitioned.image.topics["t"]
    grow(partitioned, NewPartitions("t", 5))
    after = partitioned.image.topics["t"]
    assert (after.topic_id, after.configs, after.partitions) == (before.topic_id, before.configs, 5)


def test_validating_only_changes_nothing(partitioned: World) -> None:
    assert grow(partitioned, NewPartitions("t", 5), validate_only=True)[0].ok
    assert partitioned.image.topics["t"].partitions == 3


def test_an_unknown_topic_is_refused_and_others_grow(partitioned: World) -> None:
    first, second = grow(partitioned, NewPartitions("absent", 5), NewPartitions("u", 2))
    assert (first.topic, first.error) == ("absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert second.ok and partitioned.image.topics["u"].partitions == 2


def test_a_topic_given_twice_grows_not_even_once(partitioned: World) -> None:
    (outcome,) = grow(partitioned, NewPartitions("t", 5), NewPartitions("t", 6))
    assert (outcome.error, outcome.message) == (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    assert partitioned.image.topics["t"].partitions == 3


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
    partitioned: World, assignments: tuple[tuple[int, ...], ...], error: ErrorCode
) -> None:
    (outcome,) = grow(partitioned, NewPartitions("t", 5, assignments))
    assert outcome.error is error


@pytest.mark.parametrize(("count", "error"), [(10_003, ErrorCode.NONE), (10_004, ErrorCode.POLICY_VIOLATION)])
def test_one_request_adds_at_most_10000_partitions(partitioned: World, count: int, error: ErrorCode) -> None:
    (outcome,) = grow(partitioned, NewPartitions("t", count))
    assert outcome.error is error


def test_partitions_are_an_editors_to_add(partitioned: World) -> None:
    command = CreatePartitions((NewPartitions("t", 5),))
    (outcome,) = partitioned.do(plan_create_partitions, command, Role.VIEWER)
    assert outcome.error is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    (outcome,) = partitioned.do(plan_create_partitions, command, Role.EDITOR)
    assert outcome.ok


UNKNOWN_ID = b"\x07" * 16


def filled(*overrides: str) -> World:
    world = World(*overrides)
    world.do(
        plan_create_topics, CreateTopics((NewTopic("t", 3, configs=(("retention.ms", "5"),)), NewTopic("u")))
    )
    return world


@pytest.fixture
def two_topics() -> World:
    return filled()


def delete(world: World, *topics: TopicRef, role: Role = Role.ADMIN) -> list[TopicOutcome]:
    return world.do(plan_delete_topics, DeleteTopics(topics), role)


def test_a_topic_is_deleted_by_name_with_its_settings(two_topics: World) -> None:
    topic_id = two_topics.image.topics["t"].topic_id
    (outcome,) = delete(two_topics, TopicRef("t"))
    assert (outcome.ok, outcome.name, outcome.topic_id) == (True, "t", topic_id)
    assert list(two_topics.image.topics) == ["u"] and topic_id not in two_topics.image.topics_by_id


def test_a_topic_is_deleted_by_id(two_topics: World) -> None:
    topic_id = two_topics.image.topics["t"].topic_id
    (outcome,) = delete(two_topics, TopicRef(topic_id=topic_id))
    assert (outcome.ok, outcome.name, outcome.topic_id) == (True, "t", topic_id)
    assert list(two_topics.image.topics) == ["u"]


def test_a_topic_made_again_has_another_id_and_none_of_the_old_settings(two_topics: World) -> None:
    before = two_topics.image.topics["t"].topic_id
    delete(two_topics, TopicRef("t"))
    two_topics.do(plan_create_topics, CreateTopics((NewTopic("t"),)))
    after = two_topics.image.topics["t"]
    assert after.topic_id != before and after.configs == {}


@pytest.mark.parametrize(
    ("wanted", "error", "message"),
    [
        (
            TopicRef("absent"),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "This server does not host this topic-partition.",
        ),
        (
            TopicRef(topic_id=UNKNOWN_ID),
            ErrorCode.UNKNOWN_TOPIC_ID,
            "This server does not host this topic ID.",
        ),
        (TopicRef(), ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified."),
        (
            TopicRef("t", UNKNOWN_ID),
            ErrorCode.INVALID_REQUEST,
            "You may not specify both topic name and topic id.",
        ),
    ],
)
def test_a_topic_that_cannot_be_deleted_is_refused_and_others_go(
    two_topics: World, wanted: TopicRef, error: ErrorCode, message: str
) -> None:
    first, second = delete(two_topics, wanted, TopicRef("u"))
    assert (first.error, first.message) == (error, message)
    assert (first.name, first.topic_id) == (wanted.name, wanted.topic_id or bytes(16))
    assert second.ok and list(two_topics.image.topics) == ["t"]


def test_a_reference_given_twice_is_not_deleted(two_topics: World) -> None:
    (outcome,) = delete(two_topics, TopicRef("t"), TopicRef("t"))
    assert (outcome.error, outcome.message) == (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    topic_id = two_topics.image.topics["t"].topic_id
    (outcome,) = delete(two_topics, TopicRef(topic_id=topic_id), TopicRef(topic_id=topic_id))
    assert (outcome.error, outcome.message) == (ErrorCode.INVALID_REQUEST, "Duplicate topic id.")
    assert "t" in two_topics.image.topics


@pytest.mark.parametrize("is_id_first", [True, False])
def test_a_topic_named_by_name_and_by_id_is_refused_once_and_costs_nothing(
    two_topics: World, is_id_first: bool
) -> None:
    topic_id = two_topics.image.topics["t"].topic_id
    references = (TopicRef(topic_id=topic_id), TopicRef("t"))
    charged: list[int] = []
    command = DeleteTopics((*references[:: 1 if is_id_first else -1], TopicRef("u")), charged.append)
    refused, deleted = two_topics.do(plan_delete_topics, command, Role.ADMIN)
    assert (refused.error, refused.name, refused.topic_id) == (ErrorCode.INVALID_REQUEST, "t", topic_id)
    assert refused.message == "The provided topic name maps to an ID that was already supplied."
    assert deleted.ok and list(two_topics.image.topics) == ["t"]
    assert charged == [1]


def test_a_topic_named_by_name_and_by_an_id_given_twice_is_refused_for_both(two_topics: World) -> None:
    by_id = TopicRef(topic_id=two_topics.image.topics["t"].topic_id)
    outcomes = delete(two_topics, by_id, TopicRef("t"), by_id)
    assert [each.message for each in outcomes] == [
        "Duplicate topic id.",
        "The provided topic name maps to an ID that was already supplied.",
    ]
    assert "t" in two_topics.image.topics


def test_a_topic_named_by_its_id_and_twice_by_its_name_is_deleted_by_its_id(two_topics: World) -> None:
    by_id = TopicRef(topic_id=two_topics.image.topics["t"].topic_id)
    outcomes = delete(two_topics, TopicRef("t"), by_id, TopicRef("t"))
    assert [each.message for each in outcomes] == ["Duplicate topic name.", None]
    assert list(two_topics.image.topics) == ["u"]


def test_deletion_can_be_forbidden() -> None:
    two_topics = filled("delete.topic.enable=false")
    (outcome,) = delete(two_topics, TopicRef("t"))
    assert outcome.error is ErrorCode.TOPIC_DELETION_DISABLED
    assert "t" in two_topics.image.topics


@pytest.mark.parametrize("role", [Role.VIEWER, Role.EDITOR])
def test_topics_are_an_administrators_to_delete_and_others_do_not_learn_which_exist(
    two_topics: World, role: Role
) -> None:
    outcomes = delete(two_topics, TopicRef("t"), TopicRef("absent"), role=role)
    assert {each.error for each in outcomes} == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert "t" in two_topics.image.topics


TOPICS = "cluster.quota.topic.count"
PARTITIONS = "cluster.quota.partition.count"


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


def test_a_topic_that_exists_is_refused_where_the_quota_is_used_up() -> None:
    world = World(f"{TOPICS}=1")
    create(world, NewTopic("a"))
    (outcome,) = create(world, NewTopic("a"))
    assert outcome.error is ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize(
    "name", ["a", "A-z_0.9", "...", "x" * 248, "x" * 249, "__consumer_offsets", "-", "_"]
)
def test_legal_names_pass(name: str) -> None:
    validate_topic_name(name)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, "longer than the max allowed length 249"),
        ("a b", "contains one or more characters other than"),
        ("a/b", "contains one or more characters other than"),
        ("../etc", "contains one or more characters other than"),
        ("é", "contains one or more characters other than"),
        ("a\n", "contains one or more characters other than"),
        ("a\0", "contains one or more characters other than"),
    ],
)
def test_other_names_are_refused_and_the_message_holds_no_control_characters(name: str, words: str) -> None:
    with pytest.raises(ApiError, match=words) as caught:
        validate_topic_name(name)
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert caught.value.message is not None and caught.value.message.isprintable()


def test_dots_and_underscores_collide() -> None:
    assert collision_key("a.b_c") == collision_key("a_b.c") != collision_key("a-b-c")


RESERVED = ["__weir_x", "__weir_requests", "__weir.requests", "_.weir_x", "..weir.", "__weir_"]


@pytest.mark.parametrize("origin", [each for each in ChangeOrigin if each is not ChangeOrigin.BROKER])
@pytest.mark.parametrize("name", RESERVED)
def test_weir_alone_creates_its_topics_and_those_that_would_collide(
    world: World, name: str, origin: ChangeOrigin
) -> None:
    world.origin = origin
    assert refusal(world, NewTopic(name)) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ONLY_BY_WEIR)


def test_weir_creates_its_own_topics(world: World) -> None:
    world.origin = ChangeOrigin.BROKER
    (outcome,) = create(world, NewTopic("__weir_requests"))
    assert outcome.ok and "__weir_requests" in world.image.topics


@pytest.mark.parametrize("name", ["_weir_x", "__weir", "x__weir_x", "__Weir_x", "__weirx"])
def test_names_that_only_resemble_those_of_weir_are_for_everybody(world: World, name: str) -> None:
    (outcome,) = create(world, NewTopic(name))
    assert outcome.ok

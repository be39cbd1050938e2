"""DeleteTopics by name and by id, with the codes and messages of Kafka's ControllerApis."""

import pytest

from broker.control.commands import CreateTopics, DeleteTopics, NewTopic, TopicOutcome, TopicRef
from broker.control.create_topics import plan_create_topics
from broker.control.delete_topics import plan_delete_topics
from broker.errors import ErrorCode
from broker.metadata.actor import Role
from tests.control.world import World

UNKNOWN_ID = b"\x07" * 16


def filled(*overrides: str) -> World:
    world = World(*overrides)
    world.do(
        plan_create_topics, CreateTopics((NewTopic("t", 3, configs=(("retention.ms", "5"),)), NewTopic("u")))
    )
    return world


@pytest.fixture
def world() -> World:
    return filled()


def delete(world: World, *topics: TopicRef, role: Role = Role.ADMIN) -> list[TopicOutcome]:
    return world.do(plan_delete_topics, DeleteTopics(topics), role)


def test_a_topic_is_deleted_by_name_with_its_settings(world: World) -> None:
    topic_id = world.image.topics["t"].topic_id
    (outcome,) = delete(world, TopicRef("t"))
    assert (outcome.ok, outcome.name, outcome.topic_id) == (True, "t", topic_id)
    assert list(world.image.topics) == ["u"] and topic_id not in world.image.topics_by_id


def test_a_topic_is_deleted_by_id(world: World) -> None:
    topic_id = world.image.topics["t"].topic_id
    (outcome,) = delete(world, TopicRef(topic_id=topic_id))
    assert (outcome.ok, outcome.name, outcome.topic_id) == (True, "t", topic_id)
    assert list(world.image.topics) == ["u"]


def test_a_topic_made_again_has_another_id_and_none_of_the_old_settings(world: World) -> None:
    before = world.image.topics["t"].topic_id
    delete(world, TopicRef("t"))
    world.do(plan_create_topics, CreateTopics((NewTopic("t"),)))
    after = world.image.topics["t"]
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
def test_what_cannot_be_deleted_is_told_so_and_others_go(
    world: World, wanted: TopicRef, error: ErrorCode, message: str
) -> None:
    first, second = delete(world, wanted, TopicRef("u"))
    assert (first.error, first.message) == (error, message)
    assert (first.name, first.topic_id) == (wanted.name, wanted.topic_id or bytes(16))
    assert second.ok and list(world.image.topics) == ["t"]


def test_a_reference_given_twice_is_not_deleted(world: World) -> None:
    (outcome,) = delete(world, TopicRef("t"), TopicRef("t"))
    assert (outcome.error, outcome.message) == (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    topic_id = world.image.topics["t"].topic_id
    (outcome,) = delete(world, TopicRef(topic_id=topic_id), TopicRef(topic_id=topic_id))
    assert (outcome.error, outcome.message) == (ErrorCode.INVALID_REQUEST, "Duplicate topic id.")
    assert "t" in world.image.topics


def test_a_topic_named_by_name_and_by_id_is_deleted_once(world: World) -> None:
    outcomes = delete(world, TopicRef("t"), TopicRef(topic_id=world.image.topics["t"].topic_id))
    assert [each.ok for each in outcomes] == [True, True]
    assert list(world.image.topics) == ["u"]


def test_deletion_can_be_forbidden() -> None:
    world = filled("delete.topic.enable=false")
    (outcome,) = delete(world, TopicRef("t"))
    assert outcome.error is ErrorCode.TOPIC_DELETION_DISABLED
    assert "t" in world.image.topics


@pytest.mark.parametrize("role", [Role.VIEWER, Role.EDITOR])
def test_topics_are_an_administrators_to_delete_and_others_do_not_learn_which_exist(
    world: World, role: Role
) -> None:
    outcomes = delete(world, TopicRef("t"), TopicRef("absent"), role=role)
    assert {each.error for each in outcomes} == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert "t" in world.image.topics

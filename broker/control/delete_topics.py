"""Plans DeleteTopics, by name or by id. (Kafka: ControllerApis.deleteTopics, with its codes and messages)"""

from broker.control.commands import DeleteTopics, TopicOutcome, TopicRef
from broker.control.plan import PLANNED_AT_ONCE, Plan, Situation
from broker.control.replicas import repeated_in_steps
from broker.errors import ApiError, ErrorCode
from broker.metadata.actor import Role
from broker.metadata.changes import Change, Kind
from broker.metadata.image import Topic
from broker.steps import Steps


def plan_delete_topics(command: DeleteTopics, at: Situation) -> Steps[Plan[list[TopicOutcome]]]:
    refusal = at.refusal(Role.ADMIN, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    twice = yield from repeated_in_steps(command.topics)
    outcomes: list[TopicOutcome] = []
    doomed: dict[str, Topic] = {}
    for wanted in dict.fromkeys(command.topics):
        if outcomes and len(outcomes) % PLANNED_AT_ONCE == 0:
            yield
        try:
            if refusal is not None:
                raise ApiError(refusal.error, refusal.message)
            if not at.config.topics.delete_topics:
                raise ApiError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
            topic = _named(wanted, wanted in twice, at)
            command.charge(topic.partitions)
        except ApiError as error:
            outcomes.append(
                TopicOutcome(error.code, error.message, wanted.name, wanted.topic_id or bytes(16))
            )
            continue
        doomed[topic.name] = topic
        outcomes.append(TopicOutcome(name=topic.name, topic_id=topic.topic_id))
    changes: list[Change] = []
    for topic in doomed.values():
        changes.extend(_deletion_changes(topic))
        yield
    return Plan(outcomes, tuple(changes))


def _named(wanted: TopicRef, is_repeated: bool, at: Situation) -> Topic:
    if wanted.name is None and wanted.topic_id is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if wanted.name is not None and wanted.topic_id is not None:
        raise ApiError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if is_repeated:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Duplicate topic {'id' if wanted.name is None else 'name'}."
        )
    if wanted.topic_id is not None:
        topic = at.image.topics_by_id.get(wanted.topic_id)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        return topic
    topic = at.image.topics.get(wanted.name or "")
    if topic is None:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        )
    return topic


def _deletion_changes(topic: Topic) -> list[Change]:
    return [
        Change(Kind.TOPIC, topic.name, "id", None),
        Change(Kind.TOPIC, topic.name, "partitions", None),
        *(Change(Kind.TOPIC_CONFIG, topic.name, key, None) for key in topic.configs),
    ]

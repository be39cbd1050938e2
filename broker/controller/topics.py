"""Plans CreateTopics, CreatePartitions and DeleteTopics, and validates topic names and settings.

(Kafka: ReplicationControlManager, ControllerApis.deleteTopics, Topic.validate and LogConfig.validate, with
their codes and messages.) With one broker, every partition has one replica, on this broker. The logs are
created when the image changes.
"""

import secrets
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from broker.common.errors import ApiError, ChangeRefused, ConfigError, ErrorCode
from broker.common.slices import Steps
from broker.config.kinds import LONG_MAX
from broker.config.sections.quotas import THROTTLED_REPLICAS
from broker.config.sections.topics import TOPIC_SETTINGS, UNTIERED
from broker.config.setting import Setting
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
from broker.controller.plan import Plan, Situation, repeated, repeated_in_steps
from broker.metadata.actor import ChangeOrigin, Role
from broker.metadata.changes import Change, ChangeKind
from broker.metadata.image import INTERNAL_TOPICS, OUR_TOPICS, Topic, is_reserved, name_problem

MAX_PARTITIONS: Final = 10_000
"""Per request. (Kafka: MAX_PARTITIONS_PER_BATCH)"""

ALL_CORDONED: Final = "All brokers are currently fenced, or have all their log directories cordoned."

NAMED_TWICE: Final = "The provided topic name maps to an ID that was already supplied."

ONLY_BY_WEIR: Final = f"Only Weir itself creates topics whose names begin with {OUR_TOPICS}."


class _Allowance:
    """The topics and partitions that one command can still create.

    `cluster.quota.topic.count` and `.partition.count` limit them, and MAX_PARTITIONS limits the partitions of
    a request. (AutoMQ: ReplicationControlManager.checkTopicQuota and checkPartitionQuota) Internal topics
    count and are refused too, as in AutoMQ. Two things differ: each topic of a request is accepted or refused
    individually, and the error is POLICY_VIOLATION instead of AutoMQ's THROTTLING_QUOTA_EXCEEDED, which
    clients would retry in vain.
    """

    def __init__(self, at: Situation) -> None:
        limits, topics = at.config.broker_quotas, at.image.topics
        self._left = MAX_PARTITIONS
        self._max_topics = limits.topic_count
        self._max_partitions = limits.partition_count
        self._topics = len(topics)
        # Counted only if there is a limit.
        self._partitions = (
            sum(topic.partitions for topic in topics.values()) if limits.partition_count < LONG_MAX else 0
        )

    def take(self, topics: int, partitions: int) -> None:
        """Use up part of the allowance. Raises ApiError POLICY_VIOLATION above a limit.

        What a limit of the cluster refuses still counts toward the maximum of the request.
        """
        if partitions > self._left:
            raise ApiError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
        self._left -= partitions
        if self._topics + topics > self._max_topics:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"There are {self._topics} topics, and cluster.quota.topic.count allows {self._max_topics}.",
            )
        if self._partitions + partitions > self._max_partitions:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"There are {self._partitions} partitions; {partitions} more would exceed the "
                f"{self._max_partitions} that cluster.quota.partition.count allows.",
            )
        self._topics += topics
        self._partitions += partitions


def plan_create_topics(command: CreateTopics, at: Situation) -> Steps[Plan[list[TopicOutcome]]]:
    duplicates = yield from repeated_in_steps(topic.name for topic in command.topics)
    outcomes: list[TopicOutcome] = []
    changes: list[Change] = []
    taken: dict[str, str] = {}
    for name in at.image.topics:
        taken[collision_key(name)] = name
        yield
    allowance = _Allowance(at)
    for name, topic in {topic.name: topic for topic in command.topics}.items():
        yield
        try:
            at.require(Role.EDITOR, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            if is_reserved(name) and at.actor.origin is not ChangeOrigin.BROKER:
                raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, ONLY_BY_WEIR)
            if name in duplicates:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            _check_new_name(name, taken, at)
            outcome = _new_topic(topic, at)
            allowance.take(1, outcome.partitions)
            command.charge(outcome.partitions)
        except ApiError as error:
            outcomes.append(TopicOutcome(error.code, error.message, name))
            continue
        taken[collision_key(name)] = name
        outcomes.append(outcome)
        changes.extend(_creation_changes(outcome))
    return Plan(outcomes, () if command.validate_only else tuple(changes))


def _check_new_name(name: str, taken: dict[str, str], at: Situation) -> None:
    validate_topic_name(name)
    if name in at.image.topics:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    existing = taken.get(collision_key(name))
    if existing is not None:
        raise ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {existing}"
        )


def _new_topic(topic: NewTopic, at: Situation) -> TopicOutcome:
    partitions, replicas = _assigned(topic, at) if topic.assignments else _counted(topic, at)
    nulls = [key for key, value in topic.configs if value is None]
    if nulls:
        raise ApiError(
            ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}"
        )
    configs = {key: value for key, value in topic.configs if value is not None}
    for key, value in configs.items():
        read_topic_config(key, value)
    return TopicOutcome(
        name=topic.name,
        topic_id=_new_topic_id(at),
        partitions=partitions,
        replication_factor=replicas,
        configs=tuple(sorted(configs.items())),
    )


def _counted(topic: NewTopic, at: Situation) -> tuple[int, int]:
    partitions, replicas = topic.partitions, topic.replication_factor
    if replicas < -1 or replicas == 0:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if partitions < -1 or partitions == 0:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
        )
    if replicas == -1:
        replicas = at.config.topics.default_replication_factor
    if at.config.log.are_all_cordoned:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replicas} time(s): {ALL_CORDONED}",
        )
    if replicas > 1:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replicas} time(s): The target replication factor of "
            f"{replicas} cannot be reached because only 1 broker(s) are registered or some brokers have all "
            "their log directories cordoned.",
        )
    return at.config.topics.num_partitions if partitions == -1 else partitions, replicas


def _assigned(topic: NewTopic, at: Situation) -> tuple[int, int]:
    for value, field in (
        (topic.replication_factor, "replication factor"),
        (topic.partitions, "numPartitions"),
    ):
        if value != -1:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {field} was not set to -1.",
            )
    indexes = [index for index, _ in topic.assignments]
    for index in repeated(indexes):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Found multiple manual partition assignments for partition {index}",
        )
    brokers = [each for _, each in topic.assignments]
    check_replicas(brokers, at.node_id, is_cordoned=at.config.log.are_all_cordoned)
    if sorted(indexes) != list(range(len(indexes))):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return len(indexes), 1


def _new_topic_id(at: Situation) -> bytes:
    """Return 16 random bytes that no topic has and whose base64 form does not look like a command-line
    option.
    """
    while True:
        topic_id = secrets.token_bytes(16)
        if topic_id[0] >> 2 != 62 and any(topic_id[:15]) and topic_id not in at.image.topics_by_id:
            return topic_id


def _creation_changes(topic: TopicOutcome) -> list[Change]:
    name = topic.name or ""
    return [
        Change(ChangeKind.TOPIC, name, "id", topic.topic_id.hex()),
        Change(ChangeKind.TOPIC, name, "partitions", str(topic.partitions)),
        *(Change(ChangeKind.TOPIC_CONFIG, name, key, value) for key, value in topic.configs),
    ]


def plan_create_partitions(command: CreatePartitions, at: Situation) -> Steps[Plan[list[PartitionsOutcome]]]:
    duplicates = yield from repeated_in_steps(topic.topic for topic in command.topics)
    outcomes: list[PartitionsOutcome] = []
    changes: list[Change] = []
    allowance = _Allowance(at)
    for name, wanted in {topic.topic: topic for topic in command.topics}.items():
        yield
        try:
            at.require(Role.EDITOR, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            if name in duplicates:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            added = _added_partitions(wanted, at)
            allowance.take(0, added)
            command.charge(added)
        except ApiError as error:
            outcomes.append(PartitionsOutcome(error.code, error.message, name))
            continue
        outcomes.append(PartitionsOutcome(topic=name))
        changes.append(Change(ChangeKind.TOPIC, name, "partitions", str(wanted.count)))
    return Plan(outcomes, () if command.validate_only else tuple(changes))


def _added_partitions(wanted: NewPartitions, at: Situation) -> int:
    topic = at.image.topics.get(wanted.topic)
    if topic is None:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        )
    check_topic_version(topic, wanted.expected_version)
    added = wanted.count - topic.partitions
    if added == 0:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {topic.partitions} partition(s).")
    if added < 0:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {topic.partitions} partition(s); {wanted.count} would "
            "not be an increase.",
        )
    if topic.name in INTERNAL_TOPICS:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"The number of partitions of {topic.name} cannot be changed: it says which of them has the "
            "state of a group or of a transactional id.",
        )
    if wanted.assignments is not None:
        if len(wanted.assignments) != added:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {added} additional partition(s), but only {len(wanted.assignments)} "
                "assignment(s) were specified.",
            )
        check_replicas(wanted.assignments, at.node_id, is_cordoned=at.config.log.are_all_cordoned)
    elif at.config.log.are_all_cordoned:
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, ALL_CORDONED)
    return added


def plan_delete_topics(command: DeleteTopics, at: Situation) -> Steps[Plan[list[TopicOutcome]]]:
    duplicates = yield from repeated_in_steps(command.topics)
    named_twice = yield from _named_by_name_and_id(command.topics, duplicates, at)
    outcomes: list[TopicOutcome] = []
    deleted: dict[str, Topic] = {}
    for wanted in dict.fromkeys(command.topics):
        yield
        try:
            at.require(Role.ADMIN, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            if not at.config.topics.delete_topics:
                raise ApiError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
            topic = _existing_topic(wanted, wanted in duplicates, at)
            if topic.name in named_twice:
                if wanted.name is not None:  # one outcome for both
                    outcomes.append(
                        TopicOutcome(ErrorCode.INVALID_REQUEST, NAMED_TWICE, topic.name, topic.topic_id)
                    )
                continue
            check_topic_version(topic, wanted.expected_version)
            command.charge(topic.partitions)
        except ApiError as error:
            outcomes.append(
                TopicOutcome(error.code, error.message, wanted.name, wanted.topic_id or bytes(16))
            )
            continue
        deleted[topic.name] = topic
        outcomes.append(TopicOutcome(name=topic.name, topic_id=topic.topic_id))
    changes: list[Change] = []
    for topic in deleted.values():
        changes.extend(_deletion_changes(topic))
        yield
    return Plan(outcomes, tuple(changes))


def _named_by_name_and_id(
    topics: Iterable[TopicRef], duplicates: Collection[TopicRef], at: Situation
) -> Steps[set[str]]:
    """Return the names of topics that are named both by their name, once, and by their id."""
    by_name: set[str] = set()
    by_id: set[str] = set()
    for ref in topics:
        yield
        if ref.topic_id is None:
            if ref.name is not None and ref not in duplicates:
                by_name.add(ref.name)
        elif ref.name is None and (topic := at.image.topics_by_id.get(ref.topic_id)) is not None:
            by_id.add(topic.name)
    return by_name & by_id


def _existing_topic(wanted: TopicRef, is_repeated: bool, at: Situation) -> Topic:
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
        Change(ChangeKind.TOPIC, topic.name, "id", None),
        Change(ChangeKind.TOPIC, topic.name, "partitions", None),
        *(Change(ChangeKind.TOPIC_CONFIG, topic.name, key, None) for key in topic.configs),
    ]


def check_replicas(assignments: Iterable[Sequence[int]], node_id: int, *, is_cordoned: bool) -> None:
    """Raise ApiError INVALID_REPLICA_ASSIGNMENT unless each partition is on this broker, exactly once.

    `is_cordoned`: no log directory gets partitions. (Kafka: validateManualPartitionAssignment)
    """
    for brokers in assignments:
        wanted = sorted(brokers)
        if not wanted:
            problem = "an empty replica list."
        elif wanted[0] != node_id:
            problem = f"broker {wanted[0]}, but no such broker is registered."
        elif is_cordoned:
            problem = f"broker {node_id}, but all its log directories are cordoned."
        elif wanted[1:2] == [node_id]:
            problem = f"the broker {node_id} more than once."
        elif wanted[1:]:
            problem = f"broker {wanted[1]}, but no such broker is registered."
        else:
            continue
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {problem}"
        )


def check_topic_version(topic: Topic, expected: int | None) -> None:
    """Raise ApiError INVALID_UPDATE_VERSION if the topic has another version than expected."""
    if expected not in (None, topic.version):
        raise ApiError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"The topic {topic.name} was changed since it was read (version {topic.version})",
        )


def validate_topic_name(name: str) -> None:
    """Raise ApiError INVALID_TOPIC_EXCEPTION for an invalid name."""
    problem = name_problem(name)
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def collision_key(name: str) -> str:
    """Return equal keys for names that collide in metrics, which write both '.' and '_' as '_'."""
    return name.replace(".", "_")


def topic_setting(key: str) -> Setting:
    """Return the setting. Raises ApiError INVALID_CONFIG for an unknown key."""
    setting = TOPIC_SETTINGS.get(key)
    if setting is None:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {key}")
    return setting


def read_topic_config(key: str, text: str) -> Any:
    """Parse the value. Raises ApiError INVALID_CONFIG."""
    try:
        return topic_setting(key).read(text, key=key)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, invalid_value(error)) from error


def invalid_value(error: ConfigError) -> str:
    if isinstance(error, ChangeRefused):
        return error.allowed
    if error.allowed == UNTIERED.allowed and error.value == "true":
        return (
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote "
            "log storage."
        )
    if error.allowed == THROTTLED_REPLICAS.allowed:
        items = ", ".join(item.strip() for item in str(error.value).split(","))
        return f"Invalid value [{items}] for configuration {error.key}: {error.key} must be {error.allowed}"
    return f"Invalid value {error.value} for configuration {error.key}: must be {error.allowed}"

"""Plans CreateTopics. (Kafka: ReplicationControlManager.createTopics, with its codes and messages)

With one broker, every partition has one replica, on this broker. The logs are created when the image changes.
"""

import secrets

from broker.control.cluster_quota import ClusterQuota
from broker.control.commands import CreateTopics, NewTopic, TopicOutcome
from broker.control.plan import PLANNED_AT_ONCE, Plan, Situation
from broker.control.replicas import (
    KEYS_AT_ONCE,
    PartitionAllowance,
    check_replicas,
    repeated,
    repeated_in_steps,
)
from broker.control.topic_configs import read_topic_config
from broker.control.topic_names import collision_key, validate_topic_name
from broker.errors import ApiError, ErrorCode
from broker.metadata.actor import Role
from broker.metadata.changes import Change, Kind
from broker.steps import Steps


def plan_create_topics(command: CreateTopics, at: Situation) -> Steps[Plan[list[TopicOutcome]]]:
    twice = yield from repeated_in_steps(topic.name for topic in command.topics)
    refusal = at.refusal(Role.EDITOR, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    outcomes: list[TopicOutcome] = []
    changes: list[Change] = []
    taken: dict[str, str] = {}
    for name in at.image.topics:
        taken[collision_key(name)] = name
        if len(taken) % KEYS_AT_ONCE == 0:
            yield
    allowance = PartitionAllowance()
    quota = ClusterQuota(at)
    for name, topic in {topic.name: topic for topic in command.topics}.items():
        if outcomes and len(outcomes) % PLANNED_AT_ONCE == 0:
            yield
        try:
            if refusal is not None:
                raise ApiError(refusal.error, refusal.message)
            if name in twice:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            _check_new_name(name, taken, at)
            outcome = _new_topic(topic, at)
            allowance.take(outcome.partitions)
            quota.take(1, outcome.partitions)
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
    rival = taken.get(collision_key(name))
    if rival is not None:
        raise ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {rival}"
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
    if replicas > 1:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replicas} time(s): The target replication factor of "
            f"{replicas} cannot be reached because only 1 broker(s) are registered.",
        )
    return at.config.topics.num_partitions if partitions == -1 else partitions, replicas


def _assigned(topic: NewTopic, at: Situation) -> tuple[int, int]:
    for value, what in (
        (topic.replication_factor, "replication factor"),
        (topic.partitions, "numPartitions"),
    ):
        if value != -1:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {what} was not set to -1.",
            )
    indexes = [index for index, _ in topic.assignments]
    for index in repeated(indexes):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Found multiple manual partition assignments for partition {index}",
        )
    check_replicas([brokers for _, brokers in topic.assignments], at.node_id)
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
        Change(Kind.TOPIC, name, "id", topic.topic_id.hex()),
        Change(Kind.TOPIC, name, "partitions", str(topic.partitions)),
        *(Change(Kind.TOPIC_CONFIG, name, key, value) for key, value in topic.configs),
    ]

"""Plans CreatePartitions. (Kafka: ReplicationControlManager.createPartitions, with its codes and messages)"""

from broker.control.cluster_quota import ClusterQuota
from broker.control.commands import CreatePartitions, NewPartitions, PartitionsOutcome
from broker.control.plan import PLANNED_AT_ONCE, Plan, Situation
from broker.control.replicas import PartitionAllowance, check_replicas, repeated_in_steps
from broker.errors import ApiError, ErrorCode
from broker.metadata.actor import Role
from broker.metadata.changes import Change, Kind
from broker.steps import Steps


def plan_create_partitions(command: CreatePartitions, at: Situation) -> Steps[Plan[list[PartitionsOutcome]]]:
    twice = yield from repeated_in_steps(topic.topic for topic in command.topics)
    refusal = at.refusal(Role.EDITOR, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    outcomes: list[PartitionsOutcome] = []
    changes: list[Change] = []
    allowance = PartitionAllowance()
    quota = ClusterQuota(at)
    for name, wanted in {topic.topic: topic for topic in command.topics}.items():
        if outcomes and len(outcomes) % PLANNED_AT_ONCE == 0:
            yield
        try:
            if refusal is not None:
                raise ApiError(refusal.error, refusal.message)
            if name in twice:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            added = _added(wanted, at)
            allowance.take(added)
            quota.take(0, added)
            command.charge(added)
        except ApiError as error:
            outcomes.append(PartitionsOutcome(error.code, error.message, name))
            continue
        outcomes.append(PartitionsOutcome(topic=name))
        changes.append(Change(Kind.TOPIC, name, "partitions", str(wanted.count)))
    return Plan(outcomes, () if command.validate_only else tuple(changes))


def _added(wanted: NewPartitions, at: Situation) -> int:
    topic = at.image.topics.get(wanted.topic)
    if topic is None:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        )
    added = wanted.count - topic.partitions
    if added == 0:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {topic.partitions} partition(s).")
    if added < 0:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {topic.partitions} partition(s); {wanted.count} would "
            "not be an increase.",
        )
    if wanted.assignments is not None:
        if len(wanted.assignments) != added:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {added} additional partition(s), but only {len(wanted.assignments)} "
                "assignment(s) were specified.",
            )
        check_replicas(wanted.assignments, at.node_id)
    return added

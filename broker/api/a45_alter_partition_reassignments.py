"""AlterPartitionReassignments: assigns partitions to brokers, of which there is only this one.

Versions 0-1. Assigning a partition to this broker succeeds and changes nothing, which
kafka-reassign-partitions needs to move partitions between log directories. Any other broker is
INVALID_REPLICA_ASSIGNMENT; a null list, which cancels a reassignment, is NO_REASSIGNMENT_IN_PROGRESS.
"""

from collections.abc import Awaitable
from functools import partial

from broker.api.context import RequestContext
from broker.api.outcome import Answered, Outcome, in_slices
from broker.api.pacing import Pace, mapped
from broker.api.registry import api
from broker.api.services import ControlServices
from broker.control.topics import check_replicas
from broker.errors import ApiError, ErrorCode
from broker.metadata.actor import Role
from broker.metadata.image import Topic
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from broker.records.slices import Slices


@api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=(0, 1), services=ControlServices)
def handle(
    message: AlterPartitionReassignmentsRequest, context: RequestContext, services: ControlServices
) -> Outcome | Awaitable[Outcome]:
    return in_slices(_respond(message, context, services))


def _respond(
    message: AlterPartitionReassignmentsRequest, context: RequestContext, services: ControlServices
) -> Slices[Outcome]:
    pace = Pace()
    reply = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=message.allow_replication_factor_change
    )
    if services.security.actor(context).role < Role.ADMIN:
        reply.error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return Answered(reply)
    topics = services.control.image.topics
    for asked in message.topics:
        topic = topics.get(asked.name)
        answers = yield from mapped(partial(_answer, services, asked.name, topic), asked.partitions, pace)
        if pace.spent(2):
            yield None
        reply.responses.append(ReassignableTopicResponse(asked.name, answers))
    return Answered(reply)


def _answer(
    services: ControlServices, name: str, topic: Topic | None, asked: ReassignablePartition
) -> ReassignablePartitionResponse:
    index = asked.partition_index
    try:
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
        if not 0 <= index < topic.partitions:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}.")
        if asked.replicas is None:
            raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        check_replicas([tuple(asked.replicas)], services.node_id)
    except ApiError as refused:
        return ReassignablePartitionResponse(index, refused.code, refused.message)
    return ReassignablePartitionResponse(index)

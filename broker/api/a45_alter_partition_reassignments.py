"""AlterPartitionReassignments: assigns partitions to brokers, of which there is only this one.

Versions 0-1. Assigning a partition to this broker succeeds and changes nothing, which
kafka-reassign-partitions needs to move partitions between log directories. Any other broker is
INVALID_REPLICA_ASSIGNMENT, and so is this one while all its log directories are cordoned (KIP-1066); a null
list, which cancels a reassignment, is NO_REASSIGNMENT_IN_PROGRESS.
"""

from functools import partial

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.pacing import mapped
from broker.api.requests.services import ControlServices
from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Slices
from broker.controller.topics import check_replicas
from broker.metadata.image import Topic
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from broker.security.acl.acl import Operation


@api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=(0, 1), services=ControlServices)
def handle(
    message: AlterPartitionReassignmentsRequest, context: RequestContext, services: ControlServices
) -> Slices[Outcome]:
    reply = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=message.allow_replication_factor_change
    )
    if not services.security.permits(context, Operation.ALTER):
        reply.error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return Response(reply)
    topics = services.control.image.topics
    for requested in message.topics:
        topic = topics.get(requested.name)
        responses = yield from mapped(
            partial(_response, services, requested.name, topic), requested.partitions
        )
        yield None
        reply.responses.append(ReassignableTopicResponse(requested.name, responses))
    return Response(reply)


def _response(
    services: ControlServices, name: str, topic: Topic | None, requested: ReassignablePartition
) -> ReassignablePartitionResponse:
    index = requested.partition_index
    try:
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
        if not 0 <= index < topic.partitions:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}.")
        if requested.replicas is None:
            raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        is_cordoned = services.control.config.log.are_all_cordoned
        check_replicas([requested.replicas], services.node_id, is_cordoned=is_cordoned)
    except ApiError as refused:
        return ReassignablePartitionResponse(index, refused.code, refused.message)
    return ReassignablePartitionResponse(index)

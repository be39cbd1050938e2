"""ShareGroupHeartbeat: a member of a share group joins, learns its partitions, or leaves. (KIP-932)

Version 1. The client makes its member id. The assignor is `simple`; a partition is assigned from the second
heartbeat on, once its share-partition state is initialized. A request may subscribe to 10,000 topics. The
group's READ operation is required, and DESCRIBE of each named topic. A group of another type is
GROUP_ID_NOT_FOUND. Left out: racks have no effect on the assignment, as in Kafka.
"""

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.group_replies import LONGEST_NAME, LargeGroupRequest, conclude, now_of
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import GroupServices
from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Slices, Steps
from broker.coordinator.group.messages import ModernHeartbeatReply, ShareHeartbeatRequest
from broker.coordinator.group.modern_group import MAX_TOPICS as MAX_TOPICS
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from broker.security.acl.acl import Operation


@api(ApiKey.SHARE_GROUP_HEARTBEAT, versions=(1, 1), services=GroupServices)
def handle(
    message: ShareGroupHeartbeatRequest, context: RequestContext, services: GroupServices
) -> Slices[Outcome]:
    try:
        _check(message, context, services)
        yield from _check_topics(message, context, services)
    except ApiError as error:
        return Response(ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message))
    request = ShareHeartbeatRequest(
        message.group_id,
        message.member_id,
        message.member_epoch,
        message.rack_id,
        None if message.subscribed_topic_names is None else tuple(message.subscribed_topic_names),
        context.client_id or "",
        f"/{context.connection.address}",
    )
    group_request = LargeGroupRequest(context, _response)
    coordinator, now = services.groups.coordinator, now_of(context)
    effects = yield from coordinator.share.heartbeat(request, group_request, now)
    return conclude(effects, group_request, services)


def _check(message: ShareGroupHeartbeatRequest, context: RequestContext, services: GroupServices) -> None:
    """Check what needs no group. Raises ApiError."""
    if not services.security.allows_group(context, Operation.READ, message.group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not services.groups.is_available:
        raise ApiError(ErrorCode.NOT_COORDINATOR)
    if len(message.group_id) > LONGEST_NAME:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    if any(
        len(name or "") > LONGEST_NAME for name in (message.member_id, message.rack_id, context.client_id)
    ):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"A name has more than {LONGEST_NAME} characters.")
    if len(message.subscribed_topic_names or ()) > MAX_TOPICS:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"SubscribedTopicNames has more than {MAX_TOPICS} names.")


def _check_topics(
    message: ShareGroupHeartbeatRequest, context: RequestContext, services: GroupServices
) -> Slices[None]:
    """Raises ApiError if the client may not describe a named topic."""
    security = services.security
    for name in message.subscribed_topic_names or ():
        if not security.allows_topic(context, Operation.DESCRIBE, name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        yield None


def _response(reply: ModernHeartbeatReply) -> Steps[ShareGroupHeartbeatResponse]:
    assignment = None
    if reply.assignment is not None:
        assignment = Assignment()
        for topic_id, indexes in reply.assignment.items():
            assignment.topic_partitions.append(TopicPartitions(topic_id, sorted(indexes)))
            yield None
    return ShareGroupHeartbeatResponse(
        error_code=reply.error,
        error_message=reply.message,
        member_id=reply.member_id,
        member_epoch=reply.epoch,
        heartbeat_interval_ms=reply.interval_ms,
        assignment=assignment,
    )

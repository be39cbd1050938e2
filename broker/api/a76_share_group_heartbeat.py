"""ShareGroupHeartbeat: a member of a share group joins, learns its partitions, or leaves. (KIP-932)

Version 1. The client makes its member id. The assignor is `simple`; a partition is assigned from the second
heartbeat on, once its share-partition state is initialized. A request may subscribe to 10,000 topics. The
group's READ operation is required, and DESCRIBE of each named topic. A group of another type is
GROUP_ID_NOT_FOUND. Left out: racks have no effect on the assignment, as in Kafka.
"""

from functools import partial
from typing import Final

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.group_replies import GroupRequest, conclude, now_of
from broker.api.requests.group_requests import check_heartbeat, heartbeat_response
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import GroupServices
from broker.common.errors import ApiError
from broker.common.slices import Slices
from broker.coordinator.group.messages import ShareHeartbeatRequest
from broker.coordinator.group.modern_group import MAX_TOPICS as MAX_TOPICS
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

RESPONSE: Final = (ShareGroupHeartbeatResponse, Assignment, TopicPartitions)


@api(ApiKey.SHARE_GROUP_HEARTBEAT, versions=(1, 1), services=GroupServices)
def handle(
    message: ShareGroupHeartbeatRequest, context: RequestContext, services: GroupServices
) -> Slices[Outcome]:
    try:
        names = (message.member_id, message.rack_id)
        yield from check_heartbeat(message, names, context, services)
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
    group_request = GroupRequest(context, partial(heartbeat_response, RESPONSE))
    coordinator, now = services.groups.coordinator, now_of(context)
    effects = yield from coordinator.share.heartbeat(request, group_request, now)
    return conclude(effects, group_request, services)

"""SyncGroup: the leader sends the assignment, and every member receives its part.

Versions 0-5. The response waits for the leader's request. Static members from 3 (KIP-345); from 5 the client
names the protocol type and name, which must be the group's.
"""

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.group_replies import GroupRequest, conclude, now_of
from broker.api.requests.group_requests import group_refusal
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import GroupServices
from broker.common.errors import ErrorCode
from broker.common.slices import Slices
from broker.coordinator.group.messages import SyncReply, SyncRequest
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


@api(ApiKey.SYNC_GROUP, versions=(0, 5), services=GroupServices)
def handle(message: SyncGroupRequest, context: RequestContext, services: GroupServices) -> Slices[Outcome]:
    if refusal := group_refusal(message.group_id, context, services):
        return Response(SyncGroupResponse(error_code=refusal))
    if context.api_version >= 5 and (message.protocol_type is None or message.protocol_name is None):
        return Response(SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    assignments = {}
    for each in message.assignments:
        assignments[each.member_id] = each.assignment
        yield None
    request = SyncRequest(
        message.group_id,
        message.generation_id,
        message.member_id,
        message.group_instance_id,
        message.protocol_type,
        message.protocol_name,
        assignments,
    )
    group_request = GroupRequest(context, _response)
    effects = yield from services.groups.coordinator.classic.sync(request, group_request, now_of(context))
    return conclude(effects, group_request, services)


def _response(reply: SyncReply) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=reply.error,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol_name,
        assignment=reply.assignment,
    )

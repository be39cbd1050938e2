"""LeaveGroup: removes members from a group and starts a rebalance.

Versions 0-5. Up to version 2 one member leaves, and the response has its error; from 3 the request names
several members, by id or instance id (KIP-345), each with its own error. The reason of version 5 is not
stored.
"""

from collections.abc import Sequence
from functools import partial

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.group_replies import DividedGroupRequest, now_of
from broker.api.requests.group_requests import group_refusal
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.pacing import consumed, mapped
from broker.api.requests.services import GroupServices
from broker.common.errors import ErrorCode
from broker.common.slices import Slices, Steps
from broker.coordinator.group.messages import Effects, LeaveReply, LeavingMember, Token
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse


@api(ApiKey.LEAVE_GROUP, versions=(0, 5), services=GroupServices)
def handle(message: LeaveGroupRequest, context: RequestContext, services: GroupServices) -> Slices[Outcome]:
    if refusal := group_refusal(message.group_id, context, services):
        return Response(LeaveGroupResponse(error_code=refusal))
    if context.api_version < 3:
        leaving = [LeavingMember(message.member_id)]
    else:
        leaving = yield from mapped(
            lambda each: LeavingMember(each.member_id, each.group_instance_id), message.members
        )
    response = LeaveGroupResponse()
    requested: Sequence[LeavingMember] = ()

    def on_reply(reply: LeaveReply) -> None:
        response.error_code = reply.error
        if context.api_version < 3:
            response.error_code = reply.error or next(iter(reply.errors), ErrorCode.NONE)
            return
        for each, error in zip(requested, reply.errors, strict=False):  # a whole-request error has none
            response.members.append(MemberResponse(each.member_id, each.instance_id, error))

    def leave(some: Sequence[LeavingMember], token: Token) -> Steps[Effects]:
        nonlocal requested
        requested = some
        return services.groups.coordinator.classic.leave(message.group_id, some, token, now_of(context))

    calls = (partial(leave, some) for some in consumed(leaving))
    divided = DividedGroupRequest(context, calls, on_reply, response, services, leaving)
    return (yield from divided.begin())

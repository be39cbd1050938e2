"""LeaveGroup: members go, and the others share what they had.

Versions 0-5. Up to 2 one member leaves, and the answer's error is its own; from 3 on several can be named, by
id or by instance id (KIP-345), with an error for each. The reason of version 5 is not kept.
"""

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.group_answers import Asked, conclude, now_of
from broker.api.outcome import Answered, Outcome
from broker.api.registry import api
from broker.errors import ErrorCode
from broker.groups.replies import LeaveReply
from broker.groups.requests import Leaving
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse


@api(ApiKey.LEAVE_GROUP, versions=(0, 5))
def handle(message: LeaveGroupRequest, context: RequestContext, broker: Broker) -> Outcome:
    if not broker.groups.is_available:
        return Answered(LeaveGroupResponse(error_code=ErrorCode.NOT_COORDINATOR))
    if context.api_version < 3:
        leaving = [Leaving(message.member_id)]
    else:
        leaving = [Leaving(each.member_id, each.group_instance_id) for each in message.members]

    def answer(reply: LeaveReply, version: int) -> LeaveGroupResponse:
        if version < 3:
            error = reply.error or next(iter(reply.errors), ErrorCode.NONE)
            return LeaveGroupResponse(error_code=error)
        members = [
            MemberResponse(each.member_id, each.instance_id, error)
            for each, error in zip(leaving, reply.errors, strict=False)
        ]
        return LeaveGroupResponse(error_code=reply.error, members=members)

    asked = Asked(context, answer)
    effects = broker.groups.coordinator.leave(message.group_id, leaving, asked, now_of(context))
    return conclude(effects, asked, broker)

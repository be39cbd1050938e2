"""JoinGroup: a member joins a classic consumer group, or rejoins it for a rebalance.

Versions 0-9. The response waits until all members have joined or the rebalance times out. Version 1 adds the
rebalance timeout (before: the session timeout). Version 4 assigns a new member its id first and requires it
to rejoin (KIP-394). Version 5 adds static members (KIP-345), 7 the protocol type and null names, 8 a reason,
which is not stored. From 9 a leader may skip the assignment (KIP-814).
"""

from functools import partial
from typing import Final

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.group_replies import LONGEST_NAME, GroupRequest, conclude, now_of
from broker.api.requests.group_requests import group_refusal
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import GroupServices
from broker.common.errors import ErrorCode
from broker.common.slices import Slices, Steps
from broker.coordinator.group.messages import JoinReply, JoinRequest
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)

MAX_PROTOCOLS: Final = 16
"""Protocols of one member, which offers one for each of its assignors; our own limit.

Each generation goes through those of all members.
"""


@api(ApiKey.JOIN_GROUP, versions=(0, 9), services=GroupServices)
def handle(message: JoinGroupRequest, context: RequestContext, services: GroupServices) -> Slices[Outcome]:
    version = context.api_version
    if refusal := group_refusal(message.group_id, context, services) or _check_lengths(
        message, context.client_id
    ):
        return Response(_response(JoinReply(refusal, message.member_id), version))
    rebalance_timeout_ms = message.rebalance_timeout_ms
    if version < 1:
        rebalance_timeout_ms = message.session_timeout_ms
    request = JoinRequest(
        message.group_id,
        message.member_id,
        message.group_instance_id,
        context.client_id or "",
        f"/{context.connection.address}",
        message.session_timeout_ms,
        rebalance_timeout_ms,
        message.protocol_type,
        [(each.name, each.metadata) for each in message.protocols],
        requires_member_id=version >= 4,
        can_skip_assignment=version >= 9,
    )
    group_request = GroupRequest(context, partial(_answer, version))
    effects = yield from services.groups.coordinator.classic.join(request, group_request, now_of(context))
    return conclude(effects, group_request, services)


def _check_lengths(message: JoinGroupRequest, client_id: str | None) -> ErrorCode:
    if len(message.group_id) > LONGEST_NAME:
        return ErrorCode.INVALID_GROUP_ID
    if len(message.protocols) > MAX_PROTOCOLS:
        return ErrorCode.INVALID_REQUEST
    names = (
        message.group_instance_id,
        message.protocol_type,
        client_id,
        *(p.name for p in message.protocols),
    )
    too_long = any(name is not None and len(name) > LONGEST_NAME for name in names)
    return ErrorCode.INVALID_REQUEST if too_long else ErrorCode.NONE


def _response(reply: JoinReply, version: int) -> JoinGroupResponse:
    protocol_name = reply.protocol_name
    if protocol_name is None and version < 7:
        protocol_name = ""
    return JoinGroupResponse(
        error_code=reply.error,
        generation_id=reply.generation_id,
        protocol_type=reply.protocol_type,
        protocol_name=protocol_name,
        leader=reply.leader,
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
    )


def _answer(version: int, reply: JoinReply) -> Steps[JoinGroupResponse]:
    """Return the response, which lists all members if it is the leader's."""
    response = _response(reply, version)
    for each in reply.members:
        response.members.append(JoinGroupResponseMember(each.member_id, each.instance_id, each.metadata))
        yield
    return response

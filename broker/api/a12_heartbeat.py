"""Heartbeat: renews a member's session and reports whether its group is rebalancing.

Versions 0-4. Static members from 3 (KIP-345).
"""

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.group_replies import now_of
from broker.api.requests.group_requests import group_refusal
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import GroupServices
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@api(ApiKey.HEARTBEAT, versions=(0, 4), services=GroupServices)
def handle(message: HeartbeatRequest, context: RequestContext, services: GroupServices) -> Outcome:
    if refusal := group_refusal(message.group_id, context, services):
        return Response(HeartbeatResponse(error_code=refusal))
    error = services.groups.coordinator.classic.heartbeat(
        message.group_id,
        message.generation_id,
        message.member_id,
        message.group_instance_id,
        now_of(context),
    )
    return Response(HeartbeatResponse(error_code=error))

"""DeleteGroups: deletes empty groups and their offsets.

Versions 0-2. Each group succeeds or fails alone: GROUP_ID_NOT_FOUND, or NON_EMPTY_GROUP while it has members.
Requires the editor role; GROUP_AUTHORIZATION_FAILED does not reveal which groups exist.
"""

from collections.abc import Awaitable, Sequence
from functools import partial

from broker.api.context import RequestContext
from broker.api.group_requests import DividedGroupRequest, now_of
from broker.api.outcome import Outcome, Response, in_slices
from broker.api.pacing import Distinct, Pace, consumed, mapped
from broker.api.registry import api
from broker.api.services import GroupServices
from broker.errors import ErrorCode
from broker.groups.messages import DeleteReply, Effects, Token
from broker.metadata.actor import Role
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from broker.records.slices import Slices


@api(ApiKey.DELETE_GROUPS, versions=(0, 2), services=GroupServices)
def handle(
    message: DeleteGroupsRequest, context: RequestContext, services: GroupServices
) -> Outcome | Awaitable[Outcome]:
    return in_slices(_delete(message, context, services))


def _delete(
    message: DeleteGroupsRequest, context: RequestContext, services: GroupServices
) -> Slices[Outcome]:
    pace = Pace()
    distinct: Distinct[str] = Distinct()
    names = []
    for name in message.groups_names:
        if distinct.add(name):
            names.append(name)
        if pace.spent():
            yield None
    yield from distinct.release()
    refusal = ErrorCode.NONE
    if services.security.actor(context).role < Role.EDITOR:
        refusal = ErrorCode.GROUP_AUTHORIZATION_FAILED
    elif not services.groups.is_available:
        refusal = ErrorCode.NOT_COORDINATOR
    if refusal:
        refused = yield from mapped(lambda name: DeletableGroupResult(name, refusal), names, Pace())
        return Response(DeleteGroupsResponse(results=refused))
    response = DeleteGroupsResponse()

    requested: Sequence[str] = ()

    def take(reply: DeleteReply) -> None:
        response.results += map(DeletableGroupResult, requested, reply.errors)

    def delete(some: Sequence[str], token: Token) -> Effects:
        nonlocal requested
        requested = some
        return services.groups.coordinator.delete(some, token, now_of(context))

    calls = (partial(delete, some) for some in consumed(names))
    return DividedGroupRequest(context, calls, take, response, services, names).begin()

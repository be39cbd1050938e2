"""DeleteGroups: deletes empty groups and their offsets.

Versions 0-3. Each group succeeds or fails alone: GROUP_ID_NOT_FOUND, or NON_EMPTY_GROUP while it has members.
Requires the editor role, or DELETE by an ACL; GROUP_AUTHORIZATION_FAILED does not reveal which groups exist.
A group with many offsets is deleted in several steps, unlike in Kafka: if a member joins meanwhile, the
answer is NON_EMPTY_GROUP, and the offsets deleted by then stay deleted. The states of the share partitions of
a share group are deleted first; if one cannot be, the group stays and has the error. Version 3 can have a
message with the error; no error here has one, as in Kafka for these groups.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Final

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.group_replies import DividedGroupRequest, now_of
from broker.api.requests.outcome import Outcome, Response, outcome_of
from broker.api.requests.pacing import Distinct, consumed, mapped
from broker.api.requests.services import GroupServices
from broker.common.errors import ErrorCode
from broker.common.slices import Slices
from broker.coordinator.group.coordinator import GroupCoordinator
from broker.coordinator.group.messages import DeleteReply, Effects, Token
from broker.coordinator.group.offsets import OFFSETS_AT_ONCE
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from broker.security.acl.acl import Operation

GROUP_COST: Final = 1
"""The cost of deleting a group without offsets, in offsets."""


@api(ApiKey.DELETE_GROUPS, versions=(0, 3), services=GroupServices)
def handle(
    message: DeleteGroupsRequest, context: RequestContext, services: GroupServices
) -> Slices[Outcome | Awaitable[Outcome]]:
    distinct: Distinct[str] = Distinct()
    names: list[str] = []
    denied: list[str] = []
    for name in message.groups_names:
        if distinct.add(name):
            allowed = services.security.allows_group(context, Operation.DELETE, name)
            (names if allowed else denied).append(name)
        yield None
    yield from distinct.release()
    refusal = ErrorCode.NONE
    if not services.security.permits(context, authorized=True):
        refusal = ErrorCode.GROUP_AUTHORIZATION_FAILED
    elif not services.groups.is_available:
        refusal = ErrorCode.NOT_COORDINATOR
    results = yield from mapped(
        lambda name: DeletableGroupResult(name, ErrorCode.GROUP_AUTHORIZATION_FAILED), denied
    )
    if refusal:
        results += yield from mapped(lambda name: DeletableGroupResult(name, refusal), names)
    if refusal or not names:
        return Response(DeleteGroupsResponse(results=results))
    response = DeleteGroupsResponse(results=results)
    share = []
    for name in names:
        if services.groups.coordinator.share.has_states(name):
            share.append(name)
        yield None
    if share:
        return _delete_share_groups(share, names, response, context, services)
    return _begin(names, response, context, services)


async def _delete_share_groups(
    share: Sequence[str],
    names: list[str],
    response: DeleteGroupsResponse,
    context: RequestContext,
    services: GroupServices,
) -> Outcome:
    """Delete the states of share groups, then the groups."""
    failed = {}
    for name in share:
        outcome = await services.share.delete_all(name)
        errors = (outcome.error, *(error.code for error in outcome.topics.values()))
        if any(errors):
            failed[name] = next(filter(None, errors))
    response.results += map(DeletableGroupResult, failed, failed.values())
    left = [name for name in names if name not in failed]
    return _begin(left, response, context, services) if left else Response(response)


def _begin(
    names: list[str], response: DeleteGroupsResponse, context: RequestContext, services: GroupServices
) -> Outcome:
    deletion = _Deletion(names, response.results, context, services.groups.coordinator)
    request = DividedGroupRequest(context, deletion.calls(), deletion.on_reply, response, services, names)
    return outcome_of(request.begin())


class _Deletion:
    """The calls that delete groups, in order. A call drops about OFFSETS_AT_ONCE offsets: a group with more
    loses them in calls of its own before it is deleted.
    """

    def __init__(
        self,
        names: list[str],
        results: list[DeletableGroupResult],
        context: RequestContext,
        coordinator: GroupCoordinator,
    ) -> None:
        self._names = names
        self._results = results
        self._context = context
        self._coordinator = coordinator
        self._requested: Sequence[str] = ()
        self._errors: Sequence[ErrorCode] = ()

    def calls(self) -> Iterator[Callable[[Token], Effects]]:
        """Yield each call after the reply of the one before."""
        piece: list[str] = []
        cost = 0
        for some in consumed(self._names):
            for name in some:
                if not self._coordinator.groups.is_writable(name):
                    self._results.append(DeletableGroupResult(name, ErrorCode.NOT_COORDINATOR))
                    continue
                size = self._coordinator.offsets.count(name, OFFSETS_AT_ONCE + 1)
                if piece and cost + size > OFFSETS_AT_ONCE:
                    yield partial(self._delete, piece)
                    piece, cost = [], 0
                while size > OFFSETS_AT_ONCE:
                    yield partial(self._delete_some_offsets, name)
                    if self._errors != (ErrorCode.NONE,):
                        break
                    size = self._coordinator.offsets.count(name, OFFSETS_AT_ONCE + 1)
                if size > OFFSETS_AT_ONCE:
                    self._results += map(DeletableGroupResult, (name,), self._errors)
                    continue
                piece.append(name)
                cost += GROUP_COST + size
        yield partial(self._delete, piece)

    def on_reply(self, reply: DeleteReply) -> None:
        self._errors = reply.errors
        self._results += map(DeletableGroupResult, self._requested, reply.errors)

    def _delete(self, names: Sequence[str], token: Token) -> Effects:
        self._requested = names
        return self._coordinator.delete(names, token, now_of(self._context))

    def _delete_some_offsets(self, name: str, token: Token) -> Effects:
        self._requested = ()
        return self._coordinator.delete_some_offsets(name, token, now_of(self._context))

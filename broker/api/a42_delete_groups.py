"""DeleteGroups: removes empty groups with their offsets.

Versions 0-2. Each is accepted or refused by itself: GROUP_ID_NOT_FOUND, or NON_EMPTY_GROUP while it has
members. Needs the role editor, and GROUP_AUTHORIZATION_FAILED says nothing of which groups there are.
"""

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.group_answers import Asked, conclude, now_of
from broker.api.outcome import Answered, Outcome
from broker.api.registry import api
from broker.api.wire_actor import wire_actor
from broker.errors import ErrorCode
from broker.groups.replies import DeleteReply
from broker.metadata.actor import Role
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


@api(ApiKey.DELETE_GROUPS, versions=(0, 2))
def handle(message: DeleteGroupsRequest, context: RequestContext, broker: Broker) -> Outcome:
    names = list(dict.fromkeys(message.groups_names))

    def answer(reply: DeleteReply, _version: int) -> DeleteGroupsResponse:
        results = [DeletableGroupResult(name, error) for name, error in zip(names, reply.errors, strict=True)]
        return DeleteGroupsResponse(results=results)

    refusal = ErrorCode.NONE
    if wire_actor(context, broker).role < Role.EDITOR:
        refusal = ErrorCode.GROUP_AUTHORIZATION_FAILED
    elif not broker.groups.is_available:
        refusal = ErrorCode.NOT_COORDINATOR
    if refusal:
        return Answered(answer(DeleteReply((refusal,) * len(names)), context.api_version))
    asked = Asked(context, answer)
    return conclude(broker.groups.coordinator.delete(names, asked, now_of(context)), asked, broker)

"""DeleteGroups: removes empty groups with their offsets.

Versions 0-2. Each is accepted or refused by itself: GROUP_ID_NOT_FOUND, or NON_EMPTY_GROUP while it has
members.
"""

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.group_answers import Asked, conclude, now_of
from broker.api.outcome import Answered, Outcome
from broker.api.registry import api
from broker.errors import ErrorCode
from broker.groups.replies import DeleteReply
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

    if not broker.groups.is_available:
        refusal = DeleteReply((ErrorCode.NOT_COORDINATOR,) * len(names))
        return Answered(answer(refusal, context.api_version))
    asked = Asked(context, answer)
    return conclude(broker.groups.coordinator.delete(names, asked, now_of(context)), asked, broker)

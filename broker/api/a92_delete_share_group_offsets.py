"""DeleteShareGroupOffsets: deletes the start offsets of topics from an empty share group. (KIP-932)

Version 0. The states of all share partitions of a topic are deleted. Each topic succeeds or fails alone: one
that is unknown or has no state is UNKNOWN_TOPIC_OR_PARTITION, one that is repeated INVALID_REQUEST. A group
with members is NON_EMPTY_GROUP, one of another type GROUP_ID_NOT_FOUND; as in Kafka, a request of no topic
that the client may read does not look at the group. Requires the editor role, or ACLs for DELETE of the group
and READ of the topics.
"""

from collections.abc import Awaitable
from typing import Final

from broker.api.a91_alter_share_group_offsets import in_place_of
from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import GroupServices
from broker.common.errors import ErrorCode
from broker.common.slices import Slices
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from broker.protocol.schema import ZERO_UUID
from broker.security.acl.acl import Operation

REPEATED: Final = "The request names the topic more than once."

Entries = dict[bytes, DeleteShareGroupOffsetsResponseTopic]
"""The entries of the response by topic id."""


@api(ApiKey.DELETE_SHARE_GROUP_OFFSETS, versions=(0, 0), services=GroupServices)
def handle(
    message: DeleteShareGroupOffsetsRequest, context: RequestContext, services: GroupServices
) -> Slices[Outcome | Awaitable[Outcome]]:
    group_id, security = message.group_id, services.security
    allowed = security.allows_group(context, Operation.DELETE, group_id)
    if not security.permits(context, authorized=allowed):
        return Response(DeleteShareGroupOffsetsResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if not services.groups.is_available:
        return Response(DeleteShareGroupOffsetsResponse(error_code=ErrorCode.NOT_COORDINATOR))
    if not group_id:
        return Response(DeleteShareGroupOffsetsResponse(error_code=ErrorCode.INVALID_GROUP_ID))
    response = DeleteShareGroupOffsetsResponse()
    entries: Entries = {}
    topics = services.control.image.topics
    is_wanted = False
    for topic in message.topics:
        known, error = topics.get(topic.topic_name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not security.allows_topic(context, Operation.READ, topic.topic_name):
            known, error = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        else:
            is_wanted = True
        entry = DeleteShareGroupOffsetsResponseTopic(topic.topic_name, ZERO_UUID, error)
        response.responses.append(entry)
        if known is not None and known.topic_id in entries:
            entry.error_code, entry.error_message = ErrorCode.INVALID_REQUEST, REPEATED
        elif known is not None:
            entry.topic_id, entry.error_code = known.topic_id, ErrorCode.NONE
            entries[known.topic_id] = entry
        yield None
    if not is_wanted:
        return Response(response)
    return _delete(group_id, entries, response, services)


async def _delete(
    group_id: str, entries: Entries, response: DeleteShareGroupOffsetsResponse, services: GroupServices
) -> Outcome:
    outcome = await services.share.delete(group_id, list(entries))
    if outcome.error:
        refusal = DeleteShareGroupOffsetsResponse(0, outcome.error, outcome.message)
        return in_place_of(response, (response.responses,), refusal)
    for topic_id, error in outcome.topics.items():
        entry = entries[topic_id]
        entry.error_code, entry.error_message = error.code, error.message
    return Response(response)

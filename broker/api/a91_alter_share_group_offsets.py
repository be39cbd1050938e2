"""AlterShareGroupOffsets: sets the start offsets of an empty share group. (KIP-932)

Version 0. A share partition forgets what the group has acknowledged and begins at the given offset; -1 lets
its leader choose by `share.auto.offset.reset`. Offsets below -1 are INVALID_REQUEST, where Kafka stores them.
Each partition succeeds or fails alone; an unknown one is UNKNOWN_TOPIC_OR_PARTITION, a repeated one
INVALID_REQUEST. A missing group is created, as in Kafka 4.2. A group with members is NON_EMPTY_GROUP, one of
another type GROUP_ID_NOT_FOUND; as in Kafka, a request of no topic that exists and that the client may read
does not look at the group. Requires READ of the group and of the topics.
"""

from collections.abc import Awaitable, Iterable
from typing import Any, Final

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.group_requests import group_refusal
from broker.api.requests.outcome import Outcome, Response, Sliced
from broker.api.requests.services import GroupServices
from broker.common.errors import ErrorCode
from broker.common.slices import Slices, freed
from broker.coordinator.share.states import SharePartition
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from broker.protocol.schema import ZERO_UUID, Struct
from broker.security.acl.acl import Operation

LEADER_CHOOSES: Final = -1

REPEATED: Final = "The request names the partition more than once."

Entries = dict[SharePartition, AlterShareGroupOffsetsResponsePartition]
"""The entries of the response by share partition."""


@api(ApiKey.ALTER_SHARE_GROUP_OFFSETS, versions=(0, 0), services=GroupServices)
def handle(
    message: AlterShareGroupOffsetsRequest, context: RequestContext, services: GroupServices
) -> Slices[Outcome | Awaitable[Outcome]]:
    group_id, security = message.group_id, services.security
    if refusal := group_refusal(group_id, context, services):
        return Response(AlterShareGroupOffsetsResponse(error_code=refusal))
    if not group_id:
        return Response(AlterShareGroupOffsetsResponse(error_code=ErrorCode.INVALID_GROUP_ID))
    response = AlterShareGroupOffsetsResponse()
    offsets: dict[bytes, tuple[str, dict[int, int]]] = {}
    entries: Entries = {}
    topics = services.control.image.topics
    is_wanted = False
    for topic in message.topics:
        known, error = topics.get(topic.topic_name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not security.allows_topic(context, Operation.READ, topic.topic_name):
            known, error = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        is_wanted = is_wanted or known is not None
        topic_id = ZERO_UUID if known is None else known.topic_id
        answered = AlterShareGroupOffsetsResponseTopic(topic.topic_name, topic_id)
        response.responses.append(answered)
        for each in topic.partitions:
            entry = AlterShareGroupOffsetsResponsePartition(each.partition_index, error)
            answered.partitions.append(entry)
            if known is not None and 0 <= each.partition_index < known.partitions:
                entry.error_code = ErrorCode.NONE
                if each.start_offset < LEADER_CHOOSES:
                    entry.error_code = ErrorCode.INVALID_REQUEST
                    entry.error_message = f"The start offset {each.start_offset} is less than -1."
                elif (topic_id, each.partition_index) in entries:
                    entry.error_code, entry.error_message = ErrorCode.INVALID_REQUEST, REPEATED
                else:
                    of_topic = offsets.setdefault(topic_id, (known.name, {}))[1]
                    of_topic[each.partition_index] = each.start_offset
                    entries[topic_id, each.partition_index] = entry
            yield None
        yield None
    if not is_wanted:
        return Response(response)
    return _alter(group_id, offsets, entries, response, services)


async def _alter(
    group_id: str,
    offsets: dict[bytes, tuple[str, dict[int, int]]],
    entries: Entries,
    response: AlterShareGroupOffsetsResponse,
    services: GroupServices,
) -> Outcome:
    outcome = await services.share.alter(group_id, offsets)
    if outcome.error:
        refusal = AlterShareGroupOffsetsResponse(0, outcome.error, outcome.message)
        entries.clear()
        lists: list[list[Any]] = [*(topic.partitions for topic in response.responses), response.responses]
        return in_place_of(response, lists, refusal)
    for partition, error in outcome.partitions.items():
        entry = entries[partition]
        entry.error_code, entry.error_message = error.code, error.message
    return Response(response)


def in_place_of(discarded: Struct, lists: Iterable[list[Any]], reply: Struct) -> Outcome:
    """Return `reply` after the `lists` of the discarded response have been freed in slices, in this order: a
    request that fails as a whole has a large response already. For DeleteShareGroupOffsets too.
    """
    return Sliced(_freed(lists, reply), None, discarded)


def _freed(lists: Iterable[list[Any]], reply: Struct) -> Slices[Outcome]:
    for each in lists:
        yield from freed(each)
    return Response(reply)

"""OffsetFetch: returns committed offsets of groups.

Versions 1-10. A null topic list (from 2) selects every committed offset. A partition without a committed
offset has offset -1 and no error. Version 1 has no group error, so each partition carries it; from 8 a
request names several groups, each with its own error. With `require_stable` (7), a partition whose offset an
open transaction has committed is UNSTABLE_OFFSET_COMMIT. From 9 a member of a consumer group states its id
and epoch (KIP-848): UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH. Version 10 names topics by id, and an unknown one
is UNKNOWN_TOPIC_ID; a topic has no offset that was committed for an earlier one with its name.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.pacing import mapped
from broker.api.requests.services import GroupServices
from broker.common.errors import ErrorCode
from broker.common.slices import Slices
from broker.coordinator.group.messages import CommittedOffset
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from broker.protocol.schema import ZERO_UUID
from broker.security.acl.acl import Operation

MEMBERS_SINCE: Final = 9
IDS_SINCE: Final = 10

UNSTABLE: Final = ErrorCode.UNSTABLE_OFFSET_COMMIT
NOTHING_COMMITTED: Final = CommittedOffset(-1, -1, "", -1)

Topics = Sequence[OffsetFetchRequestTopic] | Sequence[OffsetFetchRequestTopics] | None
CommittedOffsets = Iterator[tuple[str, bytes, ErrorCode, Iterable[tuple[int, CommittedOffset]]]]
"""Name and id of each topic, its error, and the offsets of its partitions."""


@api(ApiKey.OFFSET_FETCH, versions=(1, 10), services=GroupServices)
def handle(message: OffsetFetchRequest, context: RequestContext, services: GroupServices) -> Slices[Outcome]:
    error = ErrorCode.NONE if services.groups.is_available else ErrorCode.NOT_COORDINATOR
    if context.api_version >= 8:
        groups = []
        for group in message.groups:
            groups.append(
                (yield from _group(group, error, context, services, require_stable=message.require_stable))
            )
            yield None
        return Response(OffsetFetchResponse(groups=groups))
    found: CommittedOffsets = iter(())
    if not services.security.allows_group(context, Operation.DESCRIBE, message.group_id):
        error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    if not error:
        found = _find(message.group_id, message.topics, context, services)
    elif context.api_version < 2:
        found = _without_offsets(message.topics)

    def partition(
        topic: str, refusal: ErrorCode, each: tuple[int, CommittedOffset]
    ) -> OffsetFetchResponsePartition:
        index, one = each
        if not refusal and message.require_stable and stored.is_pending(message.group_id, topic, index):
            return OffsetFetchResponsePartition(index, -1, -1, "", error_code=UNSTABLE)
        return OffsetFetchResponsePartition(
            index, one.offset, one.leader_epoch, one.metadata, error_code=refusal
        )

    stored = services.groups.coordinator.offsets
    topics = []
    for name, _, refusal, offsets in found:
        partitions = yield from mapped(partial(partition, name, refusal or error), offsets)
        topics.append(OffsetFetchResponseTopic(name, partitions))
        yield None
    return Response(OffsetFetchResponse(topics=topics, error_code=error))


def _group(
    requested: OffsetFetchRequestGroup,
    error: ErrorCode,
    context: RequestContext,
    services: GroupServices,
    *,
    require_stable: bool,
) -> Slices[OffsetFetchResponseGroup]:
    if not services.security.allows_group(context, Operation.DESCRIBE, requested.group_id):
        error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    stored = services.groups.coordinator.offsets
    if not error and context.api_version >= MEMBERS_SINCE:
        error = stored.check_fetch(requested.group_id, requested.member_id, requested.member_epoch)
    if error:
        return OffsetFetchResponseGroup(requested.group_id, error_code=error)
    group_id = requested.group_id

    def partition(
        topic: str, refusal: ErrorCode, each: tuple[int, CommittedOffset]
    ) -> OffsetFetchResponsePartitions:
        index, one = each
        if not refusal and require_stable and stored.is_pending(group_id, topic, index):
            return OffsetFetchResponsePartitions(index, -1, -1, "", error_code=UNSTABLE)
        return OffsetFetchResponsePartitions(
            index, one.offset, one.leader_epoch, one.metadata, error_code=refusal
        )

    topics = []
    for name, topic_id, refusal, offsets in _find(group_id, requested.topics, context, services):
        partitions = yield from mapped(partial(partition, name, refusal), offsets)
        topics.append(OffsetFetchResponseTopics(name, topic_id, partitions))
        yield None
    return OffsetFetchResponseGroup(requested.group_id, topics)


def _find(
    group_id: str, topics: Topics, context: RequestContext, services: GroupServices
) -> CommittedOffsets:
    """Return the requested partitions by topic, with their committed offsets.

    A named topic that the client may not describe has an error and no offsets; a list of all omits it.
    """
    committed, security = services.groups.committed(group_id), services.security
    image, by_id = services.control.image, context.api_version >= IDS_SINCE
    if topics is None:
        for name, offsets in list(committed.items()):  # it may change between two slices
            known = image.topics.get(name) if by_id else None
            if by_id and known is None:
                continue
            if security.allows_topic(context, Operation.DESCRIBE, name, logs=False):
                topic_id = ZERO_UUID if known is None else known.topic_id
                yield name, topic_id, ErrorCode.NONE, list(offsets.items())
        return
    for topic in topics:
        name, topic_id = topic.name, ZERO_UUID
        if by_id:
            assert isinstance(topic, OffsetFetchRequestTopics)
            topic_id = topic.topic_id
            known = image.topics_by_id.get(topic_id)
            if known is None:
                refusal = ErrorCode.UNKNOWN_TOPIC_ID
                yield name, topic_id, refusal, _offsets_of(topic.partition_indexes, {})
                continue
            name = known.name
        if security.allows_topic(context, Operation.DESCRIBE, name):
            found = committed.get(name, {})
            yield name, topic_id, ErrorCode.NONE, _offsets_of(topic.partition_indexes, found, topic_id)
        else:
            refusal = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            yield name, topic_id, refusal, _offsets_of(topic.partition_indexes, {})


def _offsets_of(
    indexes: Iterable[int], offsets: Mapping[int, CommittedOffset], topic_id: bytes = ZERO_UUID
) -> Iterator[tuple[int, CommittedOffset]]:
    """Yield the offsets, without those of an earlier topic with the name if the topic is asked for by id."""
    for index in indexes:
        offset = offsets.get(index, NOTHING_COMMITTED)
        yield index, offset if offset.may_be_of(topic_id) else NOTHING_COMMITTED


def _without_offsets(topics: Iterable[OffsetFetchRequestTopic] | None) -> CommittedOffsets:
    for topic in topics or ():
        yield topic.name, ZERO_UUID, ErrorCode.NONE, _offsets_of(topic.partition_indexes, {})

"""OffsetCommit: commits offsets of a group.

Versions 2-10. Each partition succeeds or fails alone; an unknown partition is UNKNOWN_TOPIC_OR_PARTITION.
More than 256 offsets are written in several batches. The retention time of versions 2 to 4 is stored with the
offset; version 6 adds the leader epoch, 7 static members (KIP-345). From 9 an unknown group is
GROUP_ID_NOT_FOUND, and a member of a consumer group states its epoch (KIP-848), or an earlier one since which
it has had all of the partitions (KIP-1251): another one is STALE_MEMBER_EPOCH, and an older version is
UNSUPPORTED_VERSION. Version 10 names topics by id, and an unknown one is UNKNOWN_TOPIC_ID.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.group_replies import LONGEST_NAME, DividedGroupRequest, now_of
from broker.api.requests.group_requests import group_refusal
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.pacing import consumed
from broker.api.requests.services import GroupServices
from broker.common.errors import ErrorCode
from broker.common.slices import Slices
from broker.coordinator.group.messages import CommitReply, CommitRequest, Effects, OffsetToCommit, Token
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from broker.protocol.schema import ZERO_UUID
from broker.security.acl.acl import Operation

AT_ONCE: Final = 256
"""Offsets written in one batch; our own limit. One takes 5 us."""

NAMED_UNTIL: Final = 9
"""The last version whose topics have names; later ones have ids."""

RESPONSE: Final = (OffsetCommitResponse, OffsetCommitResponseTopic, OffsetCommitResponsePartition)


@api(ApiKey.OFFSET_COMMIT, versions=(2, 10), services=GroupServices)
def handle(message: OffsetCommitRequest, context: RequestContext, services: GroupServices) -> Slices[Outcome]:
    refusal = group_refusal(message.group_id, context, services)
    if not refusal and len(message.group_id) > LONGEST_NAME:
        refusal = ErrorCode.INVALID_GROUP_ID
    request = CommitRequest(
        message.group_id,
        message.generation_id_or_member_epoch,
        message.member_id,
        message.group_instance_id,
        (),
        message.retention_time_ms,
        knows_missing_groups=context.api_version >= 9,
        knows_member_epochs=context.api_version >= 9,
    )
    offsets = services.groups.coordinator.offsets
    return (
        yield from commit_offsets(
            message.topics,
            RESPONSE,
            refusal,
            lambda some, token: offsets.commit(replace(request, offsets=some), token, now_of(context)),
            context,
            services,
            by_id=context.api_version > NAMED_UNTIL,
        )
    )


DENIALS: Final = (
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
"""Refusals that hide which topics exist."""


def commit_offsets(
    topics: Iterable[Any],
    make: tuple[Any, Any, Any],
    refusal: ErrorCode,
    commit: Callable[[Sequence[OffsetToCommit], Token], Effects],
    context: RequestContext,
    services: GroupServices,
    producer: tuple[int, int] | None = None,
    *,
    by_id: bool,
) -> Slices[Outcome]:
    """Commit the offsets of a request, AT_ONCE with each call of `commit`. For TxnOffsetCommit too.

    `make` are the classes of the response, and of a topic and a partition in it. With a `refusal`, no offset
    is committed. `producer`: the id and epoch in whose transaction the offsets are. `by_id`: the topics have
    ids instead of names.
    """
    response, topic_of, entry_of = make
    reply = response()
    offsets: list[OffsetToCommit] = []
    accepted: list[Any] = []
    for topic in topics:
        yield None
        image = services.control.image  # a topic may be deleted in any pause
        known = image.topics_by_id.get(topic.topic_id) if by_id else image.topics.get(topic.name)
        name = known.name if by_id and known is not None else topic.name
        denied = refusal
        if refusal in DENIALS:
            pass
        elif by_id and known is None:
            denied = ErrorCode.UNKNOWN_TOPIC_ID
        else:
            is_allowed = services.security.allows_topic(context, Operation.READ, name)
            denied = ErrorCode.NONE if is_allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
        count, topic_id = (0, ZERO_UUID) if known is None else (known.partitions, known.topic_id)
        entries = []
        for each in topic.partitions:
            index = each.partition_index
            yield None
            error = denied or refusal
            if not denied and not 0 <= index < count:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            entry = entry_of(index, error)
            entries.append(entry)
            if error:
                continue
            accepted.append(entry)
            offsets.append(
                OffsetToCommit(
                    name,
                    index,
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.committed_metadata,
                    topic_id,
                )
            )
        reply.topics.append(topic_of(topic.name, topic.topic_id, entries))
    if not offsets:
        return Response(reply)
    committing = consumed(accepted, AT_ONCE)

    def on_reply(committed: CommitReply) -> None:
        for entry, error in zip(next(committing), committed.errors, strict=True):
            entry.error_code = error

    calls = (partial(commit, some) for some in consumed(offsets, AT_ONCE))
    divided = DividedGroupRequest(context, calls, on_reply, reply, services, offsets, accepted)
    divided.producer = producer
    return (yield from divided.begin())

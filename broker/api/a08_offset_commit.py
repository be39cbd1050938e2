"""OffsetCommit: commits offsets of a group.

Versions 2-9. Each partition succeeds or fails alone; an unknown partition is UNKNOWN_TOPIC_OR_PARTITION. More
than 256 offsets are written in several batches. The retention time of versions 2 to 4 is stored with the
offset; version 6 adds the leader epoch, 7 static members (KIP-345). From 9 an unknown group is
GROUP_ID_NOT_FOUND, and a member of a consumer group states its epoch (KIP-848): another one than its own is
STALE_MEMBER_EPOCH, and an older version is UNSUPPORTED_VERSION. Left out: topic ids (version 10).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from msgspec.structs import replace

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.group_replies import LONGEST_NAME, DividedGroupRequest, now_of
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.pacing import consumed
from broker.api.requests.services import GroupServices
from broker.api.security.client_security import ClientSecurity
from broker.common.errors import ErrorCode
from broker.common.slices import Slices
from broker.coordinator.group.messages import CommitReply, CommitRequest, Effects, OffsetToCommit, Token
from broker.metadata.image import Image
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from broker.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from broker.security.acl.acl import Operation

AT_ONCE: Final = 256
"""Offsets written in one batch; our own limit. One takes 5 us."""


@api(ApiKey.OFFSET_COMMIT, versions=(2, 9), services=GroupServices)
def handle(message: OffsetCommitRequest, context: RequestContext, services: GroupServices) -> Slices[Outcome]:
    refusal = _refusal(message, context, services)
    topics, offsets, accepted = yield from sorted_offsets(
        message,
        services.control.image,
        refusal,
        partial(topic_denial, services.security, context),
        lambda name, entries: OffsetCommitResponseTopic(name, partitions=entries),
        OffsetCommitResponsePartition,
    )
    reply = OffsetCommitResponse(topics=topics)
    if not offsets:
        return Response(reply)
    entries = consumed(accepted, AT_ONCE)

    def on_reply(committed: CommitReply) -> None:
        for entry, error in zip(next(entries), committed.errors, strict=True):
            entry.error_code = error

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

    def commit(some: Sequence[OffsetToCommit], token: Token) -> Effects:
        return services.groups.coordinator.offsets.commit(
            replace(request, offsets=some), token, now_of(context)
        )

    calls = (partial(commit, some) for some in consumed(offsets, AT_ONCE))
    return DividedGroupRequest(context, calls, on_reply, reply, services, offsets, accepted).begin()


def _refusal(message: OffsetCommitRequest, context: RequestContext, services: GroupServices) -> ErrorCode:
    """Return the error of every partition if the whole request is refused, else NONE."""
    if not services.security.allows_group(context, Operation.READ, message.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    if not services.groups.is_available:
        return ErrorCode.NOT_COORDINATOR
    return ErrorCode.INVALID_GROUP_ID if len(message.group_id) > LONGEST_NAME else ErrorCode.NONE


DENIALS: Final = (
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
"""Refusals that hide which topics exist."""

TopicT = TypeVar("TopicT")
EntryT = TypeVar("EntryT")


def sorted_offsets(
    message: OffsetCommitRequest | TxnOffsetCommitRequest,
    image: Image,
    refusal: ErrorCode,
    denial: Callable[[str], ErrorCode],
    make_topic: Callable[[str, list[EntryT]], TopicT],
    make_entry: Callable[[int, ErrorCode], EntryT],
) -> Slices[tuple[list[TopicT], list[OffsetToCommit], list[EntryT]]]:
    """Return the response topics, the offsets to commit and their response entries. For TxnOffsetCommit too.

    With a `refusal`, every entry has an error and there are no offsets to commit. `denial` returns the error
    of a topic that the client may not read, or NONE.
    """
    topics: list[TopicT] = []
    offsets: list[OffsetToCommit] = []
    accepted: list[EntryT] = []
    for topic in message.topics:
        yield None
        denied = refusal if refusal in DENIALS else denial(topic.name)
        known = image.topics.get(topic.name)
        count = 0 if known is None else known.partitions
        entries: list[EntryT] = []
        for each in topic.partitions:
            index = each.partition_index
            yield None
            error = denied or refusal
            if not denied and not 0 <= index < count:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            entry = make_entry(index, error)
            entries.append(entry)
            if error:
                continue
            accepted.append(entry)
            offsets.append(
                OffsetToCommit(
                    topic.name,
                    index,
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.committed_metadata,
                )
            )
        topics.append(make_topic(topic.name, entries))
    return topics, offsets, accepted


def topic_denial(security: ClientSecurity, context: RequestContext, topic: str) -> ErrorCode:
    """Return the error if the client may not read a topic, or NONE."""
    is_allowed = security.allows_topic(context, Operation.READ, topic)
    return ErrorCode.NONE if is_allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED

"""Sorts the offsets of an OffsetCommit or a TxnOffsetCommit, which have the same fields."""

from collections.abc import Callable
from typing import Final, TypeVar

from broker.api.requests.context import RequestContext
from broker.api.requests.pacing import Pace
from broker.api.security.client_security import ClientSecurity
from broker.common.errors import ErrorCode
from broker.coordinator.group.messages import OffsetToCommit
from broker.metadata.image import Image
from broker.protocol.messages.offset_commit import OffsetCommitRequest
from broker.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from broker.records.slices import Slices
from broker.security.acl.acl import Operation

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
    """Return the response topics, the offsets to commit and their response entries.

    With a `refusal`, every entry has an error and there are no offsets to commit. `denial` returns the error
    of a topic that the client may not read, or NONE.
    """
    topics: list[TopicT] = []
    offsets: list[OffsetToCommit] = []
    accepted: list[EntryT] = []
    pace = Pace()
    for topic in message.topics:
        if pace.spent():
            yield None
        denied = refusal if refusal in DENIALS else denial(topic.name)
        known = image.topics.get(topic.name)
        count = 0 if known is None else known.partitions
        entries: list[EntryT] = []
        for each in topic.partitions:
            index = each.partition_index
            if pace.spent():
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

"""Sorts the offsets of an OffsetCommit or a TxnOffsetCommit, which have the same fields."""

from collections.abc import Callable
from typing import TypeVar

from broker.api.pacing import Pace
from broker.errors import ErrorCode
from broker.groups.messages import OffsetToCommit
from broker.metadata.image import Image
from broker.protocol.messages.offset_commit import OffsetCommitRequest
from broker.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from broker.records.slices import Slices

TopicT = TypeVar("TopicT")
EntryT = TypeVar("EntryT")


def sorted_offsets(
    message: OffsetCommitRequest | TxnOffsetCommitRequest,
    image: Image,
    refusal: ErrorCode,
    make_topic: Callable[[str, list[EntryT]], TopicT],
    make_entry: Callable[[int, ErrorCode], EntryT],
) -> Slices[tuple[list[TopicT], list[OffsetToCommit], list[EntryT]]]:
    """Return the response topics, the offsets to commit and their response entries.

    With a `refusal`, every entry has an error and there are no offsets to commit.
    """
    topics: list[TopicT] = []
    offsets: list[OffsetToCommit] = []
    accepted: list[EntryT] = []
    pace = Pace()
    for topic in message.topics:
        if pace.spent():
            yield None
        known = image.topics.get(topic.name)
        count = 0 if known is None else known.partitions
        entries: list[EntryT] = []
        for each in topic.partitions:
            index = each.partition_index
            if pace.spent():
                yield None
            error = refusal
            if not 0 <= index < count:
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

"""The states of share partitions: of records, ranges of offsets with one state, how a later write changes
earlier ones; and the states of whole share partitions, as the group coordinator uses and the handlers change
them.

A share partition is a partition of a topic as one group reads it. Its state says what the group has
acknowledged, and is kept by `coordinator.share.persister`. What handlers change, `server.parts` implements: a
call returns once its change is recorded and the states are durable. (Kafka: RecordState, Persister,
PersisterStateBatch, PersisterStateBatchCombiner)
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Final, NamedTuple, Protocol

from broker.common.errors import ApiError, ErrorCode

NOT_SET: Final = -1
"""The start offset of a state whose first offset `share.auto.offset.reset` decides."""


class RecordState(IntEnum):
    """The state of a record, by Kafka's number. ACQUIRED is never stored. ARCHIVING: it is archived once its
    dead letter is written (KIP-1191).
    """

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        """Whether the group is done with the record, so that the start offset can move past it."""
        return self is RecordState.ACKNOWLEDGED or self is RecordState.ARCHIVED


STORED: Final = frozenset(RecordState) - {RecordState.ACQUIRED}


class SharePartitionKey(NamedTuple):
    """A share partition: a partition as one group sees it. `topic_id` has 16 bytes."""

    group_id: str
    topic_id: bytes
    partition: int


class StateBatch(NamedTuple):
    """The records from offset `first` to `last`, both included, and how often they were delivered."""

    first: int
    last: int
    state: RecordState
    deliveries: int


def merged(batches: Iterable[StateBatch]) -> tuple[StateBatch, ...]:
    """Join adjacent batches with the same state and count. `batches` are sorted and do not overlap."""
    found: list[StateBatch] = []
    for each in batches:
        last = found[-1] if found else None
        if last is not None and each.first == last.last + 1 and each[2:] == last[2:]:
            found[-1] = StateBatch(last.first, each.last, *each[2:])
        else:
            found.append(each)
    return tuple(found)


def combined(
    old: Iterable[StateBatch], new: Iterable[StateBatch], start_offset: int
) -> tuple[StateBatch, ...]:
    """Return the states after a write: where both have a state, the new one applies. Drops everything before
    `start_offset`. `old` is sorted and does not overlap; of new batches that overlap, the later one applies.
    """
    written: list[StateBatch] = []
    for batch in new:
        if written and batch.first <= written[-1].last:
            written = sorted([*_outside(written, [batch]), batch])
        else:
            written.append(batch)
    kept = (
        each if each.first >= start_offset else each._replace(first=start_offset)
        for each in sorted([*_outside(old, written), *written])
        if each.last >= start_offset
    )
    return merged(kept)


def _outside(old: Iterable[StateBatch], new: list[StateBatch]) -> Iterator[StateBatch]:
    """Yield the parts of `old` that no batch of `new` covers; both are sorted."""
    at = 0
    for each in old:
        while at < len(new) and new[at].last < each.first:
            at += 1
        first, covering = each.first, at
        while covering < len(new) and new[covering].first <= each.last:
            if first < new[covering].first:
                yield each._replace(first=first, last=new[covering].first - 1)
            first = new[covering].last + 1
            covering += 1
        if first <= each.last:
            yield each._replace(first=first)


class ShareStateSummary(NamedTuple):
    """`start_offset` is -1 until the partition's leader has chosen it. `complete` is the number of records
    from it on that are never delivered again, or -1. (KIP-1226: DeliveryCompleteCount)
    """

    start_offset: int
    state_epoch: int
    leader_epoch: int
    complete: int = NOT_SET


class ShareStates(Protocol):
    """The states by group id, topic id of 16 bytes, and partition."""

    async def initialize(self, group_id: str, topic_id: bytes, partition: int, start_offset: int) -> None:
        """Begin a state, or begin it anew. It is durable on return. Raises ApiError.

        With a `start_offset` of -1, the partition's leader chooses it by the group's
        `share.auto.offset.reset`.
        """

    def summary(self, group_id: str, topic_id: bytes, partition: int) -> ShareStateSummary | None:
        """Return what is known of a state; None if it is not initialized."""

    async def delete(self, group_id: str, topic_id: bytes, partition: int) -> None:
        """Delete a state. It need not exist. Raises ApiError."""


SharePartition = tuple[bytes, int]
"""Topic id and index."""


class ShareStateResult(NamedTuple):
    """The outcome of a change: `error` if it failed as a whole, else an error for each part that failed."""

    error: ErrorCode
    message: str | None = None
    partitions: Mapping[SharePartition, ApiError] = {}
    topics: Mapping[bytes, ApiError] = {}


class ShareGroupStates(Protocol):
    """The states of the groups' share partitions, by group id and topic id of 16 bytes."""

    def summary(self, group_id: str, topic_id: bytes, partition: int) -> ShareStateSummary | None:
        """Return what is known of a state; None if it is not initialized."""

    async def alter(
        self, group_id: str, offsets: Mapping[bytes, tuple[str, Mapping[int, int]]]
    ) -> ShareStateResult:
        """Begin states anew at start offsets: by topic id the topic's name, and offsets by partition."""

    async def delete(self, group_id: str, topic_ids: Collection[bytes]) -> ShareStateResult:
        """Delete the states of topics. One without a state is UNKNOWN_TOPIC_OR_PARTITION."""

    async def delete_all(self, group_id: str) -> ShareStateResult:
        """Delete all states of a group, which is deleted next."""

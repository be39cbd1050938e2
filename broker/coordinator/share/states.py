"""Delivery states of records, ranges of offsets with one state, and how a later write changes earlier ones.

Used by the share partition and by the stored state. (Kafka: RecordState, PersisterStateBatch,
PersisterStateBatchCombiner)
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Final, NamedTuple

NOT_SET: Final = -1
"""The start offset of a state whose first offset `share.auto.offset.reset` decides."""


class RecordState(IntEnum):
    """The state of a record, by Kafka's number. ACQUIRED is never stored."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        """Whether the record is never delivered again."""
        return self >= RecordState.ACKNOWLEDGED


STORED: Final = frozenset({RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})


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

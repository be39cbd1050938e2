"""Cached positions of offsets, so that most reads need no index.

A PartitionLog keeps them in two dictionaries by offset; the store limits both kinds over all partitions.
"""

from typing import Final, NamedTuple

from broker.log.segment import Segment


class Mark(NamedTuple):
    """Cached start position for reads at one offset."""

    segment: Segment
    position: int
    batch_bytes: int


MAX_READ_MARKS: Final = 16_384
"""Maximum number of cached positions of offsets that readers have asked for, over all partitions: about 4 MB.
Readers of one partition often ask for the same offsets, one group after the other.
"""

MAX_APPENDED_MARKS: Final = 4_096
"""The same for appended batches, which readers at the end of a log ask for next. A broker with forty appends
a second reaches it in two minutes, with readers or without.
"""


class MarkLimit:
    """Counts the cached positions of all partitions and drops all of them at the limit."""

    __slots__ = ("_count", "_limit", "_used")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0
        self._used: dict[int, dict[int, Mark]] = {}

    def add(self, marks: dict[int, Mark], offset: int, mark: Mark) -> None:
        """Cache the position of an offset in `marks`, which belongs to a partition."""
        if self._count >= self._limit:
            for each in self._used.values():
                each.clear()
            self._used.clear()
            self._count = 0
        self._count += 1
        self._used[id(marks)] = marks
        marks[offset] = mark

"""What the partitions of a store have in common: descriptors, the way to sockets, and lists of what is to be
done.

Made by the store, handed to every partition. Belongs to the event loop's thread.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker.log.disk import OpenFiles
from broker.log.staged import FailedAppend
from broker.log.windows import Transfer

if TYPE_CHECKING:
    from broker.log.partition import PartitionLog
    from broker.log.segmented import SegmentedLog


MOST_MARKS: Final = 4_096
"""Offsets of which the position is remembered, over all partitions: about 1 MB, which a broker of forty
appends a second reaches in two minutes. Readers of one partition often ask for the same offsets, one
group after the other.
"""


class LogContext:
    """`dirty` have staged batches. `unflushed` have records that their topic wants on the disk some time,
    with the time of the oldest; `overdue` have more of them than the topic allows; `rolled` have closed a
    segment that is not flushed. `offline` cannot be used until the next start; `went_offline` is told each
    once. `gapped` lack records that they had. `inspected` are the records that were read since the last
    commit, before their batches were taken.
    """

    __slots__ = (
        "_marked",
        "_marks",
        "dirty",
        "failed",
        "files",
        "gapped",
        "inspected",
        "offline",
        "overdue",
        "rolled",
        "transfer",
        "unflushed",
        "went_offline",
    )

    def __init__(self, files: OpenFiles, transfer: Transfer) -> None:
        self.files = files
        self.transfer = transfer
        self.dirty: list[PartitionLog] = []
        self.failed: list[FailedAppend] = []
        self.unflushed: dict[SegmentedLog, int] = {}
        self.overdue: dict[SegmentedLog, None] = {}
        self.rolled: dict[SegmentedLog, None] = {}
        self.offline: dict[SegmentedLog, None] = {}
        self.gapped: dict[SegmentedLog, None] = {}
        self.went_offline: Callable[[SegmentedLog], None] | None = None
        self._marked: dict[SegmentedLog, None] = {}
        self._marks = 0
        self.inspected = 0

    def count_mark(self, partition: "SegmentedLog") -> None:
        """The partition is about to remember one more; all are forgotten when there are too many."""
        if self._marks >= MOST_MARKS:
            for each in self._marked:
                each.forget_marks()
            self._marked.clear()
            self._marks = 0
        self._marks += 1
        self._marked[partition] = None

    def forget(self, partition: "SegmentedLog") -> None:
        """It is gone, or offline."""
        self.unflushed.pop(partition, None)
        self.overdue.pop(partition, None)
        self.rolled.pop(partition, None)
        self._marked.pop(partition, None)

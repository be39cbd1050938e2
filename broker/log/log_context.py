"""State shared by all partitions of a store: descriptors, the transfer to sockets, and lists of pending work.

Created by the store and passed to every partition. Used only from the event loop's thread.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker.log.disk import OpenFiles
from broker.log.staged import FailedAppend
from broker.log.windows import Transfer

if TYPE_CHECKING:
    from broker.log.partition import PartitionLog
    from broker.log.segmented import SegmentedLog


MAX_MARKS: Final = 4_096
"""Maximum number of offsets with a cached position, over all partitions: about 1 MB.

A broker with forty appends a second reaches it in two minutes. Readers of one partition often ask for the
same offsets, one group after the other.
"""


class LogContext:
    """Shared state and work lists.

    `dirty`: partitions with staged batches. `unflushed`: partitions with records that their topic's settings
    flush, with the time of the oldest. `overdue`: partitions with more unflushed records than the topic
    allows. `rolled`: partitions with a closed, unflushed segment. `offline`: partitions that are unusable
    until the next start; `went_offline` is called once for each. `gapped`: partitions with missing records.
    `inspected`: records read since the last commit by checks before staging.
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
        """Count a position that the partition is about to cache; drop all cached positions at the limit."""
        if self._marks >= MAX_MARKS:
            for each in self._marked:
                each.forget_marks()
            self._marked.clear()
            self._marks = 0
        self._marks += 1
        self._marked[partition] = None

    def forget(self, partition: "SegmentedLog") -> None:
        """Remove a deleted or offline partition from the work lists."""
        self.unflushed.pop(partition, None)
        self.overdue.pop(partition, None)
        self.rolled.pop(partition, None)
        self._marked.pop(partition, None)

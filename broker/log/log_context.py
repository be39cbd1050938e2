"""State shared by all partitions of a store: descriptors, the transfer to sockets, and lists of pending work.

Created by the store and passed to every partition. Used only from the event loop's thread.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.log.disk import OpenFiles
from broker.log.marks import MAX_APPENDED_MARKS, MAX_READ_MARKS, MarkLimit
from broker.log.staged import FailedAppend
from broker.log.windows import Transfer

if TYPE_CHECKING:
    from broker.log.partition import PartitionLog
    from broker.log.segmented import SegmentedLog


class LogContext:
    """Shared state and work lists.

    `dirty`: partitions with staged batches. `unflushed`: partitions with records that their topic's settings
    flush, with the time of the oldest. `overdue`: partitions with more unflushed records than the topic
    allows. `rolled`: partitions with a closed, unflushed segment. `offline`: partitions that are unusable
    until the next start; `went_offline` is called once for each. `gapped`: partitions with missing records.
    `inspected`: records read since the last commit by checks before staging.
    """

    __slots__ = (
        "appended_marks",
        "dirty",
        "failed",
        "files",
        "gapped",
        "inspected",
        "offline",
        "overdue",
        "read_marks",
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
        self.read_marks = MarkLimit(MAX_READ_MARKS)
        self.appended_marks = MarkLimit(MAX_APPENDED_MARKS)
        self.inspected = 0

    def forget(self, partition: "SegmentedLog") -> None:
        """Remove a deleted or offline partition from the work lists."""
        self.unflushed.pop(partition, None)
        self.overdue.pop(partition, None)
        self.rolled.pop(partition, None)

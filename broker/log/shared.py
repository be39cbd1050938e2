"""What the partitions of a store have in common: descriptors, the way to sockets, and lists of what is to be
done.

Made by the store, handed to every partition. Belongs to the event loop's thread.
"""

from typing import TYPE_CHECKING

from broker.log.disk import OpenFiles
from broker.log.staged import FailedAppend
from broker.log.windows import Transfer

if TYPE_CHECKING:
    from broker.log.partition import PartitionLog
    from broker.log.segmented import SegmentedLog


class Shared:
    """`dirty` have staged batches. `unflushed` have records that their topic wants on the disk some time,
    with the time of the oldest; `overdue` have more of them than the topic allows; `rolled` have closed a
    segment that is not flushed.
    """

    __slots__ = ("dirty", "failed", "files", "overdue", "rolled", "transfer", "unflushed")

    def __init__(self, files: OpenFiles, transfer: Transfer) -> None:
        self.files = files
        self.transfer = transfer
        self.dirty: list[PartitionLog] = []
        self.failed: list[FailedAppend] = []
        self.unflushed: dict[SegmentedLog, int] = {}
        self.overdue: dict[SegmentedLog, None] = {}
        self.rolled: dict[SegmentedLog, None] = {}

    def forget(self, partition: "SegmentedLog") -> None:
        """It is gone, or offline."""
        self.unflushed.pop(partition, None)
        self.overdue.pop(partition, None)
        self.rolled.pop(partition, None)

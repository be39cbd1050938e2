"""State shared by all partitions of a store: descriptors, the transfer to sockets, the limits of cached
positions, and lists of pending work.

Created by the store and passed to every partition. Used only from the event loop's thread. Independent of
what a partition does: the type of the partitions is a parameter.
"""

from collections.abc import Callable
from typing import Final, Generic

from broker.log.disk import OpenFiles
from broker.log.segment import PositionLimit
from broker.log.slice import Transfer
from broker.log.staged import FailedAppend, Partition

MAX_READ_POSITIONS: Final = 16_384
"""Maximum number of cached positions of offsets that readers have asked for, over all partitions: about 4 MB.
Readers of one partition often ask for the same offsets, one group after the other.
"""

MAX_APPENDED_POSITIONS: Final = 4_096
"""The same for appended batches, which readers at the end of a log ask for next. A broker with forty appends
a second reaches it in two minutes, with readers or without.
"""


class LogContext(Generic[Partition]):
    """Shared state and work lists.

    `dirty`: partitions with staged batches. `unflushed`: partitions with records that their topic's settings
    flush, with the time of the oldest. `overdue`: partitions with more unflushed records than the topic
    allows. `rolled`: partitions with a closed, unflushed segment. `offline`: partitions that are unusable
    until the next start; the `offline_listeners` are called once for each. `gapped`: partitions with missing
    records. `inspected`: records read since the last commit by checks before staging. `rolls`: segments
    rolled since the start. `failures`: how often staged batches were lost, or a partition went offline.
    """

    def __init__(self, files: OpenFiles, transfer: Transfer) -> None:
        self.files = files
        self.transfer = transfer
        self.dirty: list[Partition] = []
        self.failed: list[FailedAppend[Partition]] = []
        self.unflushed: dict[Partition, int] = {}
        self.overdue: dict[Partition, None] = {}
        self.rolled: dict[Partition, None] = {}
        self.offline: dict[Partition, None] = {}
        self.offline_listeners: list[Callable[[Partition], None]] = []
        self.gapped: dict[Partition, None] = {}
        self.read_positions = PositionLimit(MAX_READ_POSITIONS)
        self.appended_positions = PositionLimit(MAX_APPENDED_POSITIONS)
        self.inspected = 0
        self.rolls = 0
        self.failures = 0

    def forget(self, partition: Partition) -> None:
        """Remove a deleted or offline partition from the work lists."""
        self.unflushed.pop(partition, None)
        self.overdue.pop(partition, None)
        self.rolled.pop(partition, None)

"""The outcome of an append: a staged batch, and the report of failed ones.

Created by PartitionLog, read by the Produce handler and by internal appenders.
"""

from typing import Generic, TypeVar

from broker.common.errors import ErrorCode

Partition = TypeVar("Partition")


class Staged:
    """A batch that the next commit writes; its offsets are valid if `error` is None after the commit.

    `log_append_time` is -1 unless the topic uses LogAppendTime. `duplicate`: the batch is already in the log
    at these offsets and is not written again; its `log_append_time` is its greatest timestamp.
    """

    __slots__ = (
        "base_offset",
        "duplicate",
        "error",
        "last_offset",
        "log_append_time",
        "log_start_offset",
        "max_timestamp",
        "size",
    )

    def __init__(
        self,
        base_offset: int,
        last_offset: int,
        log_start_offset: int,
        log_append_time: int,
        max_timestamp: int,
        size: int,
        duplicate: bool = False,
    ) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.log_start_offset = log_start_offset
        self.log_append_time = log_append_time
        self.max_timestamp = max_timestamp
        self.size = size
        self.duplicate = duplicate
        self.error: ErrorCode | None = None


class FailedAppend(Generic[Partition]):
    """Staged batches that a commit could not write and rolled back."""

    def __init__(self, partition: Partition, staged: list[Staged], error: OSError) -> None:
        self.partition = partition
        self.staged = staged
        self.error = error

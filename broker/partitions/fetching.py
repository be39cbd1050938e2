"""Reads for a Fetch: requested partitions, results, and delayed fetches. (Kafka: DelayedFetch, readFromLog)

Called by `api.a01_fetch`. Works on partitions and the purgatory; independent of the wire format and
connections.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Final, Protocol

import msgspec

from broker.common.errors import ApiError, ErrorCode
from broker.log.aborted_transactions import AbortedTransaction
from broker.log.partition import PartitionLog
from broker.log.slice import MAX_COPIED_BYTES, FileSlice
from broker.partitions.partitions import LEADER_EPOCH
from broker.purgatory.purgatory import DelayedOperation, OperationState

NOTHING: Final = b""

BROKER_ERRORS: Final = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.CORRUPT_MESSAGE)
"""Errors caused by the broker and not by the client."""

REFUSED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)
"""Reasons for not reading a partition.

Such a partition does not complete a fetch that can wait for others, while every read error does. (Kafka:
`erroneous` in KafkaApis.handleFetchRequest, `errorReadingData` in ReplicaManager.fetchMessages)
"""


SENT_TOGETHER: Final = 200
"""Partitions of one response whose records are copied before its first byte is sent.

They have at most `MAX_COPIED_BYTES`. Later ones must be checked to be readable before the response promises
them.
"""


class RequestedPartition(msgspec.Struct, eq=False):
    """One requested partition. `log` is None if it is unavailable, and `error` is the reason."""

    topic: str
    topic_id: bytes
    partition: int
    offset: int
    max_bytes: int
    log: PartitionLog | None
    error: ErrorCode


class FetchedPartition(msgspec.Struct, eq=False):
    """The result for one partition: `records` is a slice of its log, or empty bytes.

    `aborted` are the aborted transactions among the records; None if the reader gets all records.
    """

    requested: RequestedPartition
    error: ErrorCode
    high_watermark: int
    log_start_offset: int
    records: FileSlice | bytes
    last_stable_offset: int = -1
    aborted: list[AbortedTransaction] | None = None


def is_refused(requested: RequestedPartition) -> bool:
    """Return whether the partition is not read, for a reason in REFUSED."""
    return requested.log is None and requested.error in REFUSED


def check_epoch(epoch: int) -> ErrorCode:
    """Validate a client's leader epoch; -1 means that it has none."""
    if epoch in (-1, LEADER_EPOCH):
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if epoch < LEADER_EPOCH else ErrorCode.UNKNOWN_LEADER_EPOCH


class Reading:
    """The reads of one fetch, in request order."""

    __slots__ = ("_refused", "_sent", "_stop", "found", "max_bytes", "requested", "size", "stop_waiting")

    _refused: int
    _stop: bool

    def __init__(self, requested: Sequence[RequestedPartition], max_bytes: int) -> None:
        self.requested = requested
        self.max_bytes = max_bytes
        self.found: list[FetchedPartition] = []
        self.size = 0
        self.stop_waiting = False
        self._sent: list[FetchedPartition] | None = None

    def read(self, some: Sequence[RequestedPartition] | None = None) -> int:
        """Read up to `max_bytes` in total within each partition's own limit; return the total bytes.

        The first non-empty partition returns at least one batch. With `some`, the next part of the requested
        partitions, the results are added to those of earlier calls. Sets `stop_waiting` if reading a
        partition failed, and if there is no partition to read: none is requested, or all are REFUSED.
        """
        found: list[FetchedPartition] = []
        total = refused = 0
        stop = False
        if some is not None:
            found, total, refused, stop = self.found, self.size, self._refused, self._stop
        left = self.max_bytes - total
        for requested in self.requested if some is None else some:
            log = requested.log
            if log is None or requested.error:
                found.append(FetchedPartition(requested, requested.error, -1, -1, NOTHING))
                if is_refused(requested):
                    refused += 1
                else:
                    stop = True
                continue
            log.metrics.reads += 1
            aborted = None
            try:
                if requested.offset == log.high_watermark and log.offline is None and not log.deleted:
                    records: FileSlice | bytes = NOTHING
                elif total and left <= 0 and log.offline is None and not log.deleted:
                    records = NOTHING
                else:
                    limit = requested.max_bytes
                    records = self.read_log(
                        log, requested.offset, limit if limit < left else left, min_one_batch=total == 0
                    )
                    size = len(records)
                    if total and size and (total + size > MAX_COPIED_BYTES or len(found) > SENT_TOGETHER):
                        log.check_readable(records)
                    total += size
                    left -= size
                aborted = self.aborted_in(log, requested.offset, len(records))
            except ApiError as error:
                log.metrics.failed_reads += error.code in BROKER_ERRORS
                found.append(FetchedPartition(requested, error.code, -1, log.log_start_offset, NOTHING))
                stop = True
                continue
            found.append(
                FetchedPartition(
                    requested,
                    ErrorCode.NONE,
                    log.high_watermark,
                    log.log_start_offset,
                    records,
                    log.last_stable_offset,
                    aborted,
                )
            )
        self.found = found
        self.size = total
        self.stop_waiting = stop or refused == len(self.requested)
        if some is not None:
            self._refused, self._stop = refused, stop
        return total

    def read_log(self, log: PartitionLog, offset: int, max_bytes: int, *, min_one_batch: bool) -> FileSlice:
        """Return the records of one partition that the reader may see. Raises ApiError."""
        return log.read(offset, max_bytes, min_one_batch=min_one_batch)

    def aborted_in(self, log: PartitionLog, offset: int, size: int) -> list[AbortedTransaction] | None:
        """Return the aborted transactions among `size` bytes of records. Raises ApiError."""
        return None

    def end_of(self, log: PartitionLog) -> int:
        """Return the offset at which the reader finds nothing yet."""
        return log.high_watermark

    def begin(self) -> None:
        """Reset the results before the first `read` with `some`."""
        self.found = []
        self.size = self._refused = 0
        self._stop = self.stop_waiting = False

    def count_sent(self, some: Sequence[FetchedPartition] | None = None) -> None:
        """Count the results, or `some` of them, as sent."""
        for each in self.found if some is None else some:
            if each.records and each.requested.log is not None:
                each.requested.log.metrics.bytes_out += len(each.records)
        if some is not None:
            # So that `count_unsent` need not look at all of them at once.
            self._sent = self._sent or []
            self._sent += [each for each in some if each.records]

    def count_unsent(self) -> None:
        """Undo `count_sent` for a throttled response."""
        for each in self.found if self._sent is None else self._sent:
            if each.records and each.requested.log is not None:
                each.requested.log.metrics.bytes_out -= len(each.records)

    def drop(self) -> None:
        """Release slices that will not be sent."""
        self.found = []

    def is_throttled(self, requested: RequestedPartition) -> bool:
        """Return whether a quota withholds the records of this partition now."""
        return False

    def has_more(self) -> bool:
        """Return whether any partition has records at its offset; cheap enough for every append."""
        return any(w.log is not None and self.end_of(w.log) > w.offset for w in self.requested)


class CommittedReading(Reading):
    """Reads for a consumer of committed records, which end at the last stable offset. (KIP-98)"""

    __slots__ = ()

    def read_log(self, log: PartitionLog, offset: int, max_bytes: int, *, min_one_batch: bool) -> FileSlice:
        return log.read_committed(offset, max_bytes, min_one_batch=min_one_batch)

    def aborted_in(self, log: PartitionLog, offset: int, size: int) -> list[AbortedTransaction] | None:
        return log.aborted_in(offset, size)

    def end_of(self, log: PartitionLog) -> int:
        return log.last_stable_offset


class ReplicaReading(Reading):
    """Reads for a replica under the leader's replication throttle. (Kafka: readFromLog, DelayedFetch)

    A throttled partition returns no records, only its errors and its high watermark, and appends to it do not
    complete a delayed fetch.

    `is_marked(topic, partition)`: whether the partition is subject to the throttle; `is_exceeded()`: whether
    the throttle is exceeded now.
    """

    __slots__ = ("_is_exceeded", "_is_held", "_is_marked")

    def __init__(
        self,
        requested: Sequence[RequestedPartition],
        max_bytes: int,
        is_marked: Callable[[str, int], bool],
        is_exceeded: Callable[[], bool],
    ) -> None:
        super().__init__(requested, max_bytes)
        self._is_marked = is_marked
        self._is_exceeded = is_exceeded
        self._is_held: bool | None = None
        """Whether marked partitions are throttled during this read; None before the first of them."""

    def begin(self) -> None:
        super().begin()
        self._is_held = None

    def read(self, some: Sequence[RequestedPartition] | None = None) -> int:
        if some is None:
            self._is_held = None
        throttled = self._throttled(self.requested if some is None else some)
        if not throttled:
            return super().read(some)
        if some is None:
            self.begin()
            some = self.requested
        before = len(self.found)
        super().read([each for each in some if each not in throttled])
        read = self.found[before:]
        del self.found[before:]
        others = iter(read)
        for each in some:
            if each in throttled:
                found = _without_records(each)
                self._stop = self._stop or found.error != ErrorCode.NONE
            else:
                found = next(others)
            self.found.append(found)
        # The fetch may wait for a throttled partition.
        self.stop_waiting = self._stop
        return self.size

    def has_more(self) -> bool:
        self._is_held = None
        throttled = self._throttled(self.requested)
        return any(
            each.log is not None and each.log.high_watermark > each.offset
            for each in self.requested
            if each not in throttled
        )

    def is_throttled(self, requested: RequestedPartition) -> bool:
        return self._is_marked_partition(requested) and self._is_exceeded()

    def _is_marked_partition(self, requested: RequestedPartition) -> bool:
        log = requested.log
        return log is not None and not requested.error and self._is_marked(log.topic, requested.partition)

    def _throttled(self, some: Sequence[RequestedPartition]) -> set[RequestedPartition]:
        if self._is_held is False:
            return set()
        marked = {each for each in some if self._is_marked_partition(each)}
        if marked and self._is_held is None:
            self._is_held = self._is_exceeded()
        return marked if self._is_held else set()


def _without_records(requested: RequestedPartition) -> FetchedPartition:
    log = requested.log
    assert log is not None
    log.metrics.reads += 1
    try:
        log.read(requested.offset, 0, min_one_batch=False)
    except ApiError as error:
        return FetchedPartition(requested, error.code, -1, log.log_start_offset, NOTHING)
    return FetchedPartition(
        requested,
        ErrorCode.NONE,
        log.high_watermark,
        log.log_start_offset,
        NOTHING,
        log.last_stable_offset,
    )


class PendingReading(Protocol):
    """A fetch whose response is pending."""

    @property
    def reading(self) -> Reading: ...


class DelayedFetch(DelayedOperation):
    """A fetch that waits for `min_bytes` or its timeout. `pending` builds the response."""

    __slots__ = ("min_bytes", "pending")

    def __init__(self, timeout_ms: int, pending: PendingReading, min_bytes: int) -> None:
        super().__init__(timeout_ms)
        self.pending = pending
        self.min_bytes = min_bytes

    @property
    def partitions(self) -> int:
        """Number of requested partitions."""
        return len(self.pending.reading.requested)

    def is_ready(self) -> bool:
        reading = self.pending.reading
        if not reading.has_more():
            logs = [requested.log for requested in reading.requested if requested.log is not None]
            return any(log.deleted or log.offline is not None for log in logs)
        if self.min_bytes <= 1:
            return True
        size = reading.read()
        ready = size >= self.min_bytes or reading.stop_waiting
        reading.drop()
        return ready


class DelayedManyFetch(DelayedFetch):
    """A delayed fetch with many partitions that reads only the log that has advanced.

    It tracks the bytes available in each log. It watches every key (`Purgatory.watch_any`) from before its
    partitions are first read, so that it misses no append between their slices: `add` for all partitions,
    `watched`, then `read` with each result, then `try_complete_else_wait`. A partition requested twice counts
    once, as in Kafka.
    """

    __slots__ = ("_is_complete", "_is_waiting", "_requested", "_sizes", "_total", "_unwatch")

    def __init__(self, timeout_ms: int, pending: PendingReading, min_bytes: int) -> None:
        super().__init__(timeout_ms, pending, min_bytes)
        self._requested: dict[Hashable, RequestedPartition] = {}
        self._sizes: dict[Hashable, int] = {}
        self._total = 0
        self._is_complete = False
        self._is_waiting = False
        self._unwatch: Callable[[DelayedOperation], None] | None = None

    def add(self, some: Sequence[RequestedPartition]) -> None:
        self._requested.update((each.log, each) for each in some if each.log is not None and not each.error)

    def watched(self, unwatch: Callable[[DelayedOperation], None]) -> None:
        self._unwatch = unwatch

    def cancel_unless_waiting(self) -> None:
        """Cancel a fetch that was answered or abandoned before it started to wait."""
        if not self._is_waiting:
            self.settle(OperationState.CANCELLED)

    def read(self, some: Sequence[FetchedPartition]) -> None:
        """Record the results of partitions without newer information."""
        for each in some:
            log = each.requested.log
            if log is not None and log not in self._sizes and self._requested.get(log) is each.requested:
                self._keep(log, len(each.records), each.requested)

    def wait(self) -> None:
        """Allow completion from now on."""
        self._is_waiting = True

    def try_complete(self, key: Hashable = None) -> bool:
        if self.settled:
            return False
        requested = self._requested.get(key)
        if requested is not None:
            try:
                self._check_log(requested)
            except Exception:  # noqa: BLE001 - raised again, and handled, when the response is built
                self._is_complete = True
        return self._is_waiting and self.is_ready() and self.settle(OperationState.COMPLETED)

    def is_ready(self) -> bool:
        return self._is_complete or self._total >= self.min_bytes

    def settle(self, outcome: OperationState) -> bool:
        if not super().settle(outcome):
            return False
        if self._unwatch is not None:
            self._unwatch(self)
        self._requested, self._sizes = {}, {}
        return True

    def _check_log(self, requested: RequestedPartition) -> None:
        log = requested.log
        assert log is not None
        if log.deleted or log.offline is not None:
            self._is_complete = True
            return
        reading = self.pending.reading
        if requested.offset == log.high_watermark or reading.is_throttled(requested):
            self._keep(log, 0, requested)
        else:
            found = reading.read_log(log, requested.offset, requested.max_bytes, min_one_batch=True)
            self._keep(log, len(found), requested)

    def _keep(self, log: PartitionLog, size: int, requested: RequestedPartition) -> None:
        size = min(size, max(requested.max_bytes, 1))
        self._total += size - self._sizes.get(log, 0)
        self._sizes[log] = size

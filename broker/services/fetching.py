"""Reads for a Fetch: requested partitions, results, and delayed fetches. (Kafka: DelayedFetch, readFromLog)

Called by `api.a01_fetch`. Works on partitions and the purgatory; independent of the wire format and
connections.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Final, Protocol

from broker.errors import ApiError, ErrorCode
from broker.log.partition import PartitionLog
from broker.log.slice import FileSlice
from broker.log.windows import MAX_COPIED_BYTES
from broker.purgatory.purgatory import DelayedOperation, Outcome
from broker.services.partitions import LEADER_EPOCH

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


class Wanted:
    """One requested partition. `log` is None if it is unavailable, and `error` is the reason."""

    __slots__ = ("error", "log", "max_bytes", "offset", "partition", "topic", "topic_id")

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        partition: int,
        offset: int,
        max_bytes: int,
        log: PartitionLog | None,
        error: ErrorCode,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.offset = offset
        self.max_bytes = max_bytes
        self.log = log
        self.error = error


class Found:
    """The result for one partition: `records` is a slice of its log, or empty bytes."""

    __slots__ = ("error", "high_watermark", "log_start_offset", "records", "wanted")

    def __init__(
        self,
        wanted: Wanted,
        error: ErrorCode,
        high_watermark: int,
        log_start_offset: int,
        records: FileSlice | bytes,
    ) -> None:
        self.wanted = wanted
        self.error = error
        self.high_watermark = high_watermark
        self.log_start_offset = log_start_offset
        self.records = records


def is_refused(wanted: Wanted) -> bool:
    """Return whether the partition is not read, for a reason in REFUSED."""
    return wanted.log is None and wanted.error in REFUSED


def check_epoch(epoch: int) -> ErrorCode:
    """Validate a client's leader epoch; -1 means that it has none."""
    if epoch in (-1, LEADER_EPOCH):
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if epoch < LEADER_EPOCH else ErrorCode.UNKNOWN_LEADER_EPOCH


class Reading:
    """The reads of one fetch, in request order."""

    __slots__ = ("_refused", "_stop", "found", "max_bytes", "size", "stop_waiting", "wanted")

    _refused: int
    _stop: bool

    def __init__(self, wanted: Sequence[Wanted], max_bytes: int) -> None:
        self.wanted = wanted
        self.max_bytes = max_bytes
        self.found: list[Found] = []
        self.size = 0
        self.stop_waiting = False

    def read(self, some: Sequence[Wanted] | None = None) -> int:
        """Read up to `max_bytes` in total within each partition's own limit; return the total bytes.

        The first non-empty partition returns at least one batch. With `some`, the next part of the requested
        partitions, the results are added to those of earlier calls. Sets `stop_waiting` if reading a
        partition failed, and if there is no partition to read: none is requested, or all are REFUSED.
        """
        found: list[Found] = []
        total = refused = 0
        stop = False
        if some is not None:
            found, total, refused, stop = self.found, self.size, self._refused, self._stop
        left = self.max_bytes - total
        for wanted in self.wanted if some is None else some:
            log = wanted.log
            if log is None or wanted.error:
                found.append(Found(wanted, wanted.error, -1, -1, NOTHING))
                if is_refused(wanted):
                    refused += 1
                else:
                    stop = True
                continue
            log.metrics.reads += 1
            try:
                if wanted.offset == log.high_watermark and log.offline is None and not log.deleted:
                    records: FileSlice | bytes = NOTHING
                elif total and left <= 0 and log.offline is None and not log.deleted:
                    records = NOTHING
                else:
                    limit = wanted.max_bytes
                    records = log.read(
                        wanted.offset, limit if limit < left else left, min_one_batch=total == 0
                    )
                    size = len(records)
                    if total and size and (total + size > MAX_COPIED_BYTES or len(found) > SENT_TOGETHER):
                        log.check_readable(records)
                    total += size
                    left -= size
            except ApiError as error:
                log.metrics.failed_reads += error.code in BROKER_ERRORS
                found.append(Found(wanted, error.code, -1, log.log_start_offset, NOTHING))
                stop = True
                continue
            found.append(Found(wanted, ErrorCode.NONE, log.high_watermark, log.log_start_offset, records))
        self.found = found
        self.size = total
        self.stop_waiting = stop or refused == len(self.wanted)
        if some is not None:
            self._refused, self._stop = refused, stop
        return total

    def begin(self) -> None:
        """Reset the results before the first `read` with `some`."""
        self.found = []
        self.size = self._refused = 0
        self._stop = self.stop_waiting = False

    def count_sent(self, some: Sequence[Found] | None = None) -> None:
        """Count the results, or `some` of them, as sent."""
        for each in self.found if some is None else some:
            if each.records and each.wanted.log is not None:
                each.wanted.log.metrics.bytes_out += len(each.records)

    def count_unsent(self) -> None:
        """Undo `count_sent` for a throttled response."""
        for each in self.found:
            if each.records and each.wanted.log is not None:
                each.wanted.log.metrics.bytes_out -= len(each.records)

    def drop(self) -> None:
        """Release slices that will not be sent."""
        self.found = []

    def has_more(self) -> bool:
        """Return whether any partition has records at its offset; cheap enough for every append."""
        return any(w.log is not None and w.log.high_watermark > w.offset for w in self.wanted)


class ReplicaReading(Reading):
    """Reads for a replica under the leader's replication throttle. (Kafka: readFromLog, DelayedFetch)

    A throttled partition returns no records, only its errors and its high watermark, and appends to it do not
    complete a delayed fetch.

    `is_marked(topic, partition)`: whether the partition is subject to the throttle; `is_exceeded()`: whether
    the throttle is exceeded now.
    """

    __slots__ = ("_is_exceeded", "_is_marked")

    def __init__(
        self,
        wanted: Sequence[Wanted],
        max_bytes: int,
        is_marked: Callable[[str, int], bool],
        is_exceeded: Callable[[], bool],
    ) -> None:
        super().__init__(wanted, max_bytes)
        self._is_marked = is_marked
        self._is_exceeded = is_exceeded

    def read(self, some: Sequence[Wanted] | None = None) -> int:
        throttled = self._throttled() if some is None else set()
        if not throttled:
            return super().read(some)
        everything = self.wanted
        self.wanted = [each for each in everything if each not in throttled]
        try:
            size = super().read()
        finally:
            self.wanted = everything
        read = iter(self.found)
        self.found = [_without_records(each) if each in throttled else next(read) for each in everything]
        # The fetch may wait for a throttled partition.
        self.stop_waiting = any(each.error and not is_refused(each.wanted) for each in self.found)
        return size

    def has_more(self) -> bool:
        throttled = self._throttled()
        return any(
            each.log is not None and each.log.high_watermark > each.offset
            for each in self.wanted
            if each not in throttled
        )

    def _throttled(self) -> set[Wanted]:
        marked = {
            each
            for each in self.wanted
            if each.log is not None and not each.error and self._is_marked(each.log.topic, each.partition)
        }
        return marked if marked and self._is_exceeded() else set()


def _without_records(wanted: Wanted) -> Found:
    log = wanted.log
    assert log is not None
    log.metrics.reads += 1
    try:
        log.read(wanted.offset, 0, min_one_batch=False)
    except ApiError as error:
        return Found(wanted, error.code, -1, log.log_start_offset, NOTHING)
    return Found(wanted, ErrorCode.NONE, log.high_watermark, log.log_start_offset, NOTHING)


class PendingFetch(Protocol):
    """A fetch whose response is pending."""

    @property
    def reading(self) -> Reading: ...


class DelayedFetch(DelayedOperation):
    """A fetch that waits for `min_bytes` or its timeout. `pending` builds the response."""

    __slots__ = ("min_bytes", "pending")

    def __init__(self, timeout_ms: int, pending: PendingFetch, min_bytes: int) -> None:
        super().__init__(timeout_ms)
        self.pending = pending
        self.min_bytes = min_bytes

    @property
    def partitions(self) -> int:
        """Number of requested partitions."""
        return len(self.pending.reading.wanted)

    def is_ready(self) -> bool:
        reading = self.pending.reading
        if not reading.has_more():
            logs = [wanted.log for wanted in reading.wanted if wanted.log is not None]
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
    partitions are first read, so that it misses no append between their slices: `want` for all partitions,
    `watched`, then `read` with each result, then `try_complete_else_wait`. A partition requested twice counts
    once, as in Kafka.
    """

    __slots__ = ("_is_complete", "_is_waiting", "_sizes", "_total", "_unwatch", "_wanted")

    def __init__(self, timeout_ms: int, pending: PendingFetch, min_bytes: int) -> None:
        super().__init__(timeout_ms, pending, min_bytes)
        self._wanted: dict[Hashable, Wanted] = {}
        self._sizes: dict[Hashable, int] = {}
        self._total = 0
        self._is_complete = False
        self._is_waiting = False
        self._unwatch: Callable[[DelayedOperation], None] | None = None

    def want(self, some: Sequence[Wanted]) -> None:
        self._wanted.update((each.log, each) for each in some if each.log is not None and not each.error)

    def watched(self, unwatch: Callable[[DelayedOperation], None]) -> None:
        self._unwatch = unwatch

    def cancel_unless_waiting(self) -> None:
        """Cancel a fetch that was answered or abandoned before it started to wait."""
        if not self._is_waiting:
            self.settle(Outcome.CANCELLED)

    def read(self, some: Sequence[Found]) -> None:
        """Record the results of partitions without newer information."""
        for each in some:
            log = each.wanted.log
            if log is not None and log not in self._sizes and self._wanted.get(log) is each.wanted:
                self._keep(log, len(each.records), each.wanted)

    def wait(self) -> None:
        """Allow completion from now on."""
        self._is_waiting = True

    def try_complete(self, key: Hashable = None) -> bool:
        if self.settled:
            return False
        wanted = self._wanted.get(key)
        if wanted is not None:
            try:
                self._check_log(wanted)
            except Exception:  # noqa: BLE001 - raised again, and handled, when the response is built
                self._is_complete = True
        return self._is_waiting and self.is_ready() and self.settle(Outcome.COMPLETED)

    def is_ready(self) -> bool:
        return self._is_complete or self._total >= self.min_bytes

    def settle(self, outcome: Outcome) -> bool:
        if not super().settle(outcome):
            return False
        if self._unwatch is not None:
            self._unwatch(self)
        self._wanted, self._sizes = {}, {}
        return True

    def _check_log(self, wanted: Wanted) -> None:
        log = wanted.log
        assert log is not None
        if log.deleted or log.offline is not None:
            self._is_complete = True
        elif wanted.offset == log.high_watermark:
            self._keep(log, 0, wanted)
        else:
            self._keep(log, len(log.read(wanted.offset, wanted.max_bytes, min_one_batch=True)), wanted)

    def _keep(self, log: PartitionLog, size: int, wanted: Wanted) -> None:
        size = min(size, max(wanted.max_bytes, 1))
        self._total += size - self._sizes.get(log, 0)
        self._sizes[log] = size

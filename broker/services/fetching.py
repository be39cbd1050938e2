"""Reading for a Fetch: what is wanted, what is there, and waiting until it is enough. (Kafka: DelayedFetch,
readFromLog)

Called by `api.a01_fetch`. Knows partitions and the purgatory; nothing of the wire format or of connections.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Final, Protocol

from broker.errors import ApiError, ErrorCode
from broker.log.partition import PartitionLog
from broker.log.slice import FileSlice
from broker.log.windows import COPIED
from broker.purgatory.operation import DelayedOperation, Outcome
from broker.services.partitions import LEADER_EPOCH

NOTHING: Final = b""

OUR_FAULT: Final = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.CORRUPT_MESSAGE)
"""What a reader cannot help."""

REFUSED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)
"""Why a partition is not read at all. Such a partition does not answer a fetch that has others to wait for,
while every error of reading does. (Kafka: `erroneous` in KafkaApis.handleFetchRequest, `errorReadingData` in
ReplicaManager.fetchMessages)
"""


SENT_TOGETHER: Final = 200
"""Partitions of one response whose records are copied before the first byte of it is sent, if they have
`COPIED` bytes at most. Others must be known to be readable when they are promised.
"""


class Wanted:
    """One partition of a fetch. `log` is None where it does not exist, and `error` then says why."""

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
    """What one partition gave: `records` is a slice of its log, or empty bytes."""

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
    """Whether the partition is not read, for one of the reasons in REFUSED."""
    return wanted.log is None and wanted.error in REFUSED


def check_epoch(epoch: int) -> ErrorCode:
    """The verdict on a client's idea of the leader epoch; -1 means that it has none."""
    if epoch in (-1, LEADER_EPOCH):
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if epoch < LEADER_EPOCH else ErrorCode.UNKNOWN_LEADER_EPOCH


class Reading:
    """One fetch over its partitions, in the order asked for."""

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
        """Reads up to `max_bytes` in all and each partition's own limit; the first non-empty partition
        gives at least one batch.

        With `some`, the next ones of those wanted, what is found is added to what the calls before have
        found. The bytes found in all. `stop_waiting` is set where reading a partition failed, and where
        there is no partition to read: none is wanted, or all are REFUSED.
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
            log.traffic.reads += 1
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
                    if total and size and (total + size > COPIED or len(found) > SENT_TOGETHER):
                        log.check_lent(records)
                    total += size
                    left -= size
            except ApiError as error:
                log.traffic.failed_reads += error.code in OUR_FAULT
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
        """Before the first call of `read` with `some`."""
        self.found = []
        self.size = self._refused = 0
        self._stop = self.stop_waiting = False

    def count_sent(self, some: Sequence[Found] | None = None) -> None:
        """What was found, or `some` of it, is going to be sent."""
        for each in self.found if some is None else some:
            if each.records and each.wanted.log is not None:
                each.wanted.log.traffic.bytes_out += len(each.records)

    def count_unsent(self) -> None:
        """Takes `count_sent` back: what was found is held back after all."""
        for each in self.found:
            if each.records and each.wanted.log is not None:
                each.wanted.log.traffic.bytes_out -= len(each.records)

    def drop(self) -> None:
        """Lets go of slices that will not be sent."""
        self.found = []

    def has_more(self) -> bool:
        """Whether any partition has anything at the offset asked for; cheap enough for every append."""
        return any(w.log is not None and w.log.high_watermark > w.offset for w in self.wanted)


class PendingFetch(Protocol):
    """A fetch between its question and its answer."""

    @property
    def reading(self) -> Reading: ...


class DelayedFetch(DelayedOperation):
    """A fetch that waits for `min_bytes`, or for its time. `pending` is what its answer is made from."""

    __slots__ = ("min_bytes", "pending")

    def __init__(self, timeout_ms: int, pending: PendingFetch, min_bytes: int) -> None:
        super().__init__(timeout_ms)
        self.pending = pending
        self.min_bytes = min_bytes

    @property
    def partitions(self) -> int:
        """How many it names."""
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
    """One of so many partitions that not all of them are looked at when one gets a record: it keeps how many
    bytes each of its logs has, and reads only the log that has moved.

    It is shown every key (`Purgatory.watch_any`) from before its partitions are first read, so that no append
    is missed between their slices: `want` for all partitions, `watched`, then `read` with what each of them
    gave, then `try_complete_else_wait`. A partition that is named twice counts once, as in Kafka.
    """

    __slots__ = ("_is_over", "_is_waiting", "_sizes", "_total", "_unwatch", "_wanted")

    def __init__(self, timeout_ms: int, pending: PendingFetch, min_bytes: int) -> None:
        super().__init__(timeout_ms, pending, min_bytes)
        self._wanted: dict[Hashable, Wanted] = {}
        self._sizes: dict[Hashable, int] = {}
        self._total = 0
        self._is_over = False
        self._is_waiting = False
        self._unwatch: Callable[[DelayedOperation], None] | None = None

    def want(self, some: Sequence[Wanted]) -> None:
        self._wanted.update((each.log, each) for each in some if each.log is not None and not each.error)

    def watched(self, unwatch: Callable[[DelayedOperation], None]) -> None:
        self._unwatch = unwatch

    def cancel_unless_waiting(self) -> None:
        """It was answered, or given up, before its waiting began."""
        if not self._is_waiting:
            self.settle(Outcome.CANCELLED)

    def read(self, some: Sequence[Found]) -> None:
        """What partitions gave, where nothing newer is known."""
        for each in some:
            log = each.wanted.log
            if log is not None and log not in self._sizes and self._wanted.get(log) is each.wanted:
                self._keep(log, len(each.records), each.wanted)

    def wait(self) -> None:
        """From now on it may be completed."""
        self._is_waiting = True

    def try_complete(self, key: Hashable = None) -> bool:
        if self.settled:
            return False
        wanted = self._wanted.get(key)
        if wanted is not None:
            try:
                self._look(wanted)
            except Exception:  # noqa: BLE001 - met again, and answered or reported, when the answer is made
                self._is_over = True
        return self._is_waiting and self.is_ready() and self.settle(Outcome.COMPLETED)

    def is_ready(self) -> bool:
        return self._is_over or self._total >= self.min_bytes

    def settle(self, outcome: Outcome) -> bool:
        if not super().settle(outcome):
            return False
        if self._unwatch is not None:
            self._unwatch(self)
        self._wanted, self._sizes = {}, {}
        return True

    def _look(self, wanted: Wanted) -> None:
        log = wanted.log
        assert log is not None
        if log.deleted or log.offline is not None:
            self._is_over = True
        elif wanted.offset == log.high_watermark:
            self._keep(log, 0, wanted)
        else:
            self._keep(log, len(log.read(wanted.offset, wanted.max_bytes, min_one_batch=True)), wanted)

    def _keep(self, log: PartitionLog, size: int, wanted: Wanted) -> None:
        size = min(size, max(wanted.max_bytes, 1))
        self._total += size - self._sizes.get(log, 0)
        self._sizes[log] = size

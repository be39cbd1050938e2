"""Reads records of a topic for a person: several partitions in the order of time, filtered, within limits.

Called by `controller.topic_records`. Works in slices (`common.slices`), so that a search through many
records delays no request; a batch is decompressed in a thread if that takes long. Records are read up to the
high watermark of the start. Control batches are skipped, and so are the records of a transaction whose abort
is read too; the others of transactions are marked, because the broker does not know how transactions of
another broker ended.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from heapq import heappop, heappush
from typing import Final, NamedTuple, Protocol

import msgspec

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import SLICE, Slices
from broker.partitions.record_expression import MAX_JSON, Condition, Sought
from broker.records.header import HEADER_BYTES, TRANSACTIONAL_FLAG, BatchHeader, Buffer, header_at
from broker.records.packing import unpacked
from broker.records.walk import RecordSpans, Span, header_spans, record_spans

CHUNK: Final = 262_144
"""Bytes of a log that are read at once, unless a batch is larger."""

MAX_HEADERS: Final = 100
"""Headers of a record that are returned; ours. A record can have hundreds of thousands."""

MAX_UNREADABLE: Final = 20
"""Unreadable batches that a result names."""

SEARCHED_AT_ONCE: Final = 524_288
"""Bytes that are searched in one step, in 1 ms at most. Records of larger batches are searched one by one,
and longer parts of a record in steps.
"""

PARSED_AT_ONCE: Final = 65_536
"""Bytes of values that conditions look at in one step, in about a millisecond."""

PARSED_LEAST: Final = 256
"""Bytes as which a short value counts: its parsing has a least cost."""

KEPT_AT_ONCE: Final = 262_144
"""Bytes of found records that are copied in one step."""

MAX_COPIED: Final = 1_048_576
"""Bytes of a key, a value or a header that are copied; a longer one stays where it is in its batch."""

_ABORT: Final = b"\0\0"
"""The type of an abort marker: the last two bytes of a control record's key."""


class RecordFilter(msgspec.Struct, frozen=True):
    """Records with exactly this key, with these bytes in key, value, or a header, and for which the condition
    holds. None: any.
    """

    key: bytes | None = None
    contains: bytes | None = None
    condition: Condition | None = None


class ReadLimits(msgspec.Struct, frozen=True):
    """`records` are found records, `read_bytes` decompressed bytes that are read, and `kept_bytes` are kept
    of each key, value and header.
    """

    records: int
    read_bytes: int
    time_ms: int
    kept_bytes: int


class Stop(StrEnum):
    """The reason why a reading ended: at the end of all partitions, or at one of the limits."""

    END = "end"
    RECORDS = "records"
    BYTES = "bytes"
    TIME = "time"


class Cut(NamedTuple):
    """The first bytes of a key, a value or a header, and the size of the whole. More than MAX_COPIED are a
    view, which keeps their batch in memory.
    """

    size: int
    kept: bytes | memoryview


class FoundRecord(msgspec.Struct):
    """`header_count` counts all headers, `headers` has at most MAX_HEADERS. Time in ms."""

    partition: int
    offset: int
    timestamp: int
    key: Cut | None
    value: Cut | None
    headers: tuple[tuple[Cut, Cut | None], ...]
    header_count: int
    is_append_time: bool
    is_transactional: bool
    is_aborted: bool = False

    @property
    def kept_bytes(self) -> int:
        """Return the bytes that are kept of its parts."""
        parts = [self.key, self.value, *(part for header in self.headers for part in header)]
        return sum(len(part.kept) for part in parts if part is not None)


class PartitionPosition(msgspec.Struct, frozen=True):
    """The offsets that were read of a partition: from offset `first` to before `next`; `end` is the high
    watermark.
    """

    partition: int
    first: int
    next: int
    end: int


class UnreadableBatch(msgspec.Struct, frozen=True):
    partition: int
    offset: int
    reason: str


class FoundRecords(msgspec.Struct, frozen=True):
    """The result of a reading. `read_records` and `read_bytes` count everything read, wanted or not."""

    records: list[FoundRecord]
    stopped: Stop
    positions: tuple[PartitionPosition, ...]
    read_records: int
    read_bytes: int
    unreadable: tuple[UnreadableBatch, ...]


class ReadableLog(Protocol):
    """The log of a partition, here (`PartitionLog`) or at another broker."""

    @property
    def log_start_offset(self) -> int: ...

    def past_gap(self, offset: int) -> int:
        """Return the first offset from `offset` on that is not in a gap."""

    def chunk(self, offset: int, max_bytes: int) -> Slices[bytes]:
        """Return bytes from the batch that holds `offset` on, about `max_bytes`, and at least one batch; none
        at the end. Raises ApiError, OSError.
        """


class Range(NamedTuple):
    """Part of a partition: from offset `start` to before `end`. `log` None: it was never written."""

    partition: int
    log: ReadableLog | None
    start: int
    end: int


class _Budget:
    """The budget of one reading: the remaining limits, and the use so far."""

    def __init__(self, limits: ReadLimits, now_ms: Callable[[], int]) -> None:
        self.read_bytes = self.read_records = 0
        self.unreadable: list[UnreadableBatch] = []
        self._limits = limits
        self._now_ms = now_ms
        self._deadline = now_ms() + limits.time_ms

    def spent(self) -> Stop | None:
        if self.read_bytes >= self._limits.read_bytes:
            return Stop.BYTES
        return Stop.TIME if self._now_ms() >= self._deadline else None

    def note(self, partition: int, offset: int, error: Exception) -> None:
        if len(self.unreadable) < MAX_UNREADABLE:
            self.unreadable.append(UnreadableBatch(partition, offset, str(error)))


class _Cursor:
    """Reads one partition forwards. `head` is the next wanted record, `offset` where to continue."""

    def __init__(self, part: Range, wanted: RecordFilter, kept_bytes: int, budget: _Budget) -> None:
        self.partition, self._log, self.offset, self.end = part
        self.first = self.offset
        self.head: RecordSpans | None = None
        self._wanted = wanted
        self._kept_bytes = kept_bytes
        self._budget = budget
        self._needle = None if wanted.contains is None else re.compile(re.escape(wanted.contains))
        self._key = re.compile(re.escape(wanted.key)) if wanted.key else None
        self._chunk = b""
        self._at = 0
        self._header: BatchHeader | None = None
        self._data: Buffer = b""
        self._records: Iterator[RecordSpans] = iter(())
        self._parsed = 0
        """Bytes that were parsed since a pause."""
        self._unfinished: dict[int, list[FoundRecord]] = {}
        """By producer id: the found records of its transaction, while its end has not been read."""

    @property
    def position(self) -> PartitionPosition:
        return PartitionPosition(self.partition, self.first, self.offset, self.end)

    def advance(self) -> Slices[None]:
        """Find the next wanted record. `head` is None at the end, and where the budget is spent."""
        self.head = None
        resting = SLICE
        while True:
            try:
                for record in self._records:
                    resting -= 1
                    if record.offset >= self.offset:
                        if record.offset >= self.end:
                            self.offset = self.end
                            return
                        self.offset = record.offset
                        if (yield from self._is_wanted(record)):
                            self.head = record
                            return
                        self.offset += 1
                    if resting <= 0:
                        resting = SLICE
                        yield None
                        if self._budget.spent():
                            return
            except ApiError as error:
                self._budget.note(self.partition, self.offset, error)
            if self._header is not None:
                self.offset = max(self.offset, self._header.last_offset + 1)
            if self.offset >= self.end or self._budget.spent():
                return
            yield None
            yield from self._open_batch()

    def take(self) -> FoundRecord:
        """Return the record at `head` and step over it. Raises ApiError CORRUPT_MESSAGE for its headers."""
        record, header = self.head, self._header
        assert record is not None and header is not None
        self.head = None
        self.offset = record.offset + 1
        count, headers = header_spans(self._data, record, MAX_HEADERS)
        found = FoundRecord(
            self.partition,
            record.offset,
            record.timestamp,
            self._cut(record.key),
            self._cut(record.value),
            tuple((self._kept(name), self._cut(value)) for name, value in headers),
            count,
            header.uses_append_time,
            header.attributes & TRANSACTIONAL_FLAG != 0,
        )
        if found.is_transactional:
            self._unfinished.setdefault(header.producer_id, []).append(found)
        return found

    def _open_batch(self) -> Slices[None]:
        """Read the batch with `offset`, or the first one after it."""
        self._records, self._header = iter(()), None
        try:
            if not self._is_at_batch() and not (yield from self._read_chunk()):
                self.offset = self.end
                return
            header = self._header = header_at(self._chunk, self._at)
            batch = memoryview(self._chunk)[self._at : self._at + header.size]
            self._at += header.size
            self._budget.read_records += header.record_count
            self._data = yield from unpacked(batch)
        except (ApiError, OSError) as error:
            self._budget.note(self.partition, self.offset, error)
            if self._header is None:
                self.offset = self.end  # the log itself cannot be read
            return
        self._budget.read_bytes += len(self._data)
        if header.is_control:
            self._end_transaction(header)
        elif self._may_have_wanted():
            self._records = record_spans(header, self._data)

    def _is_at_batch(self) -> bool:
        """Whether the chunk has another whole batch."""
        left = len(self._chunk) - self._at
        return left >= HEADER_BYTES and HEADER_BYTES <= header_at(self._chunk, self._at).size <= left

    def _read_chunk(self) -> Slices[bool]:
        """Read from `offset` on. Returns False if there is nothing. Raises ApiError, OSError."""
        log = self._log
        if log is None:
            return False
        start = log.past_gap(max(self.offset, log.log_start_offset))
        if start >= self.end:
            return False
        self.offset = start
        self._chunk, self._at = (yield from log.chunk(start, CHUNK)), 0
        if self._chunk and not self._is_at_batch():
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"The batch at offset {start} has an impossible length")
        return bool(self._chunk)

    def _end_transaction(self, header: BatchHeader) -> None:
        """Mark the found records of the transaction that this control batch ends as aborted, if it aborts."""
        ended = self._unfinished.pop(header.producer_id, ())
        record = next(record_spans(header, self._data), None)
        if record is not None and record.key is not None:
            kind = bytes(self._data[record.key[0] + 2 : record.key[0] + 4])
            for found in ended if kind == _ABORT else ():
                found.is_aborted = True

    def _may_have_wanted(self) -> bool:
        """Whether the batch can have a wanted record: most batches of a search have none."""
        if len(self._data) > SEARCHED_AT_ONCE:
            return True
        return all(each is None or each.search(self._data) for each in (self._key, self._needle))

    def _is_wanted(self, record: RecordSpans) -> Slices[bool]:
        key = self._wanted.key
        if key is not None:
            span = record.key
            if span is None or span[1] - span[0] != len(key) or bytes(self._bytes(span)) != key:
                return False
        if self._needle is not None:
            for span in (record.key, record.value, (record.headers, record.end)):
                if span is not None and (yield from self._has_needle(*span)):
                    break
            else:
                return False
        return self._wanted.condition is None or (yield from self._holds(self._wanted.condition, record))

    def _holds(self, condition: Condition, record: RecordSpans) -> Slices[bool]:
        key, value = self._short(record.key), self._short(record.value)
        self._parsed += PARSED_LEAST + len(value or b"")
        if self._parsed > PARSED_AT_ONCE:
            self._parsed = 0
            yield None
        return condition.holds(Sought(self.partition, record.offset, record.timestamp, key, value))

    def _short(self, span: Span | None) -> bytes | None:
        return None if span is None or span[1] - span[0] > MAX_JSON else bytes(self._bytes(span))

    def _has_needle(self, start: int, end: int) -> Slices[bool]:
        assert self._needle is not None and self._wanted.contains is not None
        overlap = len(self._wanted.contains) - 1
        for at in range(start, end, SEARCHED_AT_ONCE):
            if at > start:
                yield None
            if self._needle.search(self._data, at, min(end, at + SEARCHED_AT_ONCE + overlap)):
                return True
        return False

    def _bytes(self, span: Span) -> Buffer:
        return self._data[span[0] : span[1]]

    def _cut(self, span: Span | None) -> Cut | None:
        return None if span is None else self._kept(span)

    def _kept(self, span: Span) -> Cut:
        start, end = span
        kept = memoryview(self._data)[start : min(end, start + self._kept_bytes)]
        return Cut(end - start, kept if len(kept) > MAX_COPIED else bytes(kept))


def read_records(
    ranges: Sequence[Range],
    wanted: RecordFilter,
    limits: ReadLimits,
    now_ms: Callable[[], int],
    *,
    newest: bool = False,
) -> Slices[FoundRecords]:
    """Return the first wanted records of all ranges, by timestamp as far as each partition is sorted by it;
    with `newest` the last ones. `now_ms` is a monotonic clock.

    At a limit the result has what was found until then, and the positions at which another reading continues;
    each reading advances by at least one record or batch. An unreadable batch is skipped and named.
    """
    budget = _Budget(limits, now_ms)
    cursors = [_Cursor(part, wanted, limits.kept_bytes, budget) for part in ranges]
    found: deque[FoundRecord] = deque(maxlen=limits.records if newest else None)
    ready: list[tuple[int, int, _Cursor]] = []
    for number, cursor in enumerate(cursors):
        yield from cursor.advance()
        if cursor.head is not None:
            heappush(ready, (cursor.head.timestamp, number, cursor))
    stopped = (
        budget.spent() if any(each.head is None and each.offset < each.end for each in cursors) else None
    )
    copied = 0
    while ready:
        if stopped and found:
            break
        if not newest and len(found) >= limits.records:
            stopped = Stop.RECORDS
            break
        _, number, cursor = heappop(ready)
        try:
            found.append(cursor.take())
            copied += found[-1].kept_bytes
        except ApiError as error:
            budget.note(cursor.partition, cursor.offset - 1, error)
        yield from cursor.advance()
        if cursor.head is not None:
            heappush(ready, (cursor.head.timestamp, number, cursor))
        elif cursor.offset < cursor.end:
            stopped = budget.spent() or stopped
        if copied >= KEPT_AT_ONCE or len(found) % SLICE == 0:
            copied = 0
            yield None
    return FoundRecords(
        [each for each in found if not each.is_aborted],
        stopped or Stop.END,
        tuple(each.position for each in cursors),
        budget.read_records,
        budget.read_bytes,
        tuple(budget.unreadable),
    )

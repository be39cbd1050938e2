"""One partition's log: appends batches and reads slices (Kafka's UnifiedLog without replication).

Called by the Produce and Fetch handlers through the store, and by the services that own internal topics.
Independent of requests, tasks and clocks.

An append has two steps. `stage` checks a batch, assigns its offsets and queues it; `commit` writes the whole
queue with one system call and makes it visible to readers. In between, `next_offset` is ahead of
`high_watermark`. A failed commit is rolled back completely.
"""

from bisect import bisect_right
from operator import attrgetter
from typing import Final

from broker.config.sections.topics import TopicSettings
from broker.errors import ApiError, ErrorCode
from broker.log.checkpoints import OffsetFile
from broker.log.log_context import LogContext
from broker.log.marks import Mark
from broker.log.producers import TakenBatch, sequence_after
from broker.log.recovery import Loaded
from broker.log.segment import HalfWritten
from broker.log.segmented import Place, SegmentedLog
from broker.log.slice import CHECKED_ABOVE, EMPTY, FileSlice
from broker.log.staged import FailedAppend, Staged
from broker.records.compression import Codec
from broker.records.header import (
    APPEND_TIME_FLAG,
    CODEC_MASK,
    CONTROL_FLAG,
    LENGTH_OVERHEAD,
    PREFIX,
    TRANSACTIONAL_FLAG,
    HeaderFields,
    codec_of,
)
from broker.records.inspect import UNBOUNDED, RecordRules, check_records
from broker.records.rewrite import stamp_append_time, stamp_max_timestamp
from broker.records.slices import Slices, run_through
from broker.records.validate import check_batch

_SPECIAL_FLAGS: Final = APPEND_TIME_FLAG | CONTROL_FLAG | TRANSACTIONAL_FLAG
_MAX_RELATIVE_OFFSET: Final = 0x7FFF_FFFF
"""Largest distance of an offset from its segment's base offset: indexes store it in four bytes."""
_UNLIMITED: Final = 0x7FFF_FFFF_FFFF_FFFF
_UNKNOWN: Final = -2

INSPECTED_AT_ONCE: Final = 2_048
"""Records read between two commits without a pause; ours. They take a millisecond."""

BYTES_AS_A_RECORD: Final = 128
"""Compressed bytes that take as long to decompress as one record takes to read; ours."""

_base_offset = attrgetter("base_offset")
_write_prefix = PREFIX.pack_into


class PartitionLog(SegmentedLog):
    """A partition's log. Used only from the event loop's thread."""

    def __init__(self, place: Place, settings: TopicSettings, context: LogContext, loaded: Loaded) -> None:
        super().__init__(place, settings, context, loaded)
        self._staged: list[Staged] = []
        self._buffers: list[memoryview] = []
        self._repeats: list[Staged] = []
        self._staged_ms = 0
        self._end = self.segments[-1].size
        self._first_ms = _UNKNOWN
        self.configure(settings)

    def adopt(self, settings: TopicSettings) -> None:
        """Mark the log as claimed by an existing topic, so that retention applies to it."""
        self.adopted = True
        self.configure(settings)

    def configure(self, settings: TopicSettings) -> None:
        """Apply new settings from the next append on. Flush settings also apply to unflushed records."""
        self.settings = settings
        self._max_bytes = settings.max_message_bytes
        self._max_records = settings.max_message_records
        self._stamps = settings.uses_append_time
        self._ahead_ms = _UNLIMITED if self._stamps else settings.message_timestamp_after_max_ms
        bounded = settings.message_timestamp_before_max_ms < _UNLIMITED and not self._stamps
        if settings.compacts or bounded or settings.record_validation == "full":
            self.inspects_from = int(Codec.NONE)
        elif settings.record_validation == "compressed":
            self.inspects_from = int(Codec.GZIP)
        else:
            self.inspects_from = CODEC_MASK + 1
        self._flushes = settings.flush_ms < _UNLIMITED or settings.flush_messages < _UNLIMITED
        if self._flushes and self.high_watermark > self.recovery_point:
            self._note_unflushed()
        # The next append computes the limits of the active segment.
        self._roll_bytes = self._roll_ms = self._roll_offset = -1

    def stage(
        self,
        records: memoryview,
        *,
        now_wall_ms: int,
        leader_epoch: int = 0,
        internal: bool = False,
        inspected: bool = False,
    ) -> Staged:
        """Queue one batch for the next commit.

        Writes offset and epoch into the writable buffer, which the caller leaves unchanged until the commit.
        `inspected`: the caller has run `inspect` to its end if the batch needed it; otherwise `stage` does so
        in one go.

        Raises ApiError from records.validate, producers and the topic's settings; UNKNOWN_TOPIC_OR_PARTITION
        after the partition was deleted; KAFKA_STORAGE_ERROR when it is offline or a new segment cannot be
        created. The log is then unchanged.
        """
        if self.offline is not None or self.deleted:
            raise self.refusal()
        if not inspected and not internal and codec_of(records) >= self.inspects_from:
            run_through(self.inspect(records, now_wall_ms))
        header = check_batch(records, self._max_bytes, self._max_records)
        base_offset, length, _, _, _, attributes, delta, _, max_timestamp, producer_id, epoch, sequence, _ = (
            header
        )
        if base_offset or attributes & _SPECIAL_FLAGS or max_timestamp - now_wall_ms > self._ahead_ms:
            self._check_unusual(header, internal)
            self._check_latest(max_timestamp, now_wall_ms)
        if producer_id >= 0:
            taken = self.producers.check(producer_id, epoch, sequence, delta)
            if taken is not None:
                return self._repeat(taken)
        stamp = -1
        if self._stamps:
            stamp = max_timestamp = now_wall_ms
        size = length + LENGTH_OVERHEAD
        offset = self.next_offset
        last_offset = offset + delta
        if (
            self._end + size > self._roll_bytes
            or max_timestamp > self._roll_ms
            or last_offset > self._roll_offset
        ):
            self._make_space(size, max_timestamp, delta)
            offset = self.next_offset
            last_offset = offset + delta
        if stamp >= 0:
            stamp_append_time(records, stamp)
        _write_prefix(records, 0, offset, length, leader_epoch)
        if producer_id >= 0:
            last_sequence = sequence_after(sequence, delta)
            batch = TakenBatch(sequence, last_sequence, offset, last_offset, max_timestamp)
            self.producers.add(producer_id, epoch, batch, now_wall_ms)
        staged = Staged(offset, last_offset, self.log_start_offset, stamp, max_timestamp, size)
        if not self._staged:
            self._context.dirty.append(self)
            self._staged_ms = now_wall_ms
        self._staged.append(staged)
        self._buffers.append(records)
        self._end += size
        self.next_offset = last_offset + 1
        return staged

    def commit(self) -> bool:
        """Write the staged batches and return whether that succeeded.

        A failure is recorded in every Staged and in the store's list. Never raises.
        """
        staged, buffers = self._staged, self._buffers
        if not staged:
            return True
        self._staged, self._buffers = [], []
        segment = self.segments[-1]
        position = segment.size
        try:
            segment.append(buffers, staged, self.settings.index_interval_bytes)
        except HalfWritten as error:
            self._roll_back(staged, error)
            self.go_offline(error)
            return False
        except OSError as error:
            self._roll_back(staged, error)
            return False
        self.producers.settle()
        if self._repeats:
            self._repeats = []
        self.high_watermark = self.next_offset
        self.traffic.appends += len(staged)
        first = staged[0]
        self._context.appended_marks.add(
            self._appended_marks, first.base_offset, Mark(segment, position, first.size)
        )
        if segment.index_bytes >= self.settings.segment_index_bytes:
            self._roll_bytes = -1
        if self._flushes:
            self._note_unflushed()
        return True

    def read(self, offset: int, max_bytes: int, *, min_one_batch: bool) -> FileSlice:
        """Return bytes from the batch that holds `offset` on, at most `max_bytes`.

        The last batch may be cut off. When the first batch is larger than `max_bytes`: that batch alone,
        whole, with `min_one_batch`, else nothing. At the high watermark: nothing. Returns fewer bytes if the
        page cache lacks them (`check_readable`). Raises ApiError: OFFSET_OUT_OF_RANGE,
        UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR.
        """
        mark = self._read_marks.get(offset) or self._appended_marks.get(offset)
        if mark is None:
            return self._read_found(offset, max_bytes, min_one_batch)
        segment, position, batch_bytes = mark
        length = segment.size - position
        if length > max_bytes:
            length = max_bytes
        if length < batch_bytes:
            if not min_one_batch:
                return EMPTY
            length = batch_bytes
        context = self._context
        try:
            if segment.verified.doubtful:
                _, length = segment.verified.clip(segment, position, length)
            found = FileSlice(context.files.get(segment.path), position, length, context.transfer, self)
            if length > CHECKED_ABOVE:
                found.check_readable(batch_bytes)
        except OSError as error:
            raise self.unreadable(error) from error
        return found

    def _read_found(self, offset: int, max_bytes: int, min_one_batch: bool) -> FileSlice:
        """`read` for an offset without a cached position.

        The page cache may lack even a small slice of it.
        """
        if self._find(offset) is None:
            return EMPTY
        found = self.read(offset, max_bytes, min_one_batch=min_one_batch)
        if 0 < len(found) <= CHECKED_ABOVE:
            self.check_lent(found)
        return found

    def check_lent(self, lent: FileSlice) -> None:
        """Check a small slice before its response is sent, so that a disk error is known in time.

        Raises ApiError KAFKA_STORAGE_ERROR.
        """
        try:
            lent.check_readable(len(lent))
        except OSError as error:
            raise self.unreadable(error) from error

    def _find(self, offset: int) -> Mark | None:
        if self.offline is not None or self.deleted:
            raise self.refusal()
        if not self.log_start_offset <= offset <= self.high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is out of range: expected {self.log_start_offset} to {self.high_watermark}",
            )
        if offset == self.high_watermark:
            return None
        for gap in self.gaps:
            if gap.start <= offset < gap.end:
                words = f"the records from {gap.start} to {gap.end} are missing"
                raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, words)
        segments = self.segments
        try:
            for segment in segments[max(bisect_right(segments, offset, key=_base_offset) - 1, 0) :]:
                found = segment.locate(offset)
                if found is not None:
                    mark = Mark(segment, *found)
                    self._context.read_marks.add(self._read_marks, offset, mark)
                    return mark
        except OSError as error:
            raise self.unreadable(error) from error
        return None

    def delete(self) -> None:
        """Refuse all further use and fail the staged batches. The store removes the files."""
        for each in (*self._staged, *self._repeats):
            each.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self._staged, self._buffers, self._repeats = [], [], []
        super().delete()

    def _repeat(self, taken: TakenBatch) -> Staged:
        stamp = taken.max_timestamp if self._stamps else -1
        start = self.log_start_offset
        staged = Staged(taken.base_offset, taken.last_offset, start, stamp, taken.max_timestamp, 0, True)
        if taken.base_offset >= self.high_watermark:
            # The original batch is still staged: both succeed or both fail.
            self._repeats.append(staged)
        return staged

    def _check_unusual(self, header: HeaderFields, internal: bool) -> None:
        base_offset, attributes = header[0], header[5]
        if base_offset != 0:
            raise ApiError(
                ErrorCode.INVALID_RECORD,
                f"The base offset of a produced batch should be 0, but it is {base_offset}",
            )
        if attributes & APPEND_TIME_FLAG:
            raise ApiError(
                ErrorCode.INVALID_TIMESTAMP,
                "Producers are not allowed to set the timestamp type LogAppendTime",
            )
        if attributes & CONTROL_FLAG and not internal:
            raise ApiError(ErrorCode.INVALID_RECORD, "Clients are not allowed to write control records")
        if attributes & TRANSACTIONAL_FLAG and not internal:
            raise ApiError(ErrorCode.INVALID_TXN_STATE, "No transaction is ongoing for this producer")

    def _check_latest(self, max_timestamp: int, now_wall_ms: int) -> None:
        if max_timestamp - now_wall_ms > self._ahead_ms:
            raise ApiError(
                ErrorCode.INVALID_TIMESTAMP,
                f"Timestamp {max_timestamp} is more than {self._ahead_ms} ms ahead of the broker's clock",
            )

    def inspect(self, records: memoryview, now_wall_ms: int) -> Slices[None]:
        """Check every record of a batch before `stage`.

        Required if the batch's codec is at least `inspects_from`. Writes the largest record timestamp into
        the writable batch where its header differs, as Kafka does, and changes nothing else. Raises ApiError
        from records.validate and records.inspect.

        Starts with a pause if many records were read since the last commit, so that the batches of one event
        loop turn do not delay other tasks.
        """
        header = check_batch(records, self._max_bytes, self._max_records)
        if header[0] or header[5] & _SPECIAL_FLAGS:
            self._check_unusual(header, internal=False)
        context = self._context
        if context.inspected > INSPECTED_AT_ONCE:
            yield None
        context.inspected += header[12] + len(records) // BYTES_AS_A_RECORD
        settings = self.settings
        earliest_ms, latest_ms = -UNBOUNDED, UNBOUNDED
        if not self._stamps:
            earliest_ms = now_wall_ms - settings.message_timestamp_before_max_ms
            latest_ms = min(now_wall_ms + self._ahead_ms, _UNLIMITED)
        rules = RecordRules(settings.compacts, earliest_ms, latest_ms, settings.max_message_records)
        largest = yield from check_records(records, rules)
        if largest != header[8] and not self._stamps:
            stamp_max_timestamp(records, largest)

    def _make_space(self, size: int, max_timestamp: int, delta: int) -> None:
        """Roll if the active segment cannot take the batch. Raises ApiError."""
        settings = self.settings
        if size > settings.segment_bytes:
            raise ApiError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"A batch of {size} bytes does not fit into a segment of {settings.segment_bytes}",
            )
        active = self.segments[-1]
        try:
            active.prepare()
            if self._end and self._first_ms == _UNKNOWN:
                first = next(active.batches(), None)
                self._first_ms = max_timestamp if first is None else first.header.max_timestamp
        except OSError as error:
            raise self.unreadable(error) from error
        if self._end == 0:
            self._first_ms = max_timestamp
        self._roll_bytes = settings.segment_bytes
        self._roll_ms = self._first_ms + settings.segment_ms if self._first_ms >= 0 else _UNLIMITED
        self._roll_offset = active.base_offset + _MAX_RELATIVE_OFFSET
        if self._end and (
            active.index_bytes >= settings.segment_index_bytes
            or self._end + size > self._roll_bytes
            or max_timestamp > self._roll_ms
            or self.next_offset + delta > self._roll_offset
        ):
            self.roll()
            self._make_space(size, max_timestamp, delta)

    def roll(self) -> None:
        """Write the staged batches, close the active segment and open the next one.

        Raises ApiError KAFKA_STORAGE_ERROR.
        """
        if not self.commit():
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "Earlier batches could not be written")
        if self.segments[-1].size:
            super().roll()
            self._end = 0
            self._first_ms = _UNKNOWN
            self._roll_bytes = -1

    def _roll_back(self, staged: list[Staged], error: OSError) -> None:
        for each in (*staged, *self._repeats):
            each.error = ErrorCode.KAFKA_STORAGE_ERROR
        self._repeats = []
        self.producers.undo()
        self.next_offset = self.high_watermark
        self._end = self.segments[-1].size
        self._roll_bytes = -1
        self._first_ms = _UNKNOWN
        self._context.failed.append(FailedAppend(self, staged, error))

    def move_to(self, directory: str, starts: OffsetFile, flushed_offset: int) -> None:
        super().move_to(directory, starts, flushed_offset)
        if self._flushes and self.high_watermark > self.recovery_point:
            self._note_unflushed()

    def _note_unflushed(self) -> None:
        context, settings = self._context, self.settings
        context.unflushed.setdefault(self, self._staged_ms)
        if self.high_watermark - self.recovery_point >= settings.flush_messages:
            context.overdue[self] = None

    def slice_failed(self, error: OSError) -> None:
        """Count a slice whose bytes could not be read while its response was sent.

        Rare, because `read` reads large slices ahead if they are not in the page cache.
        """
        self.traffic.failed_reads += 1
        self.unreadable(error)

    def go_offline(self, error: OSError) -> None:
        for each in (*self._staged, *self._repeats):
            each.error = ErrorCode.KAFKA_STORAGE_ERROR
        self._staged, self._buffers, self._repeats = [], [], []
        self.next_offset = self.high_watermark
        super().go_offline(error)

"""One partition's log: appends batches, reads slices and manages its segments. (Kafka: UnifiedLog without
replication)

Called by the Produce and Fetch handlers through the store, and by the services that own internal topics.
Independent of requests, tasks and clocks.

An append has two steps. `stage` checks a batch, assigns its offsets and queues it; `commit` writes the whole
queue with one system call and makes it visible to readers. In between, `next_offset` is ahead of
`high_watermark`. A failed commit is rolled back completely.

`last_stable_offset` is the first offset of the ongoing transactions, or the high watermark without any:
readers of committed records read up to there.
"""

import contextlib
import os
import random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from errno import EMFILE, ENFILE, ENOMEM
from operator import attrgetter
from typing import Final, NamedTuple

from broker.common.errors import ApiError, ErrorCode, HalfWritten
from broker.common.slices import SLICE, Slices, run_through
from broker.config.sections.topics import TopicSettings
from broker.log import disk, retention, timestamps
from broker.log.aborted_transactions import AbortedTransaction
from broker.log.background_jobs import Flush
from broker.log.checkpoints import OffsetFile
from broker.log.index import MAX_RELATIVE_OFFSET
from broker.log.layout import DELETED, SNAPSHOT, SWAP, segment_file
from broker.log.log_context import LogContext
from broker.log.producer_state import BatchMetadata, sequence_after, snapshot
from broker.log.recovery import Loaded
from broker.log.segment import CachedPosition, Segment
from broker.log.slice import EMPTY, MAX_UNCHECKED_BYTES, FileSlice
from broker.log.staged import FailedAppend, Staged
from broker.records.compression import Codec
from broker.records.control import Marker, build_marker
from broker.records.header import (
    CODEC_MASK,
    LENGTH_OVERHEAD,
    PREFIX,
    TRANSACTIONAL_FLAG,
    codec_of,
    stamp_append_time,
    stamp_max_timestamp,
)
from broker.records.inspect import UNBOUNDED, RecordRules, check_records
from broker.records.packing import repacked
from broker.records.validate import SPECIAL_FLAGS, check_batch, check_flags

OUT_OF_RESOURCES: Final = frozenset({EMFILE, ENFILE, ENOMEM})
"""Errors of opening and reading that do not indicate a disk failure."""

_UNLIMITED: Final = 0x7FFF_FFFF_FFFF_FFFF
_UNKNOWN: Final = -2

MAX_INSPECTED_RECORDS: Final = 2_048
"""Records read between two commits without a pause; ours. They take a millisecond."""

RETIRED_AT_ONCE: Final = 16
"""Segments that `retire` removes at once; each has three files to rename."""

BYTES_PER_RECORD: Final = 128
"""Compressed bytes that take as long to decompress as one record takes to read; ours."""

_base_offset = attrgetter("base_offset")
_write_prefix = PREFIX.pack_into


class LogLocation(NamedTuple):
    """Identity and location of a partition's log.

    `topic_id` has 16 bytes; `starts` holds the log start offsets of the log directory that contains
    `directory`.
    """

    topic: str
    partition: int
    topic_id: bytes
    directory: str
    starts: OffsetFile


class PartitionMetrics:
    """Counters of a partition since its log was opened. (Kafka: BrokerTopicMetrics)

    Appenders and readers increment them; `partitions.partitions` exports them. `appends` counts batches
    written, `failed_appends` batches that were refused or could not be written, `reads` fetch reads,
    `failed_reads` fetch reads that failed through the broker's fault. The log derives records and bytes in
    from its offsets and sizes.
    """

    __slots__ = ("appends", "bytes_out", "failed_appends", "failed_reads", "reads")

    def __init__(self) -> None:
        self.appends = 0
        self.failed_appends = 0
        self.reads = 0
        self.failed_reads = 0
        self.bytes_out = 0


class PartitionLog:
    """A partition's log. Used only from the event loop's thread.

    `high_watermark`: one past the last record that is visible to readers, which is the log end offset.
    `recovery_point`: this process has flushed everything before it. `gaps` are reported until the log start
    offset passes them.
    """

    def __init__(
        self, place: LogLocation, settings: TopicSettings, context: "LogContext[PartitionLog]", loaded: Loaded
    ) -> None:
        self.topic, self.index, self.topic_id, self.directory, self._starts = place
        self.segments = loaded.segments
        self.producers = loaded.producers
        self.log_start_offset = loaded.log_start_offset
        self.high_watermark = loaded.end_offset
        self.next_offset = loaded.end_offset
        self.last_stable_offset = loaded.end_offset
        self.has_aborted = False
        """Whether a segment has an aborted transaction."""
        self._aborted: list[AbortedTransaction] = []
        """Those whose markers are staged."""
        self.recovery_point = loaded.recovery_point
        self.has_new_names = loaded.is_new
        self.offline: OSError | None = None
        self.deleted = False
        self.adopted = False
        self.metrics = PartitionMetrics()
        self._context = context
        self._read_positions: dict[int, CachedPosition] = {}
        self._appended_positions: dict[int, CachedPosition] = {}
        self._snapshot_at = loaded.snapshot_at
        self._end_at_opening = loaded.end_offset
        self.gaps = list(loaded.gaps)
        if self.gaps:
            context.gapped[self] = None
        self.bytes_before = self.size
        """Size at opening, less the bytes that retention has removed since."""
        self._staged: list[Staged] = []
        self._buffers: list[memoryview] = []
        self._duplicates: list[Staged] = []
        self._staged_ms = 0
        self._staged_end = self.segments[-1].size
        self._first_ms = _UNKNOWN
        self._jitter = random.random()  # noqa: S311 - spreads the rolls of logs
        self._note_stable()
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
        self._uses_append_time = settings.uses_append_time
        self._max_ahead_ms = _UNLIMITED if self._uses_append_time else settings.message_timestamp_after_max_ms
        bounded = settings.message_timestamp_before_max_ms < _UNLIMITED and not self._uses_append_time
        if settings.compacts or bounded or settings.recompresses or settings.record_validation == "full":
            self.inspects_from = int(Codec.NONE)
        elif settings.record_validation == "compressed" or settings.limits_records:
            self.inspects_from = int(Codec.GZIP)
        else:
            self.inspects_from = CODEC_MASK + 1
        self._flushes = settings.flush_ms < _UNLIMITED or settings.flush_messages < _UNLIMITED
        self._note_unflushed()
        # The next append computes the limits of the active segment.
        self._roll_bytes = self._roll_ms = self._roll_offset = -1

    @property
    def size(self) -> int:
        """Bytes of records."""
        return sum(segment.size for segment in self.segments)

    @property
    def messages_in(self) -> int:
        """Offsets assigned since the log was opened."""
        return self.high_watermark - self._end_at_opening

    @property
    def bytes_in(self) -> int:
        """Bytes written since the log was opened."""
        return self.size - self.bytes_before

    @property
    def last_append_ms(self) -> int | None:
        """When the last batch was staged, by the wall clock; None: not since the log was opened."""
        return self._staged_ms or None

    @property
    def missing(self) -> int:
        """Number of offsets whose records are missing."""
        return sum(gap.end - gap.start for gap in self.gaps)

    def past_gap(self, offset: int) -> int:
        """Return the end of the gap that contains `offset`, or `offset` itself."""
        return next((gap.end for gap in self.gaps if gap.start <= offset < gap.end), offset)

    def _forget_passed_gaps(self) -> None:
        if self.gaps:
            self.gaps = [gap for gap in self.gaps if gap.end > self.log_start_offset]
            if not self.gaps:
                self._context.gapped.pop(self, None)

    def stage(
        self,
        records: memoryview,
        now_wall_ms: int,
        inspected: bool = False,
        internal: bool = False,
        leader_epoch: int = 0,
        transactional: bool = False,
        marker: Marker | None = None,
    ) -> Staged:
        """Queue one batch for the next commit.

        Writes offset and epoch into the writable buffer, which the caller leaves unchanged until the commit.
        `inspected`: the caller has run `inspect` to its end if the batch needed it; otherwise `stage` does so
        in one go. `transactional`: the partition belongs to the transaction of the batch's producer.
        `marker`: what the batch is, see `stage_marker`.

        Raises ApiError from records.validate, producers and the topic's settings; UNKNOWN_TOPIC_OR_PARTITION
        after the partition was deleted; KAFKA_STORAGE_ERROR when it is offline or a new segment cannot be
        created. The log is then unchanged.
        """
        if self.offline is not None or self.deleted:
            raise self.refusal()
        if not inspected and not internal and codec_of(records) >= self.inspects_from:
            records = run_through(self.inspect(records, now_wall_ms, transactional))
        header = check_batch(records, self._max_bytes, _UNLIMITED if internal else self._max_records)
        base_offset, length, _, _, _, attributes, delta, _, max_timestamp, producer_id, epoch, sequence, _ = (
            header
        )
        if base_offset or attributes & SPECIAL_FLAGS or max_timestamp - now_wall_ms > self._max_ahead_ms:
            check_flags(header, internal=internal, transactional=transactional)
            self._check_latest(records, header[12], max_timestamp, now_wall_ms)
        if producer_id >= 0:
            in_transaction = attributes & TRANSACTIONAL_FLAG != 0
            if marker is not None:
                self.producers.check_end(producer_id, epoch, marker)
            elif internal:
                self.producers.check_epoch(producer_id, epoch)
            else:
                original = self.producers.check(producer_id, epoch, sequence, delta, in_transaction)
                if original is not None:
                    return self._duplicate_of(original)
        stamp = -1
        if self._uses_append_time:
            stamp = max_timestamp = now_wall_ms
        size = length + LENGTH_OVERHEAD
        offset = self.next_offset
        last_offset = offset + delta
        if (
            self._staged_end + size > self._roll_bytes
            or max_timestamp > self._roll_ms
            or last_offset > self._roll_offset
        ):
            try:
                self._make_space(size, max_timestamp, delta)
            except ApiError as error:
                if producer_id >= 0 and error.code == ErrorCode.KAFKA_STORAGE_ERROR:
                    self.producers.refuse(producer_id, epoch, sequence)
                raise
            offset = self.next_offset
            last_offset = offset + delta
        if stamp >= 0:
            stamp_append_time(records, stamp)
        _write_prefix(records, 0, offset, length, leader_epoch)
        if producer_id >= 0:
            if marker is not None:
                self._end_transaction(marker, producer_id, epoch, offset, now_wall_ms)
            else:
                last_sequence = sequence_after(sequence, delta)
                batch = BatchMetadata(sequence, last_sequence, offset, last_offset, max_timestamp)
                self.producers.add(producer_id, epoch, batch, now_wall_ms, in_transaction)
        staged = Staged(offset, last_offset, self.log_start_offset, stamp, max_timestamp, size)
        if not self._staged:
            self._context.dirty.append(self)
            self._staged_ms = now_wall_ms
        self._staged.append(staged)
        self._buffers.append(records)
        self._staged_end += size
        self.next_offset = last_offset + 1
        return staged

    def stage_marker(self, marker: Marker, producer_id: int, epoch: int, now_wall_ms: int) -> Staged:
        """Queue the marker that ends a producer's transaction; without records of it, it only sets the epoch.

        Raises ApiError: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, and those of `stage`.
        """
        records = build_marker(marker, producer_id, epoch, now_wall_ms)
        return self.stage(records, now_wall_ms, internal=True, marker=marker)

    def _end_transaction(
        self, marker: Marker, producer_id: int, epoch: int, offset: int, now_wall_ms: int
    ) -> None:
        first = self.producers.end(producer_id, epoch, marker.coordinator_epoch, now_wall_ms)
        if first >= 0 and not marker.is_commit:
            self._aborted.append(
                AbortedTransaction(producer_id, first, offset, self._stable_before(offset + 1))
            )

    def may_roll(self, size: int, now_wall_ms: int) -> bool:
        """Return whether staging `size` bytes now may close the active segment."""
        return self._staged_end + size > self._roll_bytes or now_wall_ms > self._roll_ms

    def inspect(
        self, records: memoryview, now_wall_ms: int, transactional: bool = False
    ) -> Slices[memoryview]:
        """Check every record of a batch before `stage`, and return the batch to stage.

        Required if the batch's codec is at least `inspects_from`. Writes the largest record timestamp into
        the writable batch where its header differs, as Kafka does, and changes nothing else. Where
        `compression.type` asks for another codec, the returned batch is a new one. Raises ApiError from
        records.validate and records.inspect.

        Starts with a pause if many records were read since the last commit, so that the batches of one event
        loop turn do not delay other tasks.
        """
        header = check_batch(records, self._max_bytes, self._max_records)
        if header[0] or header[5] & SPECIAL_FLAGS:
            check_flags(header, internal=False, transactional=transactional)
        context = self._context
        if context.inspected > MAX_INSPECTED_RECORDS:
            yield None
        context.inspected += header[12] + len(records) // BYTES_PER_RECORD
        settings = self.settings
        earliest_ms, latest_ms = -UNBOUNDED, UNBOUNDED
        if not self._uses_append_time:
            earliest_ms = now_wall_ms - settings.message_timestamp_before_max_ms
            latest_ms = min(now_wall_ms + self._max_ahead_ms, _UNLIMITED)
        rules = RecordRules(
            settings.compacts,
            earliest_ms,
            latest_ms,
            settings.max_message_records,
            settings.max_decompressed_message_bytes,
        )
        largest = yield from check_records(records, rules)
        if largest != header[8] and not self._uses_append_time:
            stamp_max_timestamp(records, largest)
        codec = settings.codec_for(header[5] & CODEC_MASK)
        if codec == header[5] & CODEC_MASK:
            return records
        return (yield from repacked(records, codec, settings.compression_level))

    def _check_latest(self, records: memoryview, count: int, max_timestamp: int, now_wall_ms: int) -> None:
        if max_timestamp - now_wall_ms > self._max_ahead_ms:
            if count <= SLICE:  # names the records; more would take too long
                run_through(self.inspect(records, now_wall_ms, transactional=True))
            raise ApiError(
                ErrorCode.INVALID_TIMESTAMP,
                f"Timestamp {max_timestamp} is more than {self._max_ahead_ms} ms ahead of the broker's clock",
            )

    def _duplicate_of(self, original: BatchMetadata) -> Staged:
        staged = Staged(
            original.base_offset,
            original.last_offset,
            self.log_start_offset,
            original.max_timestamp,  # whatever message.timestamp.type is, as in Kafka
            original.max_timestamp,
            size=0,
            duplicate=True,
        )
        if original.base_offset >= self.high_watermark:
            # The original batch is still staged: both succeed or both fail.
            self._duplicates.append(staged)
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
        if self._duplicates:
            self._duplicates = []
        self.high_watermark = self.last_stable_offset = self.next_offset
        if self.producers.ongoing:
            self.last_stable_offset = self._stable_before(self.next_offset)
        if self._aborted:
            self._keep_aborted(segment)
        self.metrics.appends += len(staged)
        first = staged[0]
        self._context.appended_positions.add(
            self._appended_positions, first.base_offset, CachedPosition(segment, position, first.size)
        )
        if segment.index_bytes >= self.settings.segment_index_bytes:
            self._roll_bytes = -1
        if self._flushes:
            self._note_unflushed()
        return True

    def _keep_aborted(self, segment: Segment) -> None:
        """Add the aborted transactions of written markers to the index of their segment."""
        aborted, self._aborted = self._aborted, []
        for each in aborted:
            segment.aborted.append(each)
        self.has_aborted = True
        with contextlib.suppress(OSError):  # `seal` writes them again
            segment.aborted.spill()

    def _stable_before(self, end: int) -> int:
        """Return the last stable offset of the log if it ends at `end`."""
        first = self.producers.first_ongoing
        if first < 0:
            return end
        return first if first > self.log_start_offset else self.log_start_offset

    def _note_stable(self) -> None:
        """Note what readers of committed records must know, after the producers or the segments changed."""
        self.last_stable_offset = self._stable_before(self.high_watermark)
        self.has_aborted = any(len(each.aborted) for each in self.segments)

    def _roll_back(self, staged: list[Staged], error: OSError) -> None:
        self._context.failures += 1
        for each in (*staged, *self._duplicates):
            each.error = ErrorCode.KAFKA_STORAGE_ERROR
        self._duplicates, self._aborted = [], []
        self.producers.undo()
        self.next_offset = self.high_watermark
        self._staged_end = self.segments[-1].size
        self._roll_bytes = -1
        self._first_ms = _UNKNOWN
        self._context.failed.append(FailedAppend(self, staged, error))

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
            if self._staged_end and self._first_ms == _UNKNOWN:
                first = next(active.batches(), None)
                self._first_ms = max_timestamp if first is None else first.header.max_timestamp
        except OSError as error:
            raise self.unreadable(error) from error
        if self._staged_end == 0:
            self._first_ms = max_timestamp
        self._roll_bytes = settings.segment_bytes
        self._roll_ms = _UNLIMITED
        if self._first_ms >= 0:
            jitter_ms = int(self._jitter * min(settings.segment_jitter_ms, settings.max_segment_ms))
            self._roll_ms = self._first_ms + settings.max_segment_ms - jitter_ms
        self._roll_offset = active.base_offset + MAX_RELATIVE_OFFSET
        if self._staged_end and (
            active.index_bytes >= settings.segment_index_bytes
            or self._staged_end + size > self._roll_bytes
            or max_timestamp > self._roll_ms
            or self.next_offset + delta > self._roll_offset
        ):
            self.roll()
            self._make_space(size, max_timestamp, delta)

    def roll(self) -> None:
        """Write the staged batches, close the active segment if it has records, and open the next one.

        Raises ApiError KAFKA_STORAGE_ERROR and then leaves the active segment as it is.
        """
        if not self.commit():
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "Earlier batches could not be written")
        active = self.segments[-1]
        if not active.size:
            return
        try:
            active.seal()
            self._write_snapshot()
            fresh = Segment(self._context.files, self.directory, self.high_watermark)
            fresh.open(make=True)
        except OSError as error:
            raise storage_error(error) from error
        self.segments.append(fresh)
        self._context.rolls += 1
        self._jitter = random.random()  # noqa: S311
        self.has_new_names = True
        self._context.rolled[self] = None
        self._staged_end = 0
        self._first_ms = _UNKNOWN
        self._roll_bytes = -1

    def _write_snapshot(self) -> None:
        offset = self.high_watermark
        if offset != self._snapshot_at:
            disk.replace_file(
                os.path.join(self.directory, segment_file(offset, SNAPSHOT)), snapshot(self.producers)
            )
            self._snapshot_at = offset

    def chunk(self, offset: int, max_bytes: int) -> Slices[bytes]:
        """Return the bytes that `read` finds, with `min_one_batch`. For `record_reader`."""
        yield from ()
        return self.read(offset, max_bytes, min_one_batch=True).read()

    def read(self, offset: int, max_bytes: int, *, min_one_batch: bool) -> FileSlice:
        """Return bytes from the batch that holds `offset` on, at most `max_bytes`.

        The last batch may be cut off. When the first batch is larger than `max_bytes`: that batch alone,
        whole, with `min_one_batch`, else nothing. At the high watermark: nothing. Returns fewer bytes if the
        page cache lacks them (`check_readable`). Raises ApiError: OFFSET_OUT_OF_RANGE,
        UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR.
        """
        cached = self._read_positions.get(offset) or self._appended_positions.get(offset)
        if cached is None:
            return self._read_found(offset, max_bytes, min_one_batch)
        segment, position, batch_bytes = cached
        length = segment.size - position
        if length > max_bytes:
            length = max_bytes
        if length < batch_bytes:
            if not min_one_batch:
                return EMPTY
            length = batch_bytes
        context = self._context
        try:
            if segment.verified.needs_clipping:
                _, length = segment.verified.clip(segment, position, length)
            found = FileSlice(context.files.get(segment.path), position, length, context.transfer, self)
            if length > MAX_UNCHECKED_BYTES:
                found.check_readable(batch_bytes)
        except OSError as error:
            raise self.unreadable(error) from error
        return found

    def read_committed(self, offset: int, max_bytes: int, *, min_one_batch: bool) -> FileSlice:
        """`read` up to the last stable offset. (Kafka: FetchIsolation.TXN_COMMITTED)"""
        end = self.last_stable_offset
        if end == self.high_watermark or not self.log_start_offset <= offset <= self.high_watermark:
            return self.read(offset, max_bytes, min_one_batch=min_one_batch)
        self.check_usable()
        if offset >= end:
            return EMPTY
        bound, start = self._position_of(end), self._position_of(offset)
        if bound is None or start is None:
            return EMPTY
        if bound.segment is start.segment:
            max_bytes = min(max_bytes, bound.position - start.position)
        return self.read(offset, max_bytes, min_one_batch=min_one_batch)

    def aborted_in(self, offset: int, size: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with records in the `size` bytes that were read at `offset`.

        May return some that begin after them. Raises ApiError KAFKA_STORAGE_ERROR.
        """
        found: list[AbortedTransaction] = []
        start = self._position_of(offset) if self.has_aborted and size else None
        if start is None:
            return found
        segment = start.segment
        try:
            indexed_to = segment.indexed_offset_from(start.position + size)
        except OSError as error:
            raise self.unreadable(error) from error
        at = self.segments.index(segment)
        end = self.last_stable_offset
        if indexed_to is not None:
            end = min(end, indexed_to)
        elif at + 1 < len(self.segments):
            end = min(end, self.segments[at + 1].base_offset)
        for each in self.segments[at:]:
            some, is_complete = each.aborted.overlapping(offset, end)
            found += some
            if is_complete:
                break
        return found

    def _position_of(self, offset: int) -> CachedPosition | None:
        return self._read_positions.get(offset) or self._appended_positions.get(offset) or self._find(offset)

    def _read_found(self, offset: int, max_bytes: int, min_one_batch: bool) -> FileSlice:
        """`read` for an offset without a cached position.

        The page cache may lack even a small slice of it.
        """
        if self._find(offset) is None:
            return EMPTY
        found = self.read(offset, max_bytes, min_one_batch=min_one_batch)
        if 0 < len(found) <= MAX_UNCHECKED_BYTES:
            self.check_readable(found)
        return found

    def _find(self, offset: int) -> CachedPosition | None:
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
                raise ApiError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"the records from {gap.start} to {gap.end} are missing",
                )
        segments = self.segments
        first = max(bisect_right(segments, offset, key=_base_offset) - 1, 0)
        try:
            for segment in segments[first:]:
                found = segment.locate(offset)
                if found is not None:
                    cached = CachedPosition(segment, *found)
                    self._context.read_positions.add(self._read_positions, offset, cached)
                    return cached
        except OSError as error:
            raise self.unreadable(error) from error
        return None

    def check_readable(self, records: FileSlice) -> None:
        """Check a small slice before its response is sent, so that a disk error is known in time.

        Raises ApiError KAFKA_STORAGE_ERROR.
        """
        try:
            records.check_readable(len(records))
        except OSError as error:
            raise self.unreadable(error) from error

    def slice_failed(self, error: OSError) -> None:
        """Count a slice whose bytes could not be read while its response was sent.

        Rare, because `read` reads large slices ahead if they are not in the page cache.
        """
        self.metrics.failed_reads += 1
        self.unreadable(error)

    def offset_for_timestamp(self, timestamp: int) -> Slices[tuple[int, int] | None]:
        """Find (offset, timestamp) of the first record with at least this timestamp. Raises ApiError."""
        return self._lookup(
            lambda segments: timestamps.first_at_or_after(segments, timestamp, self.log_start_offset)
        )

    def max_timestamp(self) -> Slices[tuple[int, int] | None]:
        """Find (offset, timestamp) of the record with the greatest timestamp; None if no record has one.

        Raises ApiError.
        """
        return self._lookup(timestamps.newest)

    def _lookup(
        self, search: Callable[[Sequence[Segment]], Slices[tuple[int, int] | None]]
    ) -> Slices[tuple[int, int] | None]:
        while True:
            self.check_usable()
            segments = tuple(self.segments)
            try:
                return (yield from search(segments))
            except OSError as error:
                self.check_usable()
                if set(segments) <= set(self.segments):
                    raise self.unreadable(error) from error
                # Retention removed a segment between two slices; search again.

    def delete_records_before(self, offset: int) -> int:
        """Advance the log start offset and return the low watermark.

        The offset is saved in the page cache: it survives the process, and a power loss once the next
        checkpoint has flushed it, at most log.flush.offset.checkpoint.interval.ms later. Kafka saves it only
        then. The next retention removes the files. Raises ApiError: OFFSET_OUT_OF_RANGE,
        UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR.
        """
        if self.offline is not None or self.deleted:
            raise self.refusal()
        if not 0 <= offset <= self.high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is out of range: expected 0 to {self.high_watermark}",
            )
        if offset > self.log_start_offset:
            try:
                self._starts.set((self.topic, self.index), offset)
            except OSError as error:
                raise storage_error(error) from error
            self.log_start_offset = offset
            self._forget_positions()
            self._forget_passed_gaps()
            self._note_stable()
        return self.log_start_offset

    def retire(self, now_wall_ms: int) -> list[str]:
        """Remove segments that retention no longer keeps, and return their renamed files for removal.

        Removes the oldest first, at most RETIRED_AT_ONCE. Raises ApiError KAFKA_STORAGE_ERROR.
        """
        if self.offline is not None:
            return []
        try:
            count = retention.expired(
                self.segments,
                self.settings,
                log_start_offset=self.log_start_offset,
                now_wall_ms=now_wall_ms,
                most=RETIRED_AT_ONCE,
            )
        except OSError as error:
            raise self.unreadable(error) from error
        try:
            if count == len(self.segments):
                self.roll()
            return self._remove_oldest(count)
        except OSError as error:
            raise storage_error(error) from error

    def _remove_oldest(self, count: int) -> list[str]:
        expired = self.segments[:count]
        if not expired:
            return []
        del self.segments[:count]
        self.bytes_before -= sum(segment.size for segment in expired)
        self._forget_positions()
        self.log_start_offset = max(self.log_start_offset, self.segments[0].base_offset)
        self._forget_passed_gaps()
        self._note_stable()
        removable = []
        for segment in expired:
            self._forget_files(segment)
            for path in segment.paths:
                if disk.exists(path):
                    disk.rename(path, path + DELETED)
                    removable.append(path + DELETED)
        return removable

    def replace(self, old: Sequence[Segment], cleaned: Segment) -> list[str] | None:
        """Put a cleaned segment in the place of adjacent closed ones, and return their renamed files.

        Returns None, with the log unchanged, if it has lost one of `old` meanwhile, was moved or is unusable.
        Raises ApiError KAFKA_STORAGE_ERROR. If the partition is then offline, the next start completes the
        replacement (`recovery`). Blocks for one or two renames a file.
        """
        at = bisect_right(self.segments, old[0].base_offset, key=_base_offset) - 1
        is_current = self.segments[at : at + len(old)] == list(old) and at + len(old) < len(self.segments)
        if self.offline is not None or self.deleted or self.directory != cleaned.directory or not is_current:
            return None
        size = sum(segment.size for segment in old)
        try:
            cleaned.rename(SWAP)
        except OSError as error:
            raise storage_error(error) from error
        try:
            for segment in old:
                self._rename_away(segment, with_snapshot=segment is not old[0])
            cleaned.use(self._context.files)
            cleaned.rename("")
        except OSError as error:
            self.go_offline(error)
            raise storage_error(error) from error
        self.segments[at : at + len(old)] = [cleaned]
        self.bytes_before -= size - cleaned.size
        self.has_new_names = True
        self._forget_positions()
        self._note_stable()
        return [path for segment in old for path in segment.paths if disk.exists(path)]

    def _rename_away(self, segment: Segment, *, with_snapshot: bool) -> None:
        """Rename the files of a segment that a cleaned one replaces. Raises OSError."""
        self._forget_files(segment)
        snapshot_path = segment.file(SNAPSHOT)
        if with_snapshot and disk.exists(snapshot_path):
            disk.rename(snapshot_path, snapshot_path + DELETED)
        segment.rename(DELETED)

    @property
    def needs_flush(self) -> bool:
        return self.has_new_names or self.recovery_point != self.high_watermark

    def flush(self, now_ms: int, *, sealed_only: bool = False) -> Flush:
        """Return a flush job for everything visible to readers, or for the closed segments only."""
        *sealed, active = self.segments
        paths = [path for segment in self._sealed_unflushed(sealed, active) for path in segment.durable_paths]
        if not sealed_only:
            paths.append(active.path)
        end_offset = active.base_offset if sealed_only else self.high_watermark
        try:
            files = [self._context.files.get(path) for path in paths]
        except OSError as error:
            return Flush(self, [], end_offset, now_ms, not_begun=error)
        return Flush(self, files, end_offset, now_ms)

    def _sealed_unflushed(self, sealed: list[Segment], active: Segment) -> list[Segment]:
        ends = [segment.base_offset for segment in (*sealed, active)][1:]
        return [segment for segment, end in zip(sealed, ends, strict=True) if end > self.recovery_point]

    def flushed(self, end_offset: int, now_ms: int, *, names_too: bool) -> None:
        """Record a successful Flush. Records appended after `now_ms` wait for the next one."""
        self.recovery_point = max(self.recovery_point, end_offset)
        if names_too:
            self.has_new_names = False
        unflushed = self._context.unflushed
        if self in unflushed:
            if self.recovery_point == self.high_watermark:
                del unflushed[self]
            else:
                unflushed[self] = now_ms

    def _note_unflushed(self) -> None:
        """Schedule a flush if the topic's settings flush and records are unflushed."""
        if self._flushes and self.high_watermark > self.recovery_point:
            context = self._context
            context.unflushed.setdefault(self, self._staged_ms)
            if self.high_watermark - self.recovery_point >= self.settings.flush_messages:
                context.overdue[self] = None

    def seal(self) -> None:
        """Write the indexes and the producer snapshot for a clean shutdown.

        Blocks for many files. Raises OSError.
        """
        for segment in self.segments:
            segment.seal()
        if self.high_watermark > self.log_start_offset or len(self.producers):
            self._write_snapshot()

    def move_to(self, directory: str, starts: OffsetFile, flushed_offset: int) -> None:
        """Switch to the same files in another log directory.

        The disk has everything before `flushed_offset`. Existing slices still read the old files.
        """
        for segment in self.segments:
            self._forget_files(segment)
            segment.move_to(directory)
        self.directory, self._starts = directory, starts
        self.recovery_point = min(self.recovery_point, flushed_offset)
        self.has_new_names = True
        self._snapshot_at = -1
        self._note_unflushed()

    def delete(self) -> None:
        """Refuse all further use and fail the staged batches. The store removes the files."""
        self._fail_staged(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self.deleted = True
        self._forget_positions()
        self._context.offline.pop(self, None)
        self._context.gapped.pop(self, None)
        self._context.forget(self)
        for segment in self.segments:
            self._forget_files(segment)

    def _fail_staged(self, code: ErrorCode) -> None:
        self._context.failures += 1
        for each in (*self._staged, *self._duplicates):
            each.error = code
        self._staged, self._buffers, self._duplicates, self._aborted = [], [], [], []

    def _forget_files(self, segment: Segment) -> None:
        segment.offsets.evict()
        for path in segment.paths:
            self._context.files.forget(path)

    def _forget_positions(self) -> None:
        self._read_positions.clear()
        self._appended_positions.clear()

    def refusal(self) -> ApiError:
        """Return the error for a deleted or offline partition."""
        if self.deleted:
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.topic}-{self.index} was deleted")
        why = f"{self.topic}-{self.index} is offline: {self.offline}"
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, why)

    def check_usable(self) -> None:
        """Raise ApiError if the partition is offline or deleted.

        The codes are KAFKA_STORAGE_ERROR and UNKNOWN_TOPIC_OR_PARTITION.
        """
        if self.offline is not None or self.deleted:
            raise self.refusal()

    def unreadable(self, error: OSError) -> ApiError:
        """Return the error for a failed read, and take the partition offline.

        The partition stays online for errors that do not indicate a disk failure: without descriptors or
        memory, the next read may succeed.
        """
        if error.errno not in OUT_OF_RESOURCES and not self.deleted and self.offline is None:
            self.go_offline(error)
        return storage_error(error)

    def go_offline(self, error: OSError) -> None:
        """Refuse appends and reads until the next start has recovered what is on disk."""
        self._fail_staged(ErrorCode.KAFKA_STORAGE_ERROR)
        self.next_offset = self.high_watermark
        was_online = self.offline is None
        self.offline = error
        self._forget_positions()
        context = self._context
        context.forget(self)
        if was_online and not self.deleted:
            context.offline[self] = None
            for listener in context.offline_listeners:
                listener(self)


def storage_error(error: OSError) -> ApiError:
    return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

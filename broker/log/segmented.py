"""The segments of one partition and the infrequent operations on them.

These are rolling, retention, flushing, lookups by time and going offline; `partition.PartitionLog` adds the
hot paths. Works on offsets, files and settings; independent of requests, incoming batches and clocks.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from errno import EMFILE, ENFILE, ENOMEM
from typing import Final, NamedTuple

from broker.config.sections.topics import TopicSettings
from broker.errors import ApiError, ErrorCode
from broker.log import disk, retention, timestamps
from broker.log.background_jobs import Flush
from broker.log.checkpoints import OffsetFile
from broker.log.layout import DELETED, SNAPSHOT, segment_file
from broker.log.log_context import LogContext
from broker.log.marks import Mark
from broker.log.partition_metrics import PartitionMetrics
from broker.log.recovery import Gap, Loaded
from broker.log.segment import Segment
from broker.log.snapshot import snapshot
from broker.records.slices import Slices

OUT_OF_RESOURCES: Final = frozenset({EMFILE, ENFILE, ENOMEM})
"""Errors of opening and reading that do not indicate a disk failure."""


class Place(NamedTuple):
    """Identity and location of a partition's log.

    `topic_id` has 16 bytes; `starts` holds the log start offsets of the log directory that contains
    `directory`.
    """

    topic: str
    partition: int
    topic_id: bytes
    directory: str
    starts: OffsetFile


class SegmentedLog:
    """A partition's segments and state. `recovery_point`: this process has flushed everything before it."""

    def __init__(self, place: Place, settings: TopicSettings, context: LogContext, loaded: Loaded) -> None:
        self.topic, self.index, self.topic_id, self.directory, self._starts = place
        self.settings = settings
        self.segments = loaded.segments
        self.producers = loaded.producers
        self.log_start_offset = loaded.log_start_offset
        self.high_watermark = loaded.end_offset
        self.next_offset = loaded.end_offset
        self.recovery_point = loaded.recovery_point
        self.has_new_names = loaded.is_new
        self.offline: OSError | None = None
        self.deleted = False
        self.adopted = False
        self._context = context
        self._read_marks: dict[int, Mark] = {}
        self._appended_marks: dict[int, Mark] = {}
        self._snapshot_at = loaded.snapshot_at
        self.traffic = PartitionMetrics()
        self._end_at_opening = loaded.end_offset
        self.gaps: list[Gap] = []
        self.note_gaps(loaded.gaps)
        self._bytes_before = self.size
        """Size at opening, less the bytes that retention has removed since."""

    @property
    def log_end_offset(self) -> int:
        """One past the last record that is visible to readers."""
        return self.high_watermark

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
        return self.size - self._bytes_before

    @property
    def missing(self) -> int:
        """Number of offsets whose records are missing."""
        return sum(gap.end - gap.start for gap in self.gaps)

    def note_gaps(self, gaps: Iterable[Gap]) -> None:
        """Add gaps; they are reported until the log start offset passes them."""
        self.gaps += gaps
        if self.gaps:
            self._context.gapped[self] = None

    def past_gap(self, offset: int) -> int:
        """Return the end of the gap that contains `offset`, or `offset` itself."""
        return next((gap.end for gap in self.gaps if gap.start <= offset < gap.end), offset)

    def _forget_passed_gaps(self) -> None:
        if self.gaps:
            self.gaps = [gap for gap in self.gaps if gap.end > self.log_start_offset]
            if not self.gaps:
                self._context.gapped.pop(self, None)

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
        """Advance the log start offset durably and return the low watermark.

        The next retention removes the files. Raises ApiError: OFFSET_OUT_OF_RANGE,
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
            self._forget_marks()
            self._forget_passed_gaps()
        return self.log_start_offset

    def retire(self, now_wall_ms: int) -> list[str]:
        """Remove the segments that retention no longer keeps, and return their renamed files for removal.

        Raises ApiError KAFKA_STORAGE_ERROR.
        """
        if self.offline is not None:
            return []
        try:
            count = retention.expired(
                self.segments, self.settings, log_start_offset=self.log_start_offset, now_wall_ms=now_wall_ms
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
        gone = self.segments[:count]
        if not gone:
            return []
        del self.segments[:count]
        self._bytes_before -= sum(segment.size for segment in gone)
        self._forget_marks()
        self.log_start_offset = max(self.log_start_offset, self.segments[0].base_offset)
        self._forget_passed_gaps()
        removable = []
        for segment in gone:
            self._forget_files(segment)
            for path in segment.paths:
                if disk.exists(path):
                    disk.rename(path, path + DELETED)
                    removable.append(path + DELETED)
        return removable

    def roll(self) -> None:
        """Close the active segment and open the next one.

        The active segment has records, and nothing is staged.

        Raises ApiError KAFKA_STORAGE_ERROR and leaves the active segment unchanged.
        """
        try:
            self.segments[-1].seal()
            self._write_snapshot()
            fresh = Segment(self._context.files, self.directory, self.high_watermark)
            fresh.open(make=True)
        except OSError as error:
            raise storage_error(error) from error
        self.segments.append(fresh)
        self.has_new_names = True
        self._context.rolled[self] = None

    def _write_snapshot(self) -> None:
        offset = self.high_watermark
        if offset != self._snapshot_at:
            disk.replace_file(
                os.path.join(self.directory, segment_file(offset, SNAPSHOT)), snapshot(self.producers)
            )
            self._snapshot_at = offset

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

    def delete(self) -> None:
        """Refuse all further use. The store removes the files."""
        self.deleted = True
        self._forget_marks()
        self._context.offline.pop(self, None)
        self._context.gapped.pop(self, None)
        self._context.forget(self)
        for segment in self.segments:
            self._forget_files(segment)

    def _forget_files(self, segment: Segment) -> None:
        segment.offsets.let_go()
        for path in segment.paths:
            self._context.files.forget(path)

    def _forget_marks(self) -> None:
        self._read_marks.clear()
        self._appended_marks.clear()

    def refusal(self) -> ApiError:
        """Return the error for a deleted or offline partition."""
        if self.deleted:
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.topic}-{self.index} was deleted")
        why = f"{self.topic}-{self.index} is offline: {self.offline}"
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, why)

    def go_offline(self, error: OSError) -> None:
        """Refuse appends and reads until the next start has recovered what is on disk."""
        was_online = self.offline is None
        self.offline = error
        self._forget_marks()
        context = self._context
        context.forget(self)
        if was_online and not self.deleted:
            context.offline[self] = None
            if context.went_offline is not None:
                context.went_offline(self)

    def unreadable(self, error: OSError) -> ApiError:
        """Return the error for a failed read, and take the partition offline.

        The partition stays online for errors that do not indicate a disk failure: without descriptors or
        memory, the next read may succeed.
        """
        if error.errno not in OUT_OF_RESOURCES and not self.deleted and self.offline is None:
            self.go_offline(error)
        return storage_error(error)

    def check_usable(self) -> None:
        """Raise ApiError if the partition is offline or deleted.

        The codes are KAFKA_STORAGE_ERROR and UNKNOWN_TOPIC_OR_PARTITION.
        """
        if self.offline is not None or self.deleted:
            raise self.refusal()

    def seal(self) -> None:
        """Write the indexes and the producer snapshot for a clean shutdown.

        Blocks for many files. Raises OSError.
        """
        for segment in self.segments:
            segment.seal()
        if self.high_watermark > self.log_start_offset or len(self.producers):
            self._write_snapshot()


def storage_error(error: OSError) -> ApiError:
    return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

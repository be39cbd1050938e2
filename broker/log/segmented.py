"""The segments of one partition and everything that is rarely done to them: rolling, letting go, flushing,
lookups by time, going offline. `partition.PartitionLog` adds what is done all the time.

Knows offsets, files and settings; no batch that is on its way in, no request, no clock.
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
from broker.log.partition_metrics import PartitionMetrics
from broker.log.recovery import Gap, Loaded
from broker.log.segment import Segment
from broker.log.snapshot import snapshot
from broker.records.slices import Slices

OUT_OF_RESOURCES: Final = frozenset({EMFILE, ENFILE, ENOMEM})
"""Errors of opening and reading that say nothing of the disk."""


class Place(NamedTuple):
    """Whose log it is, and where. `topic_id` is 16 bytes; `starts` are the log start offsets of the log
    directory that `directory` lies in.
    """

    topic: str
    partition: int
    topic_id: bytes
    directory: str
    starts: OffsetFile


class Mark(NamedTuple):
    """Where a reader that asks for a certain offset starts."""

    segment: Segment
    position: int
    batch_bytes: int


class SegmentedLog:
    """`recovery_point`: everything before it is on the disk, as far as this process knows."""

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
        self._shared = context
        self._marks: dict[int, Mark] = {}
        self._snapshot_at = loaded.snapshot_at
        self.traffic = PartitionMetrics()
        self._end_at_opening = loaded.end_offset
        self.gaps: list[Gap] = []
        self.note_gaps(loaded.gaps)
        self._bytes_before = self.size
        """Of all that was ever written: what was here at the opening, less what has been let go since."""

    @property
    def log_end_offset(self) -> int:
        """One past the last record that readers may see."""
        return self.high_watermark

    @property
    def size(self) -> int:
        """Bytes of records."""
        return sum(segment.size for segment in self.segments)

    @property
    def messages_in(self) -> int:
        """Offsets that were given out since the log was opened."""
        return self.high_watermark - self._end_at_opening

    @property
    def bytes_in(self) -> int:
        """Bytes that were written since the log was opened."""
        return self.size - self._bytes_before

    @property
    def missing(self) -> int:
        """Offsets whose records were there and are not."""
        return sum(gap.end - gap.start for gap in self.gaps)

    def note_gaps(self, gaps: Iterable[Gap]) -> None:
        """They are shown until the log start has passed them."""
        self.gaps += gaps
        if self.gaps:
            self._shared.gapped[self] = None

    def past_gap(self, offset: int) -> int:
        """The offset itself, or the end of the gap that it is in: for who reads what there is."""
        return next((gap.end for gap in self.gaps if gap.start <= offset < gap.end), offset)

    def _forget_passed_gaps(self) -> None:
        if self.gaps:
            self.gaps = [gap for gap in self.gaps if gap.end > self.log_start_offset]
            if not self.gaps:
                self._shared.gapped.pop(self, None)

    def offset_for_timestamp(self, timestamp: int) -> Slices[tuple[int, int] | None]:
        """(offset, timestamp) of the first record that is not older. Raises ApiError."""
        return self._lookup(
            lambda segments: timestamps.first_at_or_after(segments, timestamp, self.log_start_offset)
        )

    def max_timestamp(self) -> Slices[tuple[int, int] | None]:
        """(offset, timestamp) of the newest record by its own time; None where no record has one. Raises
        ApiError.
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
                # Retention took a segment between two slices.

    def delete_records_before(self, offset: int) -> int:
        """Moves the log start, at once and for good; files follow with the next retention. Returns the low
        watermark.

        Raises ApiError: OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR.
        """
        if self.offline is not None or self.deleted:
            raise self.refusal()
        if not 0 <= offset <= self.high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is outside of 0 to {self.high_watermark}"
            )
        if offset > self.log_start_offset:
            try:
                self._starts.set((self.topic, self.index), offset)
            except OSError as error:
                raise storage_error(error) from error
            self.log_start_offset = offset
            self._marks.clear()
            self._forget_passed_gaps()
        return self.log_start_offset

    def retire(self, now_wall_ms: int) -> list[str]:
        """Lets go of the segments that retention no longer keeps, and returns the files that may be removed:
        they have been renamed, nobody looks them up any more. Raises ApiError KAFKA_STORAGE_ERROR.
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
            return self._let_go(count)
        except OSError as error:
            raise storage_error(error) from error

    def _let_go(self, count: int) -> list[str]:
        gone = self.segments[:count]
        if not gone:
            return []
        del self.segments[:count]
        self._bytes_before -= sum(segment.size for segment in gone)
        self._marks.clear()
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
        """Closes the active segment, which has records, and opens the next one. Nothing is staged.

        Raises ApiError KAFKA_STORAGE_ERROR, and then the active segment is as it was.
        """
        try:
            self.segments[-1].seal()
            self._write_snapshot()
            fresh = Segment(self._shared.files, self.directory, self.high_watermark)
            fresh.open(make=True)
        except OSError as error:
            raise storage_error(error) from error
        self.segments.append(fresh)
        self.has_new_names = True
        self._shared.rolled[self] = None

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
        """The work of putting everything on the disk that readers see now, or what lies in closed
        segments.
        """
        *sealed, active = self.segments
        paths = [path for segment in self._sealed_unflushed(sealed, active) for path in segment.durable_paths]
        if not sealed_only:
            paths.append(active.path)
        end_offset = active.base_offset if sealed_only else self.high_watermark
        try:
            files = [self._shared.files.get(path) for path in paths]
        except OSError as error:
            return Flush(self, [], end_offset, now_ms, not_begun=error)
        return Flush(self, files, end_offset, now_ms)

    def _sealed_unflushed(self, sealed: list[Segment], active: Segment) -> list[Segment]:
        ends = [segment.base_offset for segment in (*sealed, active)][1:]
        return [segment for segment, end in zip(sealed, ends, strict=True) if end > self.recovery_point]

    def flushed(self, end_offset: int, now_ms: int, *, names_too: bool) -> None:
        """A Flush has succeeded; what came after `now_ms` waits for the next one."""
        self.recovery_point = max(self.recovery_point, end_offset)
        if names_too:
            self.has_new_names = False
        unflushed = self._shared.unflushed
        if self in unflushed:
            if self.recovery_point == self.high_watermark:
                del unflushed[self]
            else:
                unflushed[self] = now_ms

    def move_to(self, directory: str, starts: OffsetFile, flushed_offset: int) -> None:
        """The same files, byte for byte, lie in another log directory now; everything goes on there. The disk
        has what is before `flushed_offset`. Slices that were lent still read the old ones.
        """
        for segment in self.segments:
            self._forget_files(segment)
            segment.move_to(directory)
        self.directory, self._starts = directory, starts
        self.recovery_point = min(self.recovery_point, flushed_offset)
        self.has_new_names = True
        self._snapshot_at = -1

    def delete(self) -> None:
        """Nobody may use it from now on. The files are the store's business."""
        self.deleted = True
        self._marks.clear()
        self._shared.offline.pop(self, None)
        self._shared.gapped.pop(self, None)
        self._shared.forget(self)
        for segment in self.segments:
            self._forget_files(segment)

    def _forget_files(self, segment: Segment) -> None:
        segment.offsets.let_go()
        for path in segment.paths:
            self._shared.files.forget(path)

    def forget_marks(self) -> None:
        """The store remembers too many places at which readers start."""
        self._marks.clear()

    def refusal(self) -> ApiError:
        """What is answered for a partition that is deleted or offline."""
        if self.deleted:
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.topic}-{self.index} was deleted")
        why = f"{self.topic}-{self.index} is offline: {self.offline}"
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, why)

    def go_offline(self, error: OSError) -> None:
        """Nothing is appended or read until the broker is started again and has read what the disk really
        holds.
        """
        is_news = self.offline is None
        self.offline = error
        self._marks.clear()
        context = self._shared
        context.forget(self)
        if is_news and not self.deleted:
            context.offline[self] = None
            if context.went_offline is not None:
                context.went_offline(self)

    def unreadable(self, error: OSError) -> ApiError:
        """The answer for a read that failed. The partition goes offline, as one that recovery could not read,
        unless the error says nothing of the disk: without descriptors or memory the next read may succeed.
        """
        if error.errno not in OUT_OF_RESOURCES and not self.deleted and self.offline is None:
            self.go_offline(error)
        return storage_error(error)

    def check_usable(self) -> None:
        """Raises ApiError KAFKA_STORAGE_ERROR, UNKNOWN_TOPIC_OR_PARTITION."""
        if self.offline is not None or self.deleted:
            raise self.refusal()

    def seal(self) -> None:
        """For a clean end: indexes and producers are written. Blocks for many files. Raises OSError."""
        for segment in self.segments:
            segment.seal()
        if self.high_watermark > self.log_start_offset or len(self.producers):
            self._write_snapshot()


def storage_error(error: OSError) -> ApiError:
    return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

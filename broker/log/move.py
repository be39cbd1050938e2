"""Copies one partition to another log directory while it is written to. (Kafka: future replica, KIP-113)

`moves` starts and ends a move; the composition root runs its steps in threads.

The copy has the same bytes in files of the same names, so a segment's positions, verified ranges and indexes
stay valid when the partition switches to it. Segments are copied in order, and each is flushed before the
next is started: after a crash every one but the last is complete. The original is only read.
"""

import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from operator import attrgetter, itemgetter

from broker.log import disk
from broker.log.directory import LogDirectory
from broker.log.disk import OpenFile
from broker.log.layout import (
    LEADER_EPOCHS,
    LOG,
    PARTITION_METADATA,
    SNAPSHOT,
    parse_segment_file,
    segment_file,
)
from broker.log.partition import PartitionLog
from broker.log.segment import Segment

_base_offset = attrgetter("base_offset")
_position = itemgetter(1)


class Step:
    """A background job that copies records or completes a segment."""

    def __init__(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        self.error: OSError | None = None
        self._work = work
        self._done = done

    def run(self) -> None:
        try:
            self._work()
        except OSError as error:
            self.error = error

    def finish(self) -> None:
        if self.error is None:
            self._done()


class Move:
    """A partition move.

    `directory` holds the copy, in `target`; `copied` counts bytes of records since startup.
    """

    def __init__(self, partition: PartitionLog, target: LogDirectory, directory: str) -> None:
        self.partition = partition
        self.target = target
        self.directory = directory
        self.copied = 0
        self._base = partition.segments[0].base_offset
        self._position = 0
        self._is_prepared = False
        self._file: OpenFile | None = None

    def begin(self) -> None:
        """Create the directory. Raises OSError."""
        disk.make_directory(self.directory)
        for name in (PARTITION_METADATA, LEADER_EPOCHS):
            disk.copy_file(os.path.join(self.partition.directory, name), self._path(name))

    def resume(self) -> None:
        """Continue after the segments that were completed before this start.

        Starts over if those differ from the original's. Raises OSError.
        """
        names = disk.names_in(self.directory)
        sizes = {
            parsed[0]: disk.size_of(self._path(name))
            for name in names
            if (parsed := parse_segment_file(name)) is not None and parsed[1] == LOG
        }
        first_incomplete = max(sizes, default=self._base)
        segments = self.partition.segments
        completed = [each for each in segments if each.base_offset < first_incomplete]
        is_known = first_incomplete <= segments[-1].base_offset
        if is_known and all(sizes.get(each.base_offset) == each.size for each in completed):
            self._base = max(first_incomplete, self._base)
        else:
            for name in names:
                disk.remove(self._path(name))
        self.begin()

    @property
    def size(self) -> int:
        """Bytes of records in the copy."""
        segments = self.partition.segments
        return self._position + sum(each.size for each in segments if each.base_offset < self._base)

    @property
    def flushed_offset(self) -> int:
        """The copy's records before this offset are on disk."""
        return self._base

    @property
    def end_offset(self) -> int:
        """Offset up to which the copy is complete, to within one index entry."""
        segments = self.partition.segments
        at = bisect_left(segments, self._base, key=_base_offset)
        segment = segments[at]
        if segment.base_offset != self._base or self._position == 0:
            return self._base
        if self._position >= segment.size:
            return segments[at + 1].base_offset if at + 1 < len(segments) else self.partition.high_watermark
        # The batch of the last entry may be partly copied; the one before is complete.
        try:
            before = bisect_right(segment.offsets, self._position, key=_position) - 2
            return self._base + segment.offsets[before][0] + 1 if before >= 0 else self._base
        except OSError:
            return self._base

    @property
    def lag(self) -> int:
        """Number of offsets that the copy lacks, to within one index entry."""
        return self.partition.high_watermark - self.end_offset

    @property
    def missing(self) -> int | None:
        """Bytes of the active segment that the copy lacks; None while earlier segments are incomplete."""
        active = self.partition.segments[-1]
        if active.base_offset != self._base or not self._is_prepared:
            return None
        return active.size - self._position

    def next_step(self, most: int) -> Step:
        """Return the next step, which copies at most `most` bytes of records. Raises OSError."""
        segment = self._segment()
        left = segment.size - self._position
        # Waiting for the end of a segment under constant writes would never finish.
        is_almost_there = segment is self.partition.segments[-1] and left <= most and not self._is_prepared
        if left and not is_almost_there:
            return self._copy(segment, min(left, most))
        return self._complete(segment)

    def catch_up(self) -> None:
        """Copy the latest records of the active segment synchronously. Raises OSError."""
        segment = self._segment()
        step = self._copy(segment, segment.size - self._position)
        step.run()
        if step.error is not None:
            raise step.error
        step.finish()
        for index in (segment.offsets, segment.times):
            # Unwritten entries will be appended to the new file.
            path = self._path(os.path.basename(index.path))
            have = disk.size_of(path)
            if index.stored_bytes > have:
                file = disk.open_file(path, make=True)
                disk.copy(disk.open_file(index.path), file, have, index.stored_bytes - have)
        self._file = None

    def stale_files(self) -> list[str]:
        """Return files of segments that retention has removed from the original meanwhile. Raises OSError."""
        kept = {each.base_offset for each in self.partition.segments}
        found = [(name, parse_segment_file(name)) for name in disk.names_in(self.directory)]
        return [self._path(name) for name, parsed in found if parsed is not None and parsed[0] not in kept]

    def _segment(self) -> Segment:
        """Return the segment to copy, or the next one if retention has removed it. Raises OSError."""
        segments = self.partition.segments
        segment = segments[bisect_left(segments, self._base, key=_base_offset)]
        if segment.base_offset != self._base:
            self._go_to(segment.base_offset)
        if self._file is None:
            self._file = disk.open_file(self._path(segment_file(self._base, LOG)), make=True)
            disk.truncate(self._file, 0)
        return segment

    def _go_to(self, base: int) -> None:
        self._base = base
        self._position = 0
        self._is_prepared = False
        self._file = None

    def _copy(self, segment: Segment, nbytes: int) -> Step:
        position, source, target = self._position, segment.open(), self._file
        assert target is not None

        def done() -> None:
            if self._file is target:
                self._position += nbytes
                self.copied += nbytes

        return Step(lambda: disk.copy(source, target, position, nbytes), done)

    def _complete(self, segment: Segment) -> Step:
        """Copy indexes and producer snapshot, and flush everything. The active segment may still grow."""
        target = self._file
        assert target is not None
        is_active = segment is self.partition.segments[-1]
        names = (segment.offsets.path, segment.times.path, segment.file(SNAPSHOT))

        def work() -> None:
            disk.flush(target)
            for path in names:
                disk.copy_file(path, self._path(os.path.basename(path)), flushed=True)
            disk.flush_directory(self.directory)

        def done() -> None:
            if self._file is not target:
                return
            if is_active:
                self._is_prepared = True
            else:
                segments = self.partition.segments
                self._go_to(segments[bisect_right(segments, self._base, key=_base_offset)].base_offset)

        return Step(work, done)

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, name)

"""One partition on its way to another log directory while it is written to. (Kafka: future replica, KIP-113)

Made and ended by `moves`; the composition root carries its steps out in threads. Knows files and segments.

The copy is the same bytes in files of the same names, so nothing that is known of a segment (positions,
proofs, indexes) changes when the partition goes over to it. Segments are copied in order, and each is flushed
before the next is begun: after a crash every one but the last is whole. The original is only read.
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
    """A chore that copies records, or finishes a segment."""

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
    """`directory` is where the copy grows, in `target`; `copied` are bytes of records, since this start."""

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
        """Makes the directory. Raises OSError."""
        disk.make_directory(self.directory)
        for name in (PARTITION_METADATA, LEADER_EPOCHS):
            disk.copy_file(os.path.join(self.partition.directory, name), self._path(name))

    def resume(self) -> None:
        """Goes on behind the segments that were finished before this start; begins afresh where they are not
        those of the original. Raises OSError.
        """
        names = disk.names_in(self.directory)
        sizes = {
            parsed[0]: disk.size_of(self._path(name))
            for name in names
            if (parsed := parse_segment_file(name)) is not None and parsed[1] == LOG
        }
        begun = max(sizes, default=self._base)
        segments = self.partition.segments
        whole = [each for each in segments if each.base_offset < begun]
        is_known = begun <= segments[-1].base_offset
        if is_known and all(sizes.get(each.base_offset) == each.size for each in whole):
            self._base = max(begun, self._base)
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
        """The copy has everything before it on the disk."""
        return self._base

    @property
    def end_offset(self) -> int:
        """The copy has everything before it, and as much more as lies between two entries of an index."""
        segments = self.partition.segments
        at = bisect_left(segments, self._base, key=_base_offset)
        segment = segments[at]
        if segment.base_offset != self._base or self._position == 0:
            return self._base
        if self._position >= segment.size:
            return segments[at + 1].base_offset if at + 1 < len(segments) else self.partition.high_watermark
        # The batch that the last entry names may be there in part only; the one before is whole.
        try:
            before = bisect_right(segment.offsets, self._position, key=_position) - 2
            return self._base + segment.offsets[before][0] + 1 if before >= 0 else self._base
        except OSError:
            return self._base

    @property
    def lag(self) -> int:
        """Offsets that the copy lacks, to within an entry of an index."""
        return self.partition.high_watermark - self.end_offset

    @property
    def missing(self) -> int | None:
        """Bytes of records that the copy lacks; None as long as more than those is missing."""
        active = self.partition.segments[-1]
        if active.base_offset != self._base or not self._is_prepared:
            return None
        return active.size - self._position

    def next_step(self, most: int) -> Step:
        """What is to be done now, with `most` bytes of records at most. Raises OSError."""
        segment = self._segment()
        left = segment.size - self._position
        # Who waited for the end of a segment that is written to all the time would wait for ever.
        is_almost_there = segment is self.partition.segments[-1] and left <= most and not self._is_prepared
        if left and not is_almost_there:
            return self._copy(segment, min(left, most))
        return self._complete(segment)

    def catch_up(self) -> None:
        """Copies what the active segment has got since, here and now. Raises OSError."""
        segment = self._segment()
        step = self._copy(segment, segment.size - self._position)
        step.run()
        if step.error is not None:
            raise step.error
        step.finish()
        for index in (segment.offsets, segment.times):
            # Entries that are not written yet will be, in the new place, behind these.
            path = self._path(os.path.basename(index.path))
            have = disk.size_of(path)
            if index.stored_bytes > have:
                file = disk.open_file(path, make=True)
                disk.copy(disk.open_file(index.path), file, have, index.stored_bytes - have)
        self._file = None

    def stale_files(self) -> list[str]:
        """Those of segments that the original has let go meanwhile. Raises OSError."""
        kept = {each.base_offset for each in self.partition.segments}
        found = [(name, parse_segment_file(name)) for name in disk.names_in(self.directory)]
        return [self._path(name) for name, parsed in found if parsed is not None and parsed[0] not in kept]

    def _segment(self) -> Segment:
        """The one that is being copied, or the next one if retention has taken it. Raises OSError."""
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
        """Indexes and producers, and all of it on the disk. That is not the end of the active segment, which
        may grow meanwhile.
        """
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

"""Moves partitions between log directories while they are written to. (Kafka: ReplicaAlterLogDirsManager and
future replicas, KIP-113)

Owned by the store; the composition root requests steps, runs them in threads and sets their rate.

A copy has the same bytes in files of the same names, so a segment's positions, verified ranges and indexes
stay valid when the partition switches to it. Segments are copied in order, and each is flushed before the
next is started: after a crash every one but the last is complete. The original is only read.

A partition switches over synchronously on the event loop: its last records are copied, the copy's directory
is renamed to the partition's name, and the log object continues with the new files. The old directory keeps
its name until the new files are flushed. So at least one directory holds every record at any time, and a
start that finds two uses the more complete one.
"""

import os
import uuid
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from operator import attrgetter
from typing import Final, NamedTuple

from broker.common.errors import ApiError, ErrorCode
from broker.log import disk, layout
from broker.log.background_jobs import Flush
from broker.log.directories import LogDirectory
from broker.log.disk import OpenFile
from broker.log.layout import (
    DELETED,
    DELETED_DIRECTORY,
    FUTURE_DIRECTORY,
    LEADER_EPOCHS,
    LOG,
    PARTITION_METADATA,
    SNAPSHOT,
    parse_segment_file,
    renamed_directory,
    segment_file,
)
from broker.log.partition import PartitionLog
from broker.log.segment import Segment

_base_offset = attrgetter("base_offset")


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
            index = segment.offsets
            before = bisect_right(range(len(index)), self._position, key=lambda at: index[at][1]) - 2
            return self._base + index[before][0] + 1 if before >= 0 else self._base
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

    def next_step(self, max_bytes: int) -> Step:
        """Return the next step, which copies at most `max_bytes` bytes of records. Raises OSError."""
        segment = self._segment()
        left = segment.size - self._position
        # Waiting for the end of a segment under constant writes would never finish.
        is_active = segment is self.partition.segments[-1]
        is_nearly_complete = is_active and left <= max_bytes and not self._is_prepared
        if left and not is_nearly_complete:
            return self._copy(segment, min(left, max_bytes))
        return self._complete(segment)

    def catch_up(self) -> None:
        """Copy the latest records of the active segment synchronously. Raises OSError."""
        segment = self._segment()
        step = self._copy(segment, segment.size - self._position)
        step.run()
        if step.error is not None:
            raise step.error
        step.finish()
        for index in (segment.offsets, segment.times, segment.aborted):
            # Unwritten entries will be appended to the new file.
            path = self._path(os.path.basename(index.path))
            have = disk.size_of(path)
            if index.stored_bytes > have:
                file = disk.open_file(path, make=True)
                disk.copy(disk.open_file(index.path), file, have, index.stored_bytes - have)
        self._file = None

    def stale_files(self) -> list[str]:
        """Return files of segments that retention has removed from the original meanwhile. Raises OSError."""
        bases = {each.base_offset for each in self.partition.segments}
        found = [(name, parse_segment_file(name)) for name in disk.names_in(self.directory)]
        return [self._path(name) for name, parsed in found if parsed is not None and parsed[0] not in bases]

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
        names = (*segment.index_paths, segment.file(SNAPSHOT))

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


MAX_SWITCH_BYTES: Final = 4_194_304
"""Maximum bytes of records copied on the event loop, which takes some milliseconds.

A producer that writes more than this during each copied slice postpones the switch indefinitely.
"""


class Original(NamedTuple):
    """The old directory of a moved partition, in `source`."""

    partition: PartitionLog
    source: LogDirectory
    directory: str


class Moves:
    """All moves.

    `running` moves have a growing copy. `originals` wait until the new files are flushed.
    `remove(paths, due_wall_ms)` schedules removal.
    """

    def __init__(self, remove: Callable[[list[str], int], None]) -> None:
        self.running: dict[PartitionLog, Move] = {}
        self.originals: list[Original] = []
        self.failed = 0
        self._begun_listeners: list[Callable[[], None]] = []
        self._remove = remove

    def on_begun(self, callback: Callable[[], None]) -> None:
        """Register a callback for each move that is added."""
        self._begun_listeners.append(callback)

    def request(self, partition: PartitionLog, source: LogDirectory, target: LogDirectory) -> None:
        """Move the partition to `target`, replacing a running move to another directory.

        A running move to `target` continues. Raises ApiError INVALID_TOPIC_EXCEPTION, OSError.
        """
        running = self.running.get(partition)
        if running is not None and running.target is target:
            return
        self.cancel(partition)
        if target is source:
            return
        try:
            name = layout.future_directory(partition.topic, partition.index, uuid.uuid4().hex)
        except ValueError as error:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, str(error)) from error
        move = Move(partition, target, os.path.join(target.path, name))
        move.begin()
        self._add(move)

    def resume(self, partition: PartitionLog, target: LogDirectory, directory: str) -> None:
        """Continue with a copy that was found at startup, at most one per partition."""
        move = Move(partition, target, directory)
        if partition in self.running:
            self.discard(directory)
            return
        try:
            move.resume()
        except OSError:
            self.discard(directory)
            return
        self._add(move)

    def _add(self, move: Move) -> None:
        self.running[move.partition] = move
        move.target.count += 1
        for listener in self._begun_listeners:
            listener()

    def cancel(self, partition: PartitionLog) -> None:
        """Cancel the partition's move, if any, and remove the copy."""
        move = self.running.pop(partition, None)
        if move is not None:
            move.target.count -= 1
            self.discard(move.directory)

    def fail(self, partition: PartitionLog) -> None:
        """Cancel the partition's move and count the failure."""
        if partition in self.running:
            self.failed += 1
            self.cancel(partition)

    def discard(self, directory: str) -> None:
        """Remove an obsolete copy. If it cannot be renamed, the next start finds it again."""
        renamed = directory.removesuffix(FUTURE_DIRECTORY) + DELETED_DIRECTORY
        try:
            disk.rename(directory, renamed)
        except OSError:
            renamed = directory
        self._remove([renamed], 0)

    def forget(self, partition: PartitionLog) -> None:
        """Cancel and clean up the moves of a partition that is being deleted. Raises OSError."""
        self.cancel(partition)
        for each in [each for each in self.originals if each.partition is partition]:
            self.originals.remove(each)
            self._rename_away(each, 0)

    def is_running(self, move: Move) -> bool:
        return self.running.get(move.partition) is move

    def next_step(self, move: Move, max_bytes: int, source: LogDirectory) -> Step | None:
        """Return the next step to run in a thread, at most `max_bytes` of records; None after the switch.

        Raises OSError, ApiError for an offline partition; the original is unchanged.
        """
        if move.partition.offline is not None:
            raise move.partition.refusal()
        missing = move.missing
        if missing is None or missing > min(max_bytes, MAX_SWITCH_BYTES):
            return move.next_step(max_bytes)
        self._switch(move, source)
        return None

    def _switch(self, move: Move, source: LogDirectory) -> None:
        partition, target, old = move.partition, move.target, move.partition.directory
        key = partition.topic, partition.index
        move.catch_up()
        stale = move.stale_files()
        for path in stale:
            disk.rename(path, path + DELETED)
        if partition.log_start_offset:
            target.starts.set(key, partition.log_start_offset)
        else:
            target.starts.drop(key)
        directory = os.path.join(target.path, layout.partition_directory(*key))
        disk.rename(move.directory, directory)
        if (cleaned := source.cleaner_points.offsets.get(key)) is not None:
            target.cleaner_points.set(key, cleaned)
        partition.move_to(directory, target.starts, move.flushed_offset)
        del self.running[partition]
        source.count -= 1
        self.originals.append(Original(partition, source, old))
        self._remove([os.path.join(directory, os.path.basename(path) + DELETED) for path in stale], 0)

    def remove_original(self, original: Original, flushed: Flush, now_wall_ms: int) -> None:
        """Remove the original after its flush.

        If the flush failed, the original stays for the next start, which uses the better copy. Raises
        OSError.
        """
        if original in self.originals:
            self.originals.remove(original)
            if flushed.error is None:
                self._rename_away(original, now_wall_ms + original.partition.settings.file_delete_delay_ms)

    def _rename_away(self, original: Original, due_wall_ms: int) -> None:
        partition, source, directory = original
        renamed = renamed_directory(directory, uuid.uuid4().hex, DELETED_DIRECTORY)
        disk.rename(directory, renamed)
        self._remove([renamed], due_wall_ms)
        source.starts.drop((partition.topic, partition.index))
        source.cleaner_points.drop((partition.topic, partition.index))

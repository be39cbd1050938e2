"""One file of batches with its indexes: `<base offset>.log`, `.index`, `.timeindex`, `.txnindex` (Kafka's
LogSegment).

Owned by a PartitionLog. Appends at the known end and finds batches by offset. The partition decides what to
append, when to roll and what to delete.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from broker.errors import HalfWritten
from broker.log import disk
from broker.log.aborted_transactions import AbortedTransactions
from broker.log.disk import OpenFile, OpenFiles
from broker.log.index import ENTRIES_PER_WRITE, OFFSET_ENTRY, TIME_ENTRY, SparseIndex
from broker.log.layout import LOG, OFFSET_INDEX, SNAPSHOT, TIME_INDEX, TXN_INDEX, segment_file
from broker.log.staged import Staged
from broker.log.verified_ranges import VerifiedRanges
from broker.records.header import (
    EXTENT,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    header_at,
)

_READ_AHEAD: Final = 4_096
"""The bytes between two index entries, so that one read usually finds a batch."""

_RENAMED: Final = (OFFSET_INDEX, TIME_INDEX, TXN_INDEX, LOG)

_read_extent = EXTENT.unpack_from


class BatchPosition(NamedTuple):
    """A batch in a segment."""

    position: int
    header: BatchHeader


class Segment:
    """A segment. `size` is the end visible to readers; `index_bytes` is the size of the larger index."""

    __slots__ = (
        "_files",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_since_index",
        "aborted",
        "base_offset",
        "directory",
        "index_bytes",
        "name_suffix",
        "offsets",
        "path",
        "size",
        "times",
        "verified",
    )

    def __init__(
        self,
        files: OpenFiles,
        directory: str,
        base_offset: int,
        *,
        size: int = 0,
        ceiling: int | None = None,
        name_suffix: str = "",
    ) -> None:
        """Create the segment without touching files.

        With `size` above 0 the files exist and their bytes are unverified; all their offsets are below
        `ceiling`, if known. `name_suffix` follows the names of all files, such as `.cleaned`.
        """
        self._files = files
        self.directory = directory
        self.base_offset = base_offset
        self.name_suffix = name_suffix
        self.path = self.file(LOG)
        self.size = size
        fresh = size == 0
        self.offsets = SparseIndex(files, self.file(OFFSET_INDEX), OFFSET_ENTRY, fresh=fresh)
        self.times = SparseIndex(files, self.file(TIME_INDEX), TIME_ENTRY, fresh=fresh)
        self.aborted = AbortedTransactions(files, self.file(TXN_INDEX))
        self.verified = VerifiedRanges(size, base_offset, ceiling)
        self._since_index = 0
        self.index_bytes = 0
        self._max_timestamp: int | None = NO_TIMESTAMP if fresh else None
        self._max_timestamp_offset = base_offset

    def file(self, suffix: str) -> str:
        return os.path.join(self.directory, segment_file(self.base_offset, suffix) + self.name_suffix)

    def use(self, files: OpenFiles) -> None:
        """Open the files through `files` from now on; another thread has written them through others."""
        self._files = files
        self.offsets.use(files)
        self.times.use(files)
        self.aborted.use(files)

    def rename(self, name_suffix: str) -> None:
        """Give the existing files other names, the records' file last.

        Readers that have this segment go on with the renamed files. Raises OSError, with some files renamed.
        """
        old = [self.file(suffix) for suffix in _RENAMED]
        self.name_suffix = name_suffix
        for path, suffix in zip(old, _RENAMED, strict=True):
            if disk.exists(path):
                disk.rename(path, self.file(suffix))
        self._set_paths()

    def move_to(self, directory: str) -> None:
        """Switch to the same files in another directory."""
        self.directory = directory
        self._set_paths()

    def _set_paths(self) -> None:
        self.path = self.file(LOG)
        self.offsets.path = self.file(OFFSET_INDEX)
        self.times.path = self.file(TIME_INDEX)
        self.aborted.path = self.file(TXN_INDEX)

    @property
    def paths(self) -> tuple[str, ...]:
        """Files that are deleted with the segment."""
        return tuple(self.file(suffix) for suffix in (LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT))

    @property
    def index_paths(self) -> tuple[str, ...]:
        """The files beside the records', which may be missing."""
        return self.file(OFFSET_INDEX), self.file(TIME_INDEX), self.file(TXN_INDEX)

    @property
    def durable_paths(self) -> list[str]:
        """Existing files that must be flushed before recovery may skip the segment."""
        paths = [self.file(suffix) for suffix in (LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX)]
        return [path for path in paths if disk.exists(path)]

    def open(self, *, make: bool = False) -> OpenFile:
        """Return the open file. Raises OSError."""
        return self._files.get(self.path, make=make)

    def newest(self) -> tuple[int, int]:
        """Return the greatest timestamp (-1 if none) and the last offset of the batch that has it.

        Raises OSError.
        """
        if self._max_timestamp is None:
            self._max_timestamp, self._max_timestamp_offset = self._read_newest()
        return self._max_timestamp, self._max_timestamp_offset

    def _read_newest(self) -> tuple[int, int]:
        """Read the last entry of the time index, and scan all batches if its batch disagrees.

        Retention deletes by this timestamp.
        """
        count = len(self.times)
        if count:
            timestamp, relative = self.times[count - 1]
            located = self.locate(self.base_offset + relative)
            named = next(self.batches(located[0]), None) if located else None
            if named is not None and named.header.max_timestamp == timestamp:
                return timestamp, named.header.last_offset
        greatest = NO_TIMESTAMP, self.base_offset
        for found in self.batches():
            if found.header.max_timestamp > greatest[0]:
                greatest = found.header.max_timestamp, found.header.last_offset
        return greatest

    def prepare(self) -> None:
        """Read the state needed by the first append after a start. Raises OSError."""
        self.newest()
        self.times.last_key()
        self._count_index_bytes()

    def append(self, buffers: Sequence[Buffer], batches: Sequence[Staged], index_interval: int) -> None:
        """Append one buffer per batch.

        Raises OSError with the segment unchanged; HalfWritten if the segment is unusable.
        """
        file = self._files.get(self.path)
        try:
            disk.write_at(file, buffers, self.size)
        except OSError:
            self._cut(file)
            raise
        for batch in batches:
            self.note(batch.size, batch.last_offset, batch.max_timestamp, index_interval)

    def _cut(self, file: OpenFile) -> None:
        try:
            disk.truncate(file, self.size)
        except OSError as error:
            raise HalfWritten(error.errno, error.strerror) from error

    def note(self, size: int, last_offset: int, max_timestamp: int, index_interval: int) -> None:
        """Account for a batch at the end: add the index entries that Kafka adds, and advance the end.

        Requires `prepare`.
        """
        greatest = self._max_timestamp
        assert greatest is not None
        if max_timestamp > greatest:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        if self._since_index > index_interval:
            self.offsets.append(last_offset - self.base_offset, self.size)
            self._index_time()
            self._count_index_bytes()
            self._since_index = 0
            if self.offsets.unwritten >= ENTRIES_PER_WRITE:
                self._spill()
        self.size += size
        self._since_index += size

    def _spill(self) -> None:
        """Write buffered index entries; keep them on a full disk, because the append itself has succeeded."""
        with contextlib.suppress(OSError):
            self.offsets.spill()
            self.times.spill()

    def _count_index_bytes(self) -> None:
        self.index_bytes = max(self.offsets.size, self.times.size)

    def _index_time(self) -> None:
        timestamp, offset = self.newest()
        if timestamp > self.times.last_key():
            self.times.append(timestamp, offset - self.base_offset)

    def seal(self) -> None:
        """Complete and write the indexes when appends stop. Raises OSError."""
        if self.size and self._max_timestamp is not None:
            self._index_time()
        self.offsets.spill()
        self.times.spill()
        self.aborted.spill()

    def restart(self) -> None:
        """Reset the segment before recovery notes the good batches again. Raises OSError."""
        self.offsets.clear()
        self.times.clear()
        self.aborted.clear()
        self.size = self._since_index = self.index_bytes = 0
        self.verified = VerifiedRanges(0, self.base_offset, None)
        self._max_timestamp, self._max_timestamp_offset = NO_TIMESTAMP, self.base_offset

    def locate(self, offset: int) -> tuple[int, int] | None:
        """Return (position, bytes) of the first batch whose last offset is not below `offset`.

        Raises OSError.
        """
        position, likely = self.offsets.around(offset - self.base_offset)
        if self.verified.needs_clipping:
            for found in self.batches(self._checked_position(position, offset)):
                if found.header.last_offset >= offset:
                    return found.position, found.header.size
            return None
        if likely is not None:
            # If every batch has an index entry, this is the batch.
            named = self._batch_at(likely)
            if named is not None and named[0] <= offset <= named[1]:
                return likely, named[2]
        position = self._checked_position(position, offset)
        file, size = self._files.get(self.path), self.size
        while size - position >= HEADER_BYTES:
            chunk = disk.read_at(file, position, min(_READ_AHEAD, size - position))
            at, last = 0, len(chunk) - HEADER_BYTES
            while at <= last:
                base_offset, length, _, delta = _read_extent(chunk, at)
                if base_offset + delta >= offset:
                    return position + at, length + LENGTH_OVERHEAD
                at += length + LENGTH_OVERHEAD
            position += at
        return None

    def last_extent(self) -> tuple[int, int]:
        """Return one past the last offset and the end position of its batch.

        Reads the headers after the last index entry. The position is before the end of the file if no batch
        follows. Raises OSError.
        """
        count = len(self.offsets)
        position = self.offsets[count - 1][1] if count and self.size else 0
        named = self._batch_at(position) if position else None
        if named is None:
            position = 0
        end, file = self.base_offset, self._files.get(self.path)
        while self.size - position >= HEADER_BYTES:
            chunk = disk.read_at(file, position, min(_READ_AHEAD, self.size - position))
            at, last = 0, len(chunk) - HEADER_BYTES
            while at <= last:
                base_offset, length, magic, delta = _read_extent(chunk, at)
                size = length + LENGTH_OVERHEAD
                if magic != MAGIC or base_offset < end or delta < 0 or not size >= HEADER_BYTES:
                    return end, position + at
                if position + at + size > self.size:
                    return end, position + at
                end = base_offset + delta + 1
                at += size
            position += at
        return end, position

    def near(self, offset: int) -> int:
        """Return the position of a batch at or before the one with `offset`. Raises OSError."""
        return self._checked_position(self.offsets.around(offset - self.base_offset)[0], offset)

    def _checked_position(self, position: int, offset: int) -> int:
        """Return the index's position if a batch before `offset` starts there, else 0."""
        named = self._batch_at(position) if position else None
        return position if named is not None and named[1] < offset else 0

    def _batch_at(self, position: int) -> tuple[int, int, int] | None:
        """Return first offset, last offset and bytes of the batch at a position from the index.

        None if it is invalid: the index has no checksum and may be wrong.
        """
        left = self.size - position
        if not position >= 0 or left < HEADER_BYTES:
            return None
        head = disk.read_at(self._files.get(self.path), position, HEADER_BYTES)
        base_offset, length, magic, delta = _read_extent(head, 0)
        size = length + LENGTH_OVERHEAD
        if magic != MAGIC or base_offset < self.base_offset or delta < 0 or not HEADER_BYTES <= size <= left:
            return None
        return base_offset, base_offset + delta, size

    def batches(self, position: int = 0) -> Iterator[BatchPosition]:
        """Yield the headers from a batch's position on, skipping damaged ranges. Raises OSError."""
        file = self._files.get(self.path)
        start, chunk = position, b""
        while True:
            if self.verified.needs_clipping:
                position, _ = self.verified.clip(self, position, HEADER_BYTES)
            if self.size - position < HEADER_BYTES:
                return
            at = position - start
            if at + HEADER_BYTES > len(chunk):
                start, at = position, 0
                chunk = disk.read_at(file, position, min(_READ_AHEAD, self.size - position))
            header = header_at(chunk, at)
            yield BatchPosition(position, header)
            position += header.size

    def batch(self, found: BatchPosition) -> bytes:
        """Return the batch's bytes. Raises OSError."""
        return disk.read_at(self._files.get(self.path), found.position, found.header.size)

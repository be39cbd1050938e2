"""One file of batches with its indexes: `<base offset>.log`, `.index`, `.timeindex`, `.txnindex` (Kafka's
LogSegment). Also the cached positions of batches in such files.

Owned by a PartitionLog. Appends at the known end and finds batches by offset. The partition decides what to
append, when to roll and what to delete.

The index files have no checksum, so an entry that is read from one is compared with its batch before it is
believed.
"""

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from broker.common.errors import HalfWritten
from broker.common.slices import SLICE, Slices, run_through
from broker.log import disk
from broker.log.aborted_transactions import AbortedTransactions
from broker.log.disk import OpenFile, OpenFiles
from broker.log.index import (
    ENTRIES_PER_WRITE,
    OFFSET_ENTRY,
    TIME_ENTRY,
    IndexRecord,
    SparseIndex,
    parse_record,
    record_of,
    record_text,
)
from broker.log.layout import (
    INDEX_RECORD,
    LOG,
    OFFSET_INDEX,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    segment_file,
)
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

logger = logging.getLogger(__name__)

_READ_AHEAD: Final = 4_096
"""The bytes between two index entries, so that one read usually finds a batch."""

_MAX_UNINDEXED_BYTES: Final = 1_048_576
"""Batches without an entry at the end of a closed or cleanly stopped segment; ours. More indicates that
entries were lost: between two entries are `index.interval.bytes` and one batch, but more after restarts.
"""

_INDEXES: Final = (OFFSET_INDEX, TIME_INDEX, TXN_INDEX, INDEX_RECORD)
"""The files beside the records'."""

_RENAMED: Final = (*_INDEXES, LOG)

_read_extent = EXTENT.unpack_from


class BatchPosition(NamedTuple):
    """A batch in a segment."""

    position: int
    header: BatchHeader


class Extent(NamedTuple):
    """The end of a segment: one past the last offset, the position after its batch, and whether the offset
    index agrees with the batches.
    """

    end_offset: int
    position: int
    is_indexed: bool


class Segment:
    """A segment. `size` is the end visible to readers; `index_bytes` is the size of the larger index."""

    __slots__ = (
        "_files",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_record",
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
        self._record: IndexRecord | None = None
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
        return tuple(self.file(suffix) for suffix in (LOG, *_INDEXES, SNAPSHOT))

    @property
    def index_paths(self) -> tuple[str, ...]:
        """The files beside the records', which may be missing."""
        return tuple(self.file(suffix) for suffix in _INDEXES)

    @property
    def durable_paths(self) -> list[str]:
        """Existing files that must be flushed before recovery may skip the segment."""
        return [path for path in (self.path, *self.index_paths) if disk.exists(path)]

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
        """Read the last entry of the time index, and rebuild the index if that is not the greatest timestamp.

        Retention deletes by this timestamp.
        """
        count = len(self.times)
        greatest = NO_TIMESTAMP, self.base_offset
        named = self._named_by(count - 1) if count else None
        is_right = not count and self._record is None
        if named is not None:
            greatest = named.header.max_timestamp, named.header.last_offset
            is_right = self._record is None or self._record.time_bytes == self.times.size
        if is_right and self._record is None:
            # Few batches follow, or `seal` would have written a record.
            rest = self.batches(named.position if named is not None else 0)
            is_right = not any(found.header.max_timestamp > greatest[0] for found in rest)
        if is_right:
            return greatest
        run_through(self.rebuild_indexes())
        count = len(self.times)
        if not count:
            return NO_TIMESTAMP, self.base_offset
        timestamp, relative = self.times[count - 1]
        return timestamp, self.base_offset + relative

    def _named_by(self, at: int) -> BatchPosition | None:
        """Return the batch that an entry of the time index names.

        None unless it is the first batch with the timestamp, as far as the one before it shows.
        """
        timestamp, relative = self.times[at]
        located = self.locate(self.base_offset + relative) if relative >= 0 else None
        named = next(self.batches(located[0]), None) if located else None
        if named is None or named.header.max_timestamp != timestamp:
            return None
        located = self.locate(named.header.base_offset - 1) if named.position else None
        before = next(self.batches(located[0]), None) if located else None
        if before is not None and before.position < named.position:
            return named if before.header.max_timestamp < timestamp else None
        return named

    def start_of(self, timestamp: int) -> int | None:
        """Return an offset before which every record is older than `timestamp`; None if the time index does
        not agree with the batches. Raises OSError.
        """
        at = self.times.count_to(timestamp) - 1
        if at < 0:
            return self.base_offset
        return None if self._named_by(at) is None else self.base_offset + self.times[at][1]

    def rebuild_indexes(self) -> Slices[None]:
        """Write the offset index and the time index anew from the batches, and report it. Raises OSError."""
        offsets: list[tuple[int, int]] = []
        times: list[tuple[int, int]] = []
        timestamp, named, since_index, position = NO_TIMESTAMP, 0, 0, 0
        is_complete = False
        while not is_complete:
            left = SLICE
            for found in self.batches(position):
                header = found.header
                relative = header.last_offset - self.base_offset
                if header.max_timestamp > timestamp:
                    timestamp, named = header.max_timestamp, relative
                if since_index > _READ_AHEAD:
                    offsets.append((relative, found.position))
                    if timestamp > (times[-1][0] if times else NO_TIMESTAMP):
                        times.append((timestamp, named))
                    since_index = 0
                since_index += header.size
                position = found.position + header.size
                left -= 1
                if not left:
                    break
            else:
                is_complete = True
            if not is_complete:
                yield None
        if timestamp > (times[-1][0] if times else NO_TIMESTAMP):
            times.append((timestamp, named))
        self.offsets.replace(offsets)
        self.times.replace(times)
        if self._record is not None:
            self.keep_record()
        logger.warning(
            "an index did not agree with its log and was rebuilt", extra={"file": self.offsets.path}
        )

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
        has_record = self._record is not None or len(self.aborted) > 0 or self._has_early_maximum()
        self.offsets.spill()
        self.times.spill()
        self.aborted.spill()
        if has_record:
            self.keep_record()

    def _has_early_maximum(self) -> bool:
        """Return whether many batches follow the one with the greatest timestamp."""
        return (
            self._max_timestamp is not None
            and len(self.offsets) > 1
            and self.offsets[len(self.offsets) - 2][0] > self._max_timestamp_offset - self.base_offset
        )

    def keep_record(self) -> None:
        """Write what the indexes contain, if that has changed. Raises OSError."""
        known = self._record
        if known is not None and (known.time_bytes, known.aborted) == (self.times.size, len(self.aborted)):
            return
        record = record_of(self.times.size, len(self.aborted), self.aborted.content())
        disk.replace_file(self.file(INDEX_RECORD), record_text(record))
        self._record = record

    def read_aborted(self) -> bool:
        """Read the record and the aborted transactions.

        Return False, without any, if they do not agree. Raises OSError.
        """
        self._record = parse_record(disk.read_file(self.file(INDEX_RECORD)))
        is_whole = self.aborted.read()
        if self._record is None:
            return is_whole
        content = self.aborted.content()
        found = record_of(self._record.time_bytes, len(self.aborted), content)
        return is_whole and found == self._record

    def restart(self) -> None:
        """Reset the segment before recovery notes the good batches again. Raises OSError."""
        self.offsets.clear()
        self.times.clear()
        self.aborted.clear()
        self._record = None
        disk.remove(self.file(INDEX_RECORD))
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

    def indexed_from(self) -> tuple[int, bool]:
        """Return the position of the batch of the last stored index entry, and whether the index ends right.

        The position is 0 without an entry, and if the entry does not name a batch. Raises OSError.
        """
        last_two = self.offsets.last_two() if self.size else []
        if not last_two:
            return 0, self.size <= _MAX_UNINDEXED_BYTES
        relative, position = last_two[-1]
        named = self._batch_at(position)
        if named is None or named[1] != self.base_offset + relative:
            return 0, False
        before = last_two[0] if len(last_two) > 1 else (-1, -1)
        is_right = (
            before[0] < relative
            and before[1] < position
            and self.size - position - named[2] <= _MAX_UNINDEXED_BYTES
        )
        return position, is_right

    def indexed_offset_from(self, position: int) -> int | None:
        """Return the last offset of an indexed batch at or after `position`; None if the index has none.

        Raises OSError.
        """
        entry = self.offsets.first_from(position)
        named = None if entry is None else self._batch_at(entry[1])
        if entry is None or named is None or entry[1] < position or named[1] != self.base_offset + entry[0]:
            return None
        return named[1]

    def last_extent(self) -> Extent:
        """Return where the batches end, from the headers after the last index entry.

        The position is before the end of the file if no batch follows. Raises OSError.
        """
        position, is_indexed = self.indexed_from()
        end, file = self.base_offset, self._files.get(self.path)
        while self.size - position >= HEADER_BYTES:
            chunk = disk.read_at(file, position, min(_READ_AHEAD, self.size - position))
            at, last = 0, len(chunk) - HEADER_BYTES
            while at <= last:
                base_offset, length, magic, delta = _read_extent(chunk, at)
                size = length + LENGTH_OVERHEAD
                if magic != MAGIC or base_offset < end or delta < 0 or not size >= HEADER_BYTES:
                    return Extent(end, position + at, is_indexed)
                if position + at + size > self.size:
                    return Extent(end, position + at, is_indexed)
                end = base_offset + delta + 1
                at += size
            position += at
        return Extent(end, position, is_indexed)

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


class CachedPosition(NamedTuple):
    """Cached start position for reads at one offset, so that most reads need no index.

    A PartitionLog keeps them in two dictionaries by offset.
    """

    segment: Segment
    position: int
    batch_bytes: int


class PositionLimit:
    """Counts the cached positions of all partitions and drops all of them at the limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0
        self._used: dict[int, dict[int, CachedPosition]] = {}

    def add(self, positions: dict[int, CachedPosition], offset: int, position: CachedPosition) -> None:
        """Cache the position of an offset in `positions`, which belongs to a partition."""
        if self._count >= self._limit:
            for each in self._used.values():
                each.clear()
            self._used.clear()
            self._count = 0
        self._count += 1
        self._used[id(positions)] = positions
        positions[offset] = position

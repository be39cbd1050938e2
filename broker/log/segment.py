"""One file of batches with its two indexes: `<base offset>.log`, `.index`, `.timeindex` (Kafka's LogSegment).

Owned by a PartitionLog. Appends what it is told to, at the position it knows to be the end, and finds batches
by their offsets. Decides nothing: what may be appended, when to roll and what to delete is the partition's
business.
"""

import os
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from broker.log import disk
from broker.log.disk import OpenFile, OpenFiles
from broker.log.index import OFFSET_ENTRY, TIME_ENTRY, SparseIndex
from broker.log.layout import LOG, OFFSET_INDEX, SNAPSHOT, TIME_INDEX, segment_file
from broker.records.header import HEADER_BYTES, NO_TIMESTAMP, BatchHeader, Buffer, header_at

_READ_AHEAD: Final = 4_096
"""What lies between two entries of the index, so that a batch is usually found with one read."""


class Batch(Protocol):
    """What an appended batch tells about itself."""

    size: int
    last_offset: int
    max_timestamp: int


class Found(NamedTuple):
    """A batch in a segment."""

    position: int
    header: BatchHeader


class Segment:
    """`size` is the end that readers may see. `max_timestamp` is -1 where no batch carries a time."""

    __slots__ = (
        "_files",
        "_since_index",
        "base_offset",
        "directory",
        "max_timestamp",
        "max_timestamp_offset",
        "offsets",
        "path",
        "size",
        "times",
    )

    def __init__(self, files: OpenFiles, directory: str, base_offset: int, *, size: int = 0) -> None:
        self._files = files
        self.directory = directory
        self.base_offset = base_offset
        self.path = os.path.join(directory, segment_file(base_offset, LOG))
        self.size = size
        index, times = self.file(OFFSET_INDEX), self.file(TIME_INDEX)
        stored = disk.size_of(index) // OFFSET_ENTRY.size if size else 0
        self.offsets = SparseIndex(files, index, OFFSET_ENTRY, stored=stored)
        stored = disk.size_of(times) // TIME_ENTRY.size if size else 0
        self.times = SparseIndex(files, times, TIME_ENTRY, stored=stored)
        self._since_index = 0
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        if stored:
            self.max_timestamp, offset = self.times[stored - 1]
            self.max_timestamp_offset = base_offset + offset

    def file(self, suffix: str) -> str:
        return os.path.join(self.directory, segment_file(self.base_offset, suffix))

    @property
    def files(self) -> tuple[str, ...]:
        """Everything that goes when the segment goes."""
        return tuple(self.file(suffix) for suffix in (LOG, OFFSET_INDEX, TIME_INDEX, SNAPSHOT))

    def open(self) -> OpenFile:
        """Raises OSError."""
        return self._files.get(self.path)

    def append(self, buffers: Sequence[Buffer], batches: Sequence[Batch], index_interval: int) -> None:
        """Buffers are the bytes of the batches, one each. Raises OSError, and then nothing of it is in the
        segment.
        """
        file = self._files.get(self.path)
        try:
            disk.write_at(file, buffers, self.size)
        except OSError:
            disk.truncate(file, self.size)
            raise
        for batch in batches:
            self.note(batch, index_interval)

    def note(self, batch: Batch, index_interval: int) -> None:
        """The batch lies at the end of what is known: makes the index entries that Kafka makes, and moves the
        end.
        """
        if batch.max_timestamp > self.max_timestamp:
            self.max_timestamp = batch.max_timestamp
            self.max_timestamp_offset = batch.last_offset
        if self._since_index > index_interval:
            self.offsets.append(batch.last_offset - self.base_offset, self.size)
            self._index_time()
            self._since_index = 0
        self.size += batch.size
        self._since_index += batch.size

    def _index_time(self) -> None:
        if self.max_timestamp > self.times.last_key:
            self.times.append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)

    def spill(self) -> None:
        """Writes index entries when many have been collected. Raises OSError."""
        self.offsets.spill()
        self.times.spill()

    def seal(self) -> None:
        """Nothing is appended for now: the indexes are completed and written. Raises OSError."""
        self._index_time()
        self.offsets.spill(all_of_it=True)
        self.times.spill(all_of_it=True)

    def locate(self, offset: int) -> Found | None:
        """The first batch whose last offset is not below `offset`. Raises OSError."""
        entry = self.offsets.at_or_before(offset - self.base_offset)
        for found in self.batches(entry[1] if entry else 0):
            if found.header.last_offset >= offset:
                return found
        return None

    def batches(self, position: int = 0) -> Iterator[Found]:
        """The headers from a batch's position on. Raises OSError."""
        file = self._files.get(self.path)
        start, chunk = position, b""
        while position < self.size:
            at = position - start
            if at + HEADER_BYTES > len(chunk):
                start, at = position, 0
                chunk = disk.read_at(file, position, min(_READ_AHEAD, self.size - position))
                if len(chunk) < HEADER_BYTES:
                    return
            header = header_at(chunk, at)
            if header.length < HEADER_BYTES - 12:
                return
            yield Found(position, header)
            position += header.size

"""Reads a segment batch by batch and tells good bytes from bad ones.

Called by recovery for whole segments and by a Segment for a stretch that nobody has checked since the start.
Knows the bytes of a file and what a batch looks like; what follows from a bad one is decided elsewhere.

Bytes behind a bad stretch are not given up: a batch carries a magic number, a length and a CRC over nearly
all of it, so the next good one is found by trying, and nothing but the damaged bytes is lost.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from broker.log.disk import OpenFile, read_at
from broker.records.header import (
    CRC_FROM,
    HEADER_BYTES,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    header_at,
)

_CHUNK: Final = 262_144
_LARGEST_BATCH: Final = 268_435_456
"""More than any request can carry: a length beyond it is damage, and is not read."""

_FARTHEST: Final = 0x7FFF_FFFF
_MAGIC_BYTE: Final = bytes([MAGIC])


class Found(NamedTuple):
    """A batch in a segment."""

    position: int
    header: BatchHeader


class Damage(NamedTuple):
    """Bytes of a segment, from `start` to before `end`, that are no good batches."""

    start: int
    end: int


def scan(
    file: OpenFile, position: int, end: int, expected: int, *, exact: bool, ceiling: int | None
) -> Iterator[Found | Damage]:
    """Everything from `position` to `end` in order, batches whole and with a good CRC.

    The CRC does not cover a batch's offset, so that is checked against its neighbours'. `expected` is the
    offset that the first batch has, if `exact`, or the least that it may have. Later ones follow without a
    gap, unless the batch behind agrees with the gap. All offsets are below `ceiling`; where that is not
    known, the last batch may not leave a gap. Raises OSError.
    """
    window = _Window(file, position, end, ceiling)
    while position < end:
        header = window.good_batch(position, expected, exact=exact)
        if header is None:
            start = position
            position = window.next_good(start + 1, expected)
            exact = False
            yield Damage(start, position)
        else:
            yield Found(position, header)
            position += header.size
            expected = header.last_offset + 1
            exact = True


class _Window:
    """A part of the file in memory, moved along."""

    __slots__ = ("_ceiling", "_chunk", "_end", "_file", "_start")

    def __init__(self, file: OpenFile, position: int, end: int, ceiling: int | None) -> None:
        self._file = file
        self._start = position
        self._end = end
        self._ceiling = ceiling
        self._chunk = memoryview(b"")

    def good_batch(self, position: int, expected: int, *, exact: bool) -> BatchHeader | None:
        if self._end - position < HEADER_BYTES:
            return None
        at = self._show(position, HEADER_BYTES)
        header = header_at(self._chunk, at)
        size = header.size
        if (
            header.magic != MAGIC
            or not HEADER_BYTES <= size <= min(self._end - position, _LARGEST_BATCH)
            or not expected <= header.base_offset <= expected + _FARTHEST
            or header.last_offset_delta < 0
        ):
            return None
        at = self._show(position, size)
        if crc32c(self._chunk[at + CRC_FROM : at + size]) != header.crc:
            return None
        if exact and header.base_offset == expected:
            return header
        return header if self._agrees(position + size, header.last_offset, exact) else None

    def _agrees(self, position: int, last_offset: int, exact: bool) -> bool:
        """Whether what stands behind a batch speaks for its offsets."""
        if self._end - position >= HEADER_BYTES:
            at = self._show(position, HEADER_BYTES)
            return header_at(self._chunk, at).base_offset > last_offset
        return not exact if self._ceiling is None else last_offset < self._ceiling

    def next_good(self, position: int, expected: int) -> int:
        """The position of the next good batch, or the end."""
        while self._end - position >= HEADER_BYTES:
            at = self._show(position, HEADER_BYTES)
            chunk, start = self._chunk.obj, self._start
            assert isinstance(chunk, bytes)
            found = chunk.find(_MAGIC_BYTE, at + MAGIC_AT)
            if found < 0:
                position = start + len(chunk) - MAGIC_AT
                continue
            position = start + found - MAGIC_AT
            if self.good_batch(position, expected, exact=False) is not None:
                return position
            position += 1
        return self._end

    def _show(self, position: int, length: int) -> int:
        """Where in the chunk `position` is, with `length` bytes behind it, which exist."""
        at = position - self._start
        if at < 0 or at + length > len(self._chunk):
            wanted = min(max(length, _CHUNK), self._end - position)
            self._chunk = memoryview(read_at(self._file, position, wanted))
            self._start = position
            at = 0
        return at

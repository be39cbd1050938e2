"""Scans a segment batch by batch and separates good bytes from damaged ones.

Called by recovery for whole segments and by a Segment for ranges not yet verified since startup. The callers
decide how to handle damage.

Bytes after damage are still usable: a batch has a magic number, a length and a CRC over nearly all of it, so
the scan tries positions until it finds the next good batch, and only the damaged bytes are lost.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from crc32c import crc32c

from broker.log.disk import OpenFile, read_at
from broker.log.index import MAX_RELATIVE_OFFSET
from broker.records.header import (
    CRC_FROM,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    HeaderFields,
)

_CHUNK: Final = 262_144
_MAX_BATCH_BYTES: Final = 268_435_456
"""More than any request can carry: a larger length is damage and is not read."""

_MAGIC_BYTE: Final = bytes([MAGIC])
_unpack = HEADER.unpack_from


Good: TypeAlias = tuple[int, HeaderFields]
"""Position and header of a good batch. Plain tuples: recovery creates millions of them."""


class Damage(NamedTuple):
    """Bytes of a segment, from `start` to before `end`, that are not valid batches."""

    start: int
    end: int


def scan(
    file: OpenFile, position: int, end: int, expected: int, *, exact: bool, ceiling: int | None
) -> Iterator[list[Good] | Damage]:
    """Yield runs of good batches and damage, from `position` to `end` in order.

    A good batch is complete and has a good CRC. The CRC does not cover a batch's offset, so the scan checks
    it against the neighbouring batches. `expected` is the first batch's offset if `exact`, else its minimum.
    Later batches must follow without a gap, unless the next batch confirms the gap. All offsets are below
    `ceiling`; if that is unknown, no gap is allowed before the last batch. Raises OSError.
    """
    window = _Window(file, position, end, ceiling)
    while position < end:
        run = window.good_run(position, expected, exact=exact)
        if run:
            position, header = run[-1]
            position += header[1] + LENGTH_OVERHEAD
            expected = header[0] + header[6] + 1
            exact = True
            yield run
        else:
            start = position
            position = window.next_good(start + 1, expected)
            exact = False
            yield Damage(start, position)


class _Window:
    """A sliding part of the file in memory."""

    def __init__(self, file: OpenFile, position: int, end: int, ceiling: int | None) -> None:
        self._file = file
        self._start = position
        self._end = end
        self._ceiling = ceiling
        self._chunk = memoryview(b"")

    def good_run(self, position: int, expected: int, *, exact: bool) -> list[Good]:
        """Return consecutive good batches from `position` on, up to about one chunk."""
        first = self.good_batch(position, expected, exact=exact)
        if first is None:
            return []
        run: list[Good] = [(position, first)]
        chunk, start = self._chunk, self._start
        size = len(chunk)
        at = position - start + first[1] + LENGTH_OVERHEAD
        expected = first[0] + first[6] + 1
        while at + HEADER_BYTES <= size:
            header: HeaderFields = _unpack(chunk, at)
            base_offset, length, _, magic, crc, _, delta, *_ = header
            following = at + length + LENGTH_OVERHEAD
            if (
                base_offset != expected
                or magic != MAGIC
                or length < HEADER_BYTES - LENGTH_OVERHEAD
                or following > size
                or delta < 0
                or crc32c(chunk[at + CRC_FROM : following]) != crc
            ):
                break
            run.append((start + at, header))
            expected = base_offset + delta + 1
            at = following
        return run

    def good_batch(self, position: int, expected: int, *, exact: bool) -> HeaderFields | None:
        """Return the header of the batch at `position` if it passes every check."""
        if self._end - position < HEADER_BYTES:
            return None
        at = self._load(position, HEADER_BYTES)
        header: HeaderFields = _unpack(self._chunk, at)
        base_offset, length, _, magic, crc, _, delta, *_ = header
        size = length + LENGTH_OVERHEAD
        if (
            magic != MAGIC
            or not HEADER_BYTES <= size <= min(self._end - position, _MAX_BATCH_BYTES)
            or not expected <= base_offset <= expected + MAX_RELATIVE_OFFSET
            or delta < 0
        ):
            return None
        at = self._load(position, size)
        if crc32c(self._chunk[at + CRC_FROM : at + size]) != crc:
            return None
        if exact and base_offset == expected:
            return header
        return header if self._confirms_offsets(position + size, base_offset + delta, exact) else None

    def _confirms_offsets(self, position: int, last_offset: int, exact: bool) -> bool:
        """Return whether the bytes after a batch confirm its offsets."""
        if self._end - position >= HEADER_BYTES:
            at = self._load(position, HEADER_BYTES)
            following: HeaderFields = _unpack(self._chunk, at)
            return following[0] > last_offset
        return not exact if self._ceiling is None else last_offset < self._ceiling

    def next_good(self, position: int, expected: int) -> int:
        """Return the position of the next good batch, or the end."""
        while self._end - position >= HEADER_BYTES:
            at = self._load(position, HEADER_BYTES)
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

    def _load(self, position: int, length: int) -> int:
        """Load `length` bytes at `position`, which exist, and return their index in the chunk."""
        at = position - self._start
        if at < 0 or at + length > len(self._chunk):
            wanted = min(max(length, _CHUNK), self._end - position)
            self._chunk = memoryview(read_at(self._file, position, wanted))
            self._start = position
            at = 0
        return at

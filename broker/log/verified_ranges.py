"""Which bytes of a segment are verified, so that corrupt data is never sent to a reader, and the scan that
separates good bytes from damaged ones, batch by batch.

VerifiedRanges is owned by a Segment. Bytes appended by this process and bytes scanned by recovery are
verified; bytes from before a clean shutdown are verified on first read. Damaged ranges are skipped: a reader
sees a gap in the offsets, as in a compacted log, and the operator a report.
"""

import logging
from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol, TypeAlias

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

logger = logging.getLogger(__name__)

_CHUNK: Final = 262_144
_MAX_BATCH_BYTES: Final = 268_435_456
"""More than any request can carry: a larger length is damage and is not read."""

_MAGIC_BYTE: Final = bytes([MAGIC])
_unpack = HEADER.unpack_from

_MIN_CHECKED_BYTES: Final = 262_144

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

    Recovery scans whole segments, and VerifiedRanges what was not verified since startup; they decide how to
    handle damage. Bytes after damage are still usable: a batch has a magic number, a length and a CRC over
    nearly all of it, so the scan tries positions until it finds the next good batch, and only the damaged
    bytes are lost.

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


class SegmentFile(Protocol):
    """The part of a Segment that a check reads."""

    path: str
    base_offset: int
    size: int

    def open(self) -> OpenFile: ...


class VerifiedRanges:
    """While `needs_clipping`, a slice must be clipped before it is sent.

    `damage` is sorted; its ranges do not touch.
    """

    __slots__ = (
        "_ceiling",
        "_checked",
        "_exact",
        "_expected",
        "_good_from",
        "_good_to",
        "damage",
        "needs_clipping",
    )

    def __init__(self, unproven: int, base_offset: int, ceiling: int | None) -> None:
        """Mark the first `unproven` bytes as unverified; bytes appended after them are good.

        The unverified batches start at `base_offset` and end below `ceiling`.
        """
        self._good_to = 0
        self._good_from = unproven
        self._expected = base_offset
        self._exact = True
        self._ceiling = ceiling
        self._checked = (0, 0)
        self.damage: list[Damage] = []
        self.needs_clipping = unproven > 0

    def note_damage(self, found: Damage) -> None:
        if found not in self.damage:
            self.damage.append(found)
            self.damage.sort()
        self.needs_clipping = True

    def forget_tail(self, size: int) -> None:
        """Drop damage beyond `size`, to which the segment was truncated."""
        self.damage = [stretch for stretch in self.damage if stretch.start < size]
        self.needs_clipping = self.needs_clipping and (bool(self.damage) or self._good_to < self._good_from)

    def clip(self, segment: SegmentFile, position: int, length: int) -> tuple[int, int]:
        """Return (position, length) of the first undamaged part of a slice.

        The length is 0 at the segment's end. `position` is an expected batch start; it moves past damage
        found there. Raises OSError.
        """
        while True:
            end = min(position + length, segment.size)
            self._check(segment, position, end)
            for damage in self.damage:
                if damage.start <= position < damage.end:
                    position = damage.end
                    break
                if position < damage.start < end:
                    return position, damage.start - position
            else:
                return position, max(end - position, 0)

    def _check(self, segment: SegmentFile, position: int, end: int) -> None:
        """Verify the batches from `position` to past `end`, unless already verified."""
        checked_from, checked_to = self._checked
        if (
            end <= self._good_to
            or position >= self._good_from
            or checked_from <= position < end <= checked_to
        ):
            return
        enough = min(max(end, position + _MIN_CHECKED_BYTES), self._good_from)
        in_order = position <= self._good_to
        if in_order:
            position = self._good_to
        start, expected, exact = position, self._expected, self._exact
        if not in_order:
            expected, exact = segment.base_offset, False
        for found in scan(
            segment.open(), position, self._good_from, expected, exact=exact, ceiling=self._ceiling
        ):
            if isinstance(found, Damage):
                if found not in self.damage:
                    where = f"{segment.path}: bytes {found.start} to {found.end}"
                    logger.error("damaged records are not served", extra={"where": where})
                self.note_damage(found)
                position, exact = found.end, False
            else:
                position, header = found[-1]
                position += header[1] + LENGTH_OVERHEAD
                expected, exact = header[0] + header[6] + 1, True
                if position >= enough:
                    break
        self._checked = (start, position)
        if in_order:
            self._good_to, self._expected, self._exact = position, expected, exact
            if position >= self._good_from:
                self.needs_clipping = bool(self.damage)

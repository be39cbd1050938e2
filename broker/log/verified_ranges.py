"""Tracks which bytes of a segment are verified, so that corrupt data is never sent to a reader.

Owned by a Segment. Bytes appended by this process and bytes scanned by recovery are verified; bytes from
before a clean shutdown are verified on first read. Damaged ranges are skipped: a reader sees a gap in the
offsets, as in a compacted log, and the operator a report.
"""

import logging
from typing import Final, Protocol

from broker.log.disk import OpenFile
from broker.log.scan import Damage, scan
from broker.records.header import LENGTH_OVERHEAD

logger = logging.getLogger(__name__)

_MIN_CHECKED_BYTES: Final = 262_144


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

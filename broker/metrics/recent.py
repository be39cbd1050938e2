"""Counts of the last minutes in intervals of 5 s, for several metrics at once.

Used for clients' usage, of which there are many: one array, however much is counted. No clock.
"""

from array import array
from typing import Final

STRETCH_MS: Final = 5_000
STRETCHES: Final = 60
"""Five minutes, including the present interval."""


class Recent:
    """A ring of `STRETCHES` rows of `width` integers."""

    __slots__ = ("_newest", "_rows", "_width")

    def __init__(self, width: int, now_ms: int) -> None:
        self._width = width
        self._rows = array("q", bytes(8 * width * STRETCHES))
        self._newest = now_ms // STRETCH_MS

    def add(self, values: tuple[int, ...], now_ms: int) -> None:
        """Add `values`, one for each metric, to the interval of `now_ms`."""
        self._turn(now_ms)
        first = self._newest % STRETCHES * self._width
        for index, value in enumerate(values, first):
            self._rows[index] += value

    def per_second(self, seen_ms: int, now_ms: int) -> list[float]:
        """Return the rate of each metric over the present interval and the two before it.

        Divides by `seen_ms` if the client is younger, and by at least a second.
        """
        stretches = 3
        span_ms = now_ms % STRETCH_MS + (stretches - 1) * STRETCH_MS
        seconds = max(min(span_ms, seen_ms), 1_000) / 1000.0
        rows = self.rows(now_ms)[-stretches:]
        return [sum(column) / seconds for column in zip(*rows, strict=True)]

    def rows(self, now_ms: int) -> list[tuple[int, ...]]:
        """Return all intervals, from the oldest to the present one."""
        self._turn(now_ms)
        width, rows = self._width, self._rows
        starts = ((self._newest + 1 + index) % STRETCHES * width for index in range(STRETCHES))
        return [tuple(rows[start : start + width]) for start in starts]

    def _turn(self, now_ms: int) -> None:
        """Clear the intervals that have begun since, possibly more than the ring has."""
        now = now_ms // STRETCH_MS
        if now <= self._newest:
            return
        for stretch in range(max(self._newest, now - STRETCHES) + 1, now + 1):
            start = stretch % STRETCHES * self._width
            self._rows[start : start + self._width] = array("q", bytes(8 * self._width))
        self._newest = now

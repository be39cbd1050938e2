"""What was counted in each stretch of the last minutes, for several figures at once.

Used for the clients' accounts, of which there are many: one array, however much is counted. Knows no clock.
"""

from array import array
from typing import Final

STRETCH_MS: Final = 5_000
STRETCHES: Final = 60
"""Five minutes, the present stretch included."""


class Recent:
    """A ring of `STRETCHES` rows of `width` whole numbers."""

    __slots__ = ("_newest", "_rows", "_width")

    def __init__(self, width: int, now_ms: int) -> None:
        self._width = width
        self._rows = array("q", bytes(8 * width * STRETCHES))
        self._newest = now_ms // STRETCH_MS

    def add(self, values: tuple[int, ...], now_ms: int) -> None:
        """Counts `values`, one for each figure, in the stretch of this moment."""
        self._turn(now_ms)
        first = self._newest % STRETCHES * self._width
        for index, value in enumerate(values, first):
            self._rows[index] += value

    def per_second(self, seen_ms: int, now_ms: int) -> list[float]:
        """The rate of each figure over the present stretch and the two before it, or over `seen_ms` if what
        counts is younger than these; over a second at least.
        """
        stretches = 3
        span_ms = now_ms % STRETCH_MS + (stretches - 1) * STRETCH_MS
        seconds = max(min(span_ms, seen_ms), 1_000) / 1000.0
        rows = self.rows(now_ms)[-stretches:]
        return [sum(column) / seconds for column in zip(*rows, strict=True)]

    def rows(self, now_ms: int) -> list[tuple[int, ...]]:
        """All stretches, the oldest first and the present one last."""
        self._turn(now_ms)
        width, rows = self._width, self._rows
        starts = ((self._newest + 1 + index) % STRETCHES * width for index in range(STRETCHES))
        return [tuple(rows[start : start + width]) for start in starts]

    def _turn(self, now_ms: int) -> None:
        """Clears the stretches that have begun since, of which there may be more than the ring has."""
        now = now_ms // STRETCH_MS
        if now <= self._newest:
            return
        for stretch in range(max(self._newest, now - STRETCHES) + 1, now + 1):
            start = stretch % STRETCHES * self._width
            self._rows[start : start + self._width] = array("q", bytes(8 * self._width))
        self._newest = now

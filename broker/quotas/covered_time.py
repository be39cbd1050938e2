"""The time that intervals cover until now, with overlaps counted once.

Used for the throttles of limits in shadow mode. An interval counts as it passes, so the total never grows
faster than the clock. Independent of usage and rules; times are in ms and never go back.
"""


class CoveredTime:
    __slots__ = ("_covered_ms", "_from_ms", "_until_ms")

    def __init__(self) -> None:
        self._covered_ms = self._from_ms = self._until_ms = 0

    def add(self, duration_ms: int, now_ms: int) -> None:
        """Add the interval that begins at `now_ms`, which is not before the last one's begin."""
        self._covered_ms = self.at(now_ms)
        self._from_ms = now_ms
        self._until_ms = max(self._until_ms, now_ms + duration_ms)

    def at(self, now_ms: int) -> int:
        """Return the time that the intervals cover until `now_ms`."""
        return self._covered_ms + max(min(self._until_ms, now_ms) - self._from_ms, 0)

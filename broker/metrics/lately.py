"""Mean and maximum of recent values. (Kafka: Avg and Max over two samples of 30 seconds)

For values too rare for `histogram`. Uses two windows, the present one and the one before it, so results
cover the last 30 to 60 seconds. No units and no clock.
"""

from typing import Final

WINDOW_MS: Final = 30_000


class Lately:
    __slots__ = ("_before", "_begun", "_now")

    def __init__(self) -> None:
        self._begun = 0
        self._now = self._before = (0, 0, 0)

    def add(self, value: int, now_ms: int) -> None:
        self._turn(now_ms)
        count, total, most = self._now
        self._now = (count + 1, total + value, max(most, value))

    def look(self, now_ms: int) -> tuple[float, int]:
        """Return mean and maximum; 0 without values."""
        self._turn(now_ms)
        (count, total, most), (count_before, total_before, most_before) = self._now, self._before
        count += count_before
        return (total + total_before) / count if count else 0.0, max(most, most_before)

    def _turn(self, now_ms: int) -> None:
        window = now_ms // WINDOW_MS
        if window > self._begun:
            self._before = self._now if window == self._begun + 1 else (0, 0, 0)
            self._now = (0, 0, 0)
            self._begun = window

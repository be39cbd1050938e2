"""Counter, Gauge and Histogram: what a request touches many times, so nothing but an add.

Built by `metrics.registry`, held by whoever counts (resolve the series once, then `series.value += n`). Knows
no names, no labels and no clock, except that a histogram's recent quantiles are asked for with the time.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from typing import Final

LATENCY_MS: Final = (
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 50.0, 75.0, 100.0),
    *(150.0, 200.0, 300.0, 500.0, 750.0, 1_000.0, 2_000.0, 5_000.0, 10_000.0, 30_000.0, 60_000.0),
)
"""Upper bounds in milliseconds, from ten microseconds (a cached answer) to a minute (a parked fetch)."""

SIZE_BYTES: Final = tuple(float(1 << power) for power in range(6, 28))
"""Upper bounds in bytes, doubling from 64 B to 128 MiB."""

RECENT_MS: Final = 300_000
"""How far back recent quantiles look. Kafka's reservoir also forgets within about five minutes."""

SNAPSHOT_EVERY_MS: Final = 60_000


class Counter:
    """Only ever goes up: `counter.value += n`."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: int | float = 0


class Gauge:
    """Set to what is true now: `gauge.value = n`."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: int | float = 0


class Histogram:
    """Counts of values in fixed buckets.

    `bounds` are ascending upper bounds, inclusive; one more bucket holds the rest.
    """

    __slots__ = ("_snapshots", "bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float] = LATENCY_MS) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0
        self._snapshots: deque[tuple[int, list[int]]] = deque()

    def record(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.counts)

    def quantile(self, q: float) -> float:
        """The value below which a share `q` of all that was recorded lies; NaN if empty.

        Linear within its bucket.
        """
        return self._quantile(q, self.counts)

    def recent_quantiles(self, qs: Sequence[float], now_ms: int) -> list[float]:
        """As `quantile`, over the last five minutes, or since anybody last asked if that is longer."""
        base = self._roll(now_ms)
        recent = [count - before for count, before in zip(self.counts, base, strict=True)]
        return [self._quantile(q, recent) for q in qs]

    def _roll(self, now_ms: int) -> list[int]:
        """Remembers the counts once a minute and returns those that recent ones are measured from."""
        snapshots = self._snapshots
        if not snapshots:
            snapshots.append((now_ms, [0] * len(self.counts)))
        elif now_ms - snapshots[-1][0] >= SNAPSHOT_EVERY_MS:
            snapshots.append((now_ms, self.counts.copy()))
        while len(snapshots) > 1 and now_ms - snapshots[1][0] >= RECENT_MS:
            snapshots.popleft()
        return snapshots[0][1]

    def _quantile(self, q: float, counts: Sequence[int]) -> float:
        wanted = q * sum(counts)
        below = 0
        for index, count in enumerate(counts):
            if count and below + count >= wanted:
                if index == len(self.bounds):
                    return self.bounds[-1]
                low = self.bounds[index - 1] if index else 0.0
                return low + (self.bounds[index] - low) * (wanted - below) / count
            below += count
        return float("nan")

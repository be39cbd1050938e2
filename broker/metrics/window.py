"""A value measured over the last few windows of time. (Kafka: SampledStat and its subclasses)

Used by `metrics.rate`, by sensors and by everything that reports an average or a maximum. Knows no clock:
every call is told `now_ms`, and measuring changes the state, because samples that fell out of sight are reset
then.

A ring of `samples + 1` samples is kept: one more than is asked for, since the oldest one overlaps the edge of
what is looked at. A sample is full when `now - start >= window_ms`; it is forgotten when `now - last event >=
samples * window_ms`.
"""

from dataclasses import dataclass
from math import inf, nan


@dataclass(frozen=True, slots=True)
class Window:
    """How long to look back: `samples` stretches of `window_ms` each, the present one included.

    The defaults are Kafka's `metrics.num.samples` and `metrics.sample.window.ms`.
    """

    samples: int = 2
    window_ms: int = 30_000


class SampledStat:
    """Sums what is recorded; the subclasses differ in what a sample keeps and how samples are combined."""

    __slots__ = (
        *("_counts", "_current", "_expire_ms", "_lasts", "_oldest_start", "_quiet_since", "_ring", "_starts"),
        *("_values", "_window_ms", "window"),
    )

    INITIAL = 0.0

    def __init__(self, window: Window) -> None:
        self.window = window
        self._window_ms = window.window_ms
        self._expire_ms = window.samples * window.window_ms
        self._ring = window.samples + 1
        self._current = 0
        # One list per field instead of one object per sample: summing is the hottest loop of a quota.
        self._starts: list[int] = []
        self._lasts: list[int] = []
        self._values: list[float] = []
        self._counts: list[int] = []
        self._oldest_start = 0
        self._quiet_since = 0

    def record(self, value: float, now_ms: int) -> None:
        """Adds `value` to the sample of this moment; a negative one takes back what was recorded."""
        index = self._current
        starts = self._starts
        if not starts or now_ms - starts[index] >= self._window_ms:
            index = self._open(now_ms)
        self._values[index] += value
        self._counts[index] += 1
        self._lasts[index] = now_ms
        if now_ms < self._quiet_since:
            self._quiet_since = now_ms

    def measure(self, now_ms: int) -> float:
        """The sum over the samples in sight."""
        self.forget(now_ms)
        # A loop, not sum(): from Python 3.12 on sum() compensates for rounding, and the last bits are
        # compared with Kafka's.
        total = 0.0
        for value in self._values:
            total += value
        return total

    def forget(self, now_ms: int) -> None:
        """Resets every sample whose last event is `samples * window_ms` ago or longer."""
        # No sample is older than _quiet_since, so most calls end here.
        if now_ms - self._quiet_since < self._expire_ms:
            return
        for index, last_ms in enumerate(self._lasts):
            if now_ms - last_ms >= self._expire_ms:
                self._reset(index, now_ms)
        self._note_edges()

    def oldest_start(self, now_ms: int) -> int:
        """When the oldest sample began. One begins now if there is none: measuring is also a beginning."""
        if not self._starts:
            self._open(now_ms)
        return self._oldest_start

    @property
    def live_samples(self) -> int:
        """How many samples hold at least one event."""
        return sum(1 for count in self._counts if count)

    @property
    def events(self) -> int:
        """How many events the samples hold, since the last `measure`."""
        return sum(self._counts)

    def _open(self, now_ms: int) -> int:
        """Begins the next sample of the ring and returns its index."""
        starts = self._starts
        if starts:
            self._current = (self._current + 1) % self._ring
        index = self._current
        if index == len(starts):
            starts.append(now_ms)
            self._lasts.append(now_ms)
            self._values.append(self.INITIAL)
            self._counts.append(0)
        else:
            self._reset(index, now_ms)
        self._note_edges()
        return index

    def _reset(self, index: int, now_ms: int) -> None:
        self._starts[index] = now_ms
        self._lasts[index] = now_ms
        self._values[index] = self.INITIAL
        self._counts[index] = 0

    def _note_edges(self) -> None:
        if self._starts:
            self._oldest_start = min(self._starts)
            self._quiet_since = min(self._lasts)


class WindowedSum(SampledStat):
    """The sum in sight; 0 when there is nothing."""

    __slots__ = ()


class WindowedCount(SampledStat):
    """How many events are in sight, whatever their values; 0 when there are none."""

    __slots__ = ()

    def record(self, value: float, now_ms: int) -> None:
        super().record(1.0, now_ms)


class Avg(SampledStat):
    """The mean of the events in sight; NaN when there are none."""

    __slots__ = ()

    def measure(self, now_ms: int) -> float:
        total = super().measure(now_ms)
        events = self.events
        return total / events if events else nan


class Max(SampledStat):
    """The largest event in sight; NaN when there are none."""

    __slots__ = ()

    INITIAL = -inf

    def record(self, value: float, now_ms: int) -> None:
        super().record(0.0, now_ms)
        self._values[self._current] = max(self._values[self._current], value)

    def measure(self, now_ms: int) -> float:
        self.forget(now_ms)
        return max(self._values) if self.events else nan


class Min(SampledStat):
    """The smallest event in sight; NaN when there are none."""

    __slots__ = ()

    INITIAL = inf

    def record(self, value: float, now_ms: int) -> None:
        super().record(0.0, now_ms)
        self._values[self._current] = min(self._values[self._current], value)

    def measure(self, now_ms: int) -> float:
        self.forget(now_ms)
        return min(self._values) if self.events else nan

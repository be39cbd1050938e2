"""A value measured over the last few windows of time. (Kafka: SampledStat and its subclasses)

Used by `metrics.rate`, by sensors and by every average or maximum. No clock: every call takes `now_ms`, and
measuring changes the state, because it resets expired samples.

A ring of `samples + 1` samples is kept: one more than configured, since the oldest one overlaps the edge of
the measured time. A sample is full when `now - start >= window_ms`; it expires when `now - last event >=
samples * window_ms`.
"""

from dataclasses import dataclass
from math import inf, isnan, nan
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Window:
    """The measured time: `samples` intervals of `window_ms` each, including the present one.

    The defaults are Kafka's `metrics.num.samples` and `metrics.sample.window.ms`.
    """

    samples: int = 2
    window_ms: int = 30_000


class SampledStat:
    """The sum of the recorded values; subclasses differ in the value of a sample and in how samples are
    combined.
    """

    __slots__ = (
        "_counts",
        "_current",
        "_expire_ms",
        "_lasts",
        "_oldest_start",
        "_quiet_since",
        "_ring",
        "_starts",
        "_values",
        "_window_ms",
        "window",
    )

    INITIAL: ClassVar[float] = 0.0

    def __init__(self, window: Window) -> None:
        self.window = window
        self._window_ms = window.window_ms
        self._expire_ms = window.samples * window.window_ms
        self._ring = window.samples + 1
        self._current = 0
        # One list per field instead of one object per sample: the sum is the hottest loop of a quota.
        self._starts: list[int] = []
        self._lasts: list[int] = []
        self._values: list[float] = []
        self._counts: list[int] = []
        self._oldest_start = 0
        self._quiet_since = 0

    def record(self, value: float, now_ms: int) -> None:
        """Add `value` to the present sample; a negative value takes back an earlier one."""
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
        """Return the sum over the live samples."""
        self.forget(now_ms)
        # A loop, not sum(): from Python 3.12 on sum() compensates for rounding, and tests compare the last
        # bits with Kafka's.
        total = 0.0
        for value in self._values:
            total += value
        return total

    def recent(self, now_ms: int, windows: int) -> tuple[float, int, int]:
        """Return the sum and the number of the events of the last `windows` windows, including the present
        one, and the milliseconds since the first of them began, at least one window. Changes nothing.
        """
        since_ms = now_ms - windows * self._window_ms
        total, events, first_ms = 0.0, 0, now_ms - self._window_ms
        for index, start_ms in enumerate(self._starts):
            if start_ms > since_ms:
                total += self._values[index]
                events += self._counts[index]
                first_ms = min(first_ms, start_ms)
        return total, events, now_ms - first_ms

    def measure_or_zero(self, now_ms: int) -> float:
        """Return `measure`, with 0 instead of NaN: metrics and JSON show no events as 0."""
        value = self.measure(now_ms)
        return 0.0 if isnan(value) else value

    def forget(self, now_ms: int) -> None:
        """Reset every sample whose last event is `samples * window_ms` ago or longer."""
        # No sample is older than _quiet_since, so most calls end here.
        if now_ms - self._quiet_since < self._expire_ms:
            return
        for index, last_ms in enumerate(self._lasts):
            if now_ms - last_ms >= self._expire_ms:
                self._reset(index, now_ms)
        self._note_edges()

    def oldest_start(self, now_ms: int) -> int:
        """Return the start of the oldest sample; without a sample, begin one now."""
        if not self._starts:
            self._open(now_ms)
        return self._oldest_start

    @property
    def events(self) -> int:
        """The number of events in the samples, as of the last `measure`."""
        return sum(self._counts)

    def _open(self, now_ms: int) -> int:
        """Begin the next sample of the ring and return its index."""
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


class Avg(SampledStat):
    """The mean of the live events; NaN without events."""

    __slots__ = ()

    def measure(self, now_ms: int) -> float:
        total = super().measure(now_ms)
        events = self.events
        return total / events if events else nan


class Max(SampledStat):
    """The largest live event; NaN without events."""

    __slots__ = ()

    INITIAL: ClassVar[float] = -inf

    def record(self, value: float, now_ms: int) -> None:
        super().record(0.0, now_ms)
        self._values[self._current] = max(self._values[self._current], value)

    def measure(self, now_ms: int) -> float:
        self.forget(now_ms)
        return max(self._values) if self.events else nan

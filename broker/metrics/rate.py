"""Values measured over windows of time: sums, averages, rates, and the throttle time of a violated quota.
(Kafka: SampledStat, Rate, SimpleRate, Meter, TokenBucket, QuotaUtils)

`Rate` is for byte, request and connection quotas; `SimpleRate` is for the replication throttle and does not
assume idle windows before the first one. `CounterRate` is for the console and /metrics. `TokenBucket` is for
the controller mutation quota (KIP-599), where one large request would keep a sampled rate above its bound for
many seconds although the backlog is small. No clock: `now_ms` and `now_ns` are arguments. The arithmetic is
Java's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, inf, isnan, nan
from typing import ClassVar, Final, Self

LONG_MAX: Final = 2**63 - 1
LONG_MIN: Final = -(2**63)
INT_MAX: Final = 2**31 - 1


def java_round(value: float) -> int:
    """Round like Java's Math.round: halves go up, where Python's go to the even neighbour.

    Infinities become the limits of a long, NaN becomes 0.
    """
    if value >= LONG_MAX:
        return LONG_MAX
    if value <= LONG_MIN:
        return LONG_MIN
    if isnan(value):
        return 0
    whole = floor(value)
    return whole + 1 if value - whole >= 0.5 else whole


def java_divide(dividend: float, divisor: float) -> float:
    """Divide as IEEE 754 does, where Python raises for a zero divisor."""
    if divisor:
        return dividend / divisor
    if dividend == 0 or isnan(dividend):
        return nan
    return inf if dividend > 0 else -inf


def throttle_time_ms(observed: float, bound: float, window_ms: int) -> int:
    """Return the time without recording after which `observed`, measured over `window_ms`, is down to
    `bound`.

    X with O * W / (W + X) = T, so X = (O - T) / T * W. Negative below the bound. (QuotaUtils.throttleTime)
    """
    return java_round(java_divide(observed - bound, bound) * window_ms)


def bounded_throttle_time_ms(observed: float, bound: float, window_ms: int, longest_ms: int) -> int:
    """Return the same, at most `longest_ms`. (QuotaUtils.boundedThrottleTime)"""
    return min(throttle_time_ms(observed, bound, window_ms), longest_ms)


@dataclass(frozen=True, slots=True)
class Window:
    """The measured time: `samples` intervals of `window_ms` each, including the present one.

    The defaults are Kafka's `metrics.num.samples` and `metrics.sample.window.ms`.
    """

    samples: int = 2
    window_ms: int = 30_000


class SampledStat:
    """The sum of the recorded values; subclasses differ in the value of a sample and in how samples are
    combined. Measuring changes the state, because it resets expired samples.

    A ring of `samples + 1` samples is kept: one more than configured, since the oldest one overlaps the edge
    of the measured time. A sample is full when `now - start >= window_ms`; it expires when `now - last event
    >= samples * window_ms`.
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

    def live(self, now_ms: int) -> list[tuple[int, int, float]]:
        """Return the start, the last event and the sum of each sample in sight, the oldest first. Changes
        nothing.
        """
        first = self._current + 1
        starts, lasts, values = self._starts, self._lasts, self._values
        found = list(
            zip(
                starts[first:] + starts[:first],
                lasts[first:] + lasts[:first],
                values[first:] + values[:first],
                strict=True,
            )
        )
        if now_ms - self._quiet_since < self._expire_ms:
            return found
        return [each for each in found if now_ms - each[1] < self._expire_ms]

    def resume(self, samples: Sequence[tuple[int, int, float]]) -> None:
        """Replace the samples by those that `live` returned, with their times of this clock."""
        kept = samples[-self._ring :]
        self._starts = [start_ms for start_ms, _, _ in kept]
        self._lasts = [last_ms for _, last_ms, _ in kept]
        self._values = [value for _, _, value in kept]
        self._counts = [1] * len(kept)
        self._current = max(len(kept) - 1, 0)
        self._note_edges()

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


WINDOW_NS: Final = 1_000_000_000
"""The window of `CounterRate`."""


class Rate(SampledStat):
    """The sum of the live samples over their time, of which at least `samples - 1` whole windows count.

    So the first event of a client is not an infinite rate, and 11 samples of 1 s measure over 10 to 11 s.
    `unit_ms` is the time unit: 1000 for per second.
    """

    __slots__ = ("_least_windows", "_unit_ms")

    def __init__(self, window: Window, unit_ms: float = 1000.0) -> None:
        super().__init__(window)
        self._unit_ms = unit_ms
        self._least_windows = window.samples - 1

    def measure(self, now_ms: int) -> float:
        total = super().measure(now_ms)
        return total / (self.window_size_ms(now_ms) / self._unit_ms)

    def peek(self, now_ms: int) -> float:
        """Return the result of `measure` without changing the state, so that reading does not affect later
        verdicts. (In Kafka it does.)
        """
        if not self._starts:
            return 0.0
        if now_ms - self._quiet_since < self._expire_ms:
            return self.measure(now_ms)
        if now_ms - max(self._lasts) >= self._expire_ms:
            return 0.0
        twin = type(self)(self.window, self._unit_ms)
        twin._starts, twin._lasts = self._starts[:], self._lasts[:]
        twin._values, twin._counts = self._values[:], self._counts[:]
        twin._current = self._current
        twin._oldest_start, twin._quiet_since = self._oldest_start, self._quiet_since
        return twin.measure(now_ms)

    def window_size_ms(self, now_ms: int) -> int:
        """Return the time that `measure` divides by at `now_ms`, at least 1 ms."""
        self.forget(now_ms)
        elapsed_ms = now_ms - self.oldest_start(now_ms)
        window_ms = self._window_ms
        # Rounds towards zero, as Java divides, when the clock has stepped back.
        whole = elapsed_ms // window_ms if elapsed_ms >= 0 else -(-elapsed_ms // window_ms)
        if whole < self._least_windows:
            elapsed_ms += (self._least_windows - whole) * window_ms
        return max(elapsed_ms, 1)


class SimpleRate(Rate):
    """The sum of the live samples over the time since the first one began, at least one window."""

    __slots__ = ()

    def window_size_ms(self, now_ms: int) -> int:
        self.forget(now_ms)
        return max(now_ms - self.oldest_start(now_ms), self._window_ms)


class Meter:
    """A rate and its total."""

    __slots__ = ("rate", "total")

    def __init__(self, window: Window, unit_ms: float = 1000.0) -> None:
        self.rate = Rate(window, unit_ms)
        self.total = 0.0

    def record(self, value: float, now_ms: int) -> None:
        self.rate.record(value, now_ms)
        self.total += value


class CounterRate:
    """Rates of monotonic totals over the last whole window of `WINDOW_NS`, computed when read: a request only
    adds to a plain total. The first `update` after a window's end closes it.

    Each reader needs its own.
    """

    __slots__ = ("_before", "_since", "rates")

    def __init__(self, since_ns: int) -> None:
        """Start with totals of 0 at `since_ns`."""
        self._since = since_ns
        self._before: tuple[float, ...] = ()
        self.rates: tuple[float, ...] = ()

    def update(self, now_ns: int, totals: tuple[float, ...]) -> tuple[float, ...]:
        """Return the rates per second of the last closed window, one for each of `totals`.

        The first update closes the first window, however short, so that an unused broker has rates of 0 and
        not none. A total that fell, because its subject is gone, has a rate of 0.
        """
        elapsed = max(now_ns - self._since, 1)
        if elapsed >= WINDOW_NS or not self.rates:
            before = self._before or (0,) * len(totals)
            grown = [max(now - then, 0) for now, then in zip(totals, before, strict=True)]
            self.rates = tuple(each * 1e9 / elapsed for each in grown)
            self._before, self._since = totals, now_ns
        return self.rates


class TokenBucket:
    """Holds at most `samples * window * bound` tokens; below zero the quota is exhausted.

    `bound` (tokens per second) may change at any time: the tokens stay, and are cut to the new burst on
    next use. As in Kafka a new bucket is empty at time zero, which is full for any present clock; `full`
    creates a full one.
    """

    __slots__ = ("_last_ms", "_span_s", "_tokens", "bound")

    def __init__(self, window: Window, bound: float, tokens: float = 0.0, last_ms: int = 0) -> None:
        self.bound = bound
        self._span_s = window.samples * (window.window_ms / 1000.0)
        self._tokens = tokens
        self._last_ms = last_ms

    @classmethod
    def full(cls, window: Window, bound: float, now_ms: int) -> Self:
        bucket = cls(window, bound, last_ms=now_ms)
        bucket._tokens = bucket.burst
        return bucket

    @property
    def burst(self) -> float:
        """The maximum number of tokens."""
        return self._span_s * self.bound

    def record(self, value: float, now_ms: int) -> None:
        """Refill, then spend `value`, also below zero; a negative value gives back, up to the burst."""
        self._tokens = min(self.burst, self.measure(now_ms) - value)

    def measure(self, now_ms: int) -> float:
        """Refill and return the tokens; negative when exhausted."""
        self._tokens = min(self.burst, self._tokens + self.bound * ((now_ms - self._last_ms) / 1000.0))
        self._last_ms = now_ms
        return self._tokens

    def peek(self, now_ms: int) -> float:
        """Return the result of `measure` without changing the state."""
        return min(self.burst, self._tokens + self.bound * ((now_ms - self._last_ms) / 1000.0))

    def throttle_ms(self, now_ms: int) -> int:
        """Return the time until the tokens are back at zero; 0 if they are not below it."""
        tokens = self.measure(now_ms)
        return java_round(java_divide(-tokens, self.bound) * 1000.0) if tokens < 0 else 0

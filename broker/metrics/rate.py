"""Rates per second. (Kafka: Rate, SimpleRate, Meter)

`Rate` is for byte, request and connection quotas; `SimpleRate` is for the replication throttle and does not
assume idle windows before the first one. `CounterRate` is for the console and /metrics. Used by quotas, by
the memory pool and by the console's metrics. No clock: `now_ms` and `now_ns` are arguments.
"""

from copy import copy
from typing import Final

from broker.metrics.window import SampledStat, Window

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
        twin = copy(self)
        twin._starts, twin._lasts = self._starts[:], self._lasts[:]
        twin._values, twin._counts = self._values[:], self._counts[:]
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
        self.total: float = 0

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

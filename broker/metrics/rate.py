"""How much per second. (Kafka: Rate, SimpleRate, Meter)

`Rate` is what byte, request and connection quotas measure; `SimpleRate` is the replication throttle's, which
does not assume quiet windows before the first one. Used by quotas, by the memory pool and by the console's
figures.
"""

from copy import copy

from broker.metrics.window import SampledStat, Window


class Rate(SampledStat):
    """The sum in sight over the time in sight, where at least `samples - 1` whole windows count as seen.

    So the first event of a client is not an infinite rate, and 11 samples of 1 s measure over 10 to 11 s.
    `unit_ms` is the length of "per": 1000 for per second.
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
        """What `measure` would say, for those who only look: it leaves no trace, so no later verdict depends
        on whether somebody looked. (In Kafka it does.)
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
        """The time that `measure` divides by at `now_ms`, at least 1 ms."""
        self.forget(now_ms)
        elapsed_ms = now_ms - self.oldest_start(now_ms)
        window_ms = self._window_ms
        # Towards zero, as Java divides, when a clock has stepped back.
        whole = elapsed_ms // window_ms if elapsed_ms >= 0 else -(-elapsed_ms // window_ms)
        if whole < self._least_windows:
            elapsed_ms += (self._least_windows - whole) * window_ms
        return max(elapsed_ms, 1)


class SimpleRate(Rate):
    """The sum in sight over the time since its first sample began, at least one window."""

    __slots__ = ()

    def window_size_ms(self, now_ms: int) -> int:
        self.forget(now_ms)
        return max(now_ms - self.oldest_start(now_ms), self._window_ms)


class Meter:
    """A rate and the total behind it."""

    __slots__ = ("rate", "total")

    def __init__(self, window: Window, unit_ms: float = 1000.0) -> None:
        self.rate = Rate(window, unit_ms)
        self.total: float = 0

    def record(self, value: float, now_ms: int) -> None:
        self.rate.record(value, now_ms)
        self.total += value

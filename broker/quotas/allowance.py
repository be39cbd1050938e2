"""The integral over time of a limit that has changed: the amount it allowed in the last seconds.

Kept by a sensor whose limit has changed and read when its quota is violated, so that use the former limit
allowed adds no debt. Independent of clocks.
"""

from itertools import pairwise


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

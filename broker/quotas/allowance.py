"""How much a limit that has changed allowed over the last seconds: its integral over time.

Kept by a sensor whose limit has changed, asked when its quota is broken: what was allowed when it was used is
not owed. Knows no clock.
"""

from itertools import pairwise


class Allowance:
    """The integral of one limit, exact from the oldest mark on at the marks, and even between them.

    A mark is kept for every `spacing_ms` in which the limit changed, and as many as reach back for
    `reach_ms`.
    """

    __slots__ = ("_before", "_bound", "_marks", "_reach_ms", "_since_ms", "_spacing_ms", "_total")

    def __init__(self, bound: float, new: float, spacing_ms: int, reach_ms: int, now_ms: int) -> None:
        """The limit was `bound` until `now_ms`, from when on it is `new`."""
        self._before = bound
        self._bound = new
        self._spacing_ms = spacing_ms
        self._reach_ms = reach_ms
        self._total = 0.0
        self._since_ms = now_ms
        self._marks = [(now_ms, 0.0)]

    def change(self, new: float, now_ms: int) -> None:
        """From `now_ms` on the limit is `new`."""
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
        """What was allowed from `begin_ms` to `now_ms`, which is not before the last change."""
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

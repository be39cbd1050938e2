"""Rates of totals that only ever grow, made by whoever looks. For the console and /metrics.

A request adds to a plain total and is done; what that is in a second is nobody's business until one asks.
Knows no clock: every look says what time it is, in nanoseconds.
"""

from typing import Final

WINDOW_NS: Final = 1_000_000_000


class CounterRate:
    """Rates over the last whole window of `WINDOW_NS`: the first look after a window's end closes it. Each
    reader has its own.
    """

    __slots__ = ("_before", "_since", "rates")

    def __init__(self, since_ns: int) -> None:
        """The totals were 0 at `since_ns`."""
        self._since = since_ns
        self._before: tuple[float, ...] = ()
        self.rates: tuple[float, ...] = ()

    def look(self, now_ns: int, totals: tuple[float, ...]) -> tuple[float, ...]:
        """Per second of the last closed window, one for each of `totals`. The first look closes the first
        window, however short: a broker that nobody has used yet is not one without time. A total that fell,
        because what had it is gone, did not grow.
        """
        elapsed = max(now_ns - self._since, 1)
        if elapsed >= WINDOW_NS or not self.rates:
            before = self._before or (0,) * len(totals)
            grown = [max(now - then, 0) for now, then in zip(totals, before, strict=True)]
            self.rates = tuple(each * 1e9 / elapsed for each in grown)
            self._before, self._since = totals, now_ns
        return self.rates

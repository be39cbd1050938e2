"""Rates of monotonic totals, computed when read. For the console and /metrics.

A request only adds to a plain total. Reads no clock: callers pass the time in nanoseconds.
"""

from typing import Final

WINDOW_NS: Final = 1_000_000_000


class CounterRate:
    """Rates over the last whole window of `WINDOW_NS`. The first `look` after a window's end closes it.

    Each reader needs its own.
    """

    __slots__ = ("_before", "_since", "rates")

    def __init__(self, since_ns: int) -> None:
        """Start with totals of 0 at `since_ns`."""
        self._since = since_ns
        self._before: tuple[float, ...] = ()
        self.rates: tuple[float, ...] = ()

    def look(self, now_ns: int, totals: tuple[float, ...]) -> tuple[float, ...]:
        """Return the rates per second of the last closed window, one for each of `totals`.

        The first look closes the first window, however short, so that an unused broker has rates of 0 and
        not none. A total that fell, because its subject is gone, has a rate of 0.
        """
        elapsed = max(now_ns - self._since, 1)
        if elapsed >= WINDOW_NS or not self.rates:
            before = self._before or (0,) * len(totals)
            grown = [max(now - then, 0) for now, then in zip(totals, before, strict=True)]
            self.rates = tuple(each * 1e9 / elapsed for each in grown)
            self._before, self._since = totals, now_ns
        return self.rates

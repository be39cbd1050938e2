"""The largest of many by some measure, found a few at a time. Used by figures that show the busiest.

`heapq.nlargest` with pauses: measuring ten thousand sensors takes tens of milliseconds.
"""

from collections.abc import Callable, Generator, Iterable
from heapq import heappush, heapreplace
from typing import Final, TypeVar

T = TypeVar("T")

AT_ONCE: Final = 8
"""Measured without a pause."""


def largest(most: int, items: Iterable[T], measure: Callable[[T], float]) -> Generator[None, None, list[T]]:
    """The `most` items of the largest measure, in that order, of equal ones those that came first. Yields
    None between some of them and others.
    """
    found: list[tuple[float, int, T]] = []
    for number, item in enumerate(items):
        if number % AT_ONCE == 0:
            yield None
        measured = (measure(item), -number, item)
        if len(found) < most:
            heappush(found, measured)
        elif found and measured > found[0]:
            heapreplace(found, measured)
    found.sort(reverse=True)
    return [item for *_, item in found]

"""The largest items by some measure, found in steps. Used by views of the busiest clients.

`heapq.nlargest` with pauses: measuring ten thousand sensors takes tens of milliseconds.
"""

from collections.abc import Callable, Generator, Iterable
from heapq import heappush, heapreplace
from typing import Final, TypeVar

T = TypeVar("T")

AT_ONCE: Final = 8
"""Items measured between two pauses."""


def largest(most: int, items: Iterable[T], measure: Callable[[T], float]) -> Generator[None, None, list[T]]:
    """Return the `most` items of the largest measure in descending order, the earlier first if equal.

    Yields None between steps.
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

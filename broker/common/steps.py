"""Long operations of the pure packages, as generators that yield after each bounded piece of work.

`broker.network.metadata_writer` runs other tasks between the pieces; tests run all pieces at once.
"""

from collections.abc import Callable, Collection, Generator, Iterable
from heapq import heappush, heapreplace, merge
from typing import Any, Final, TypeVar

T = TypeVar("T")
Sortable = TypeVar("Sortable", str, bytes)
Result = TypeVar("Result")

Steps = Generator[None, None, Result]
"""Yields after each piece, and returns the result of all pieces."""

FREED_AT_ONCE: Final = 256
"""Objects that `freed` frees between two pauses; ours. One with its strings takes 0.3 to 1 microsecond."""

MEASURED_AT_ONCE: Final = 8
"""Items that `nlargest_in_steps` measures between two pauses."""


PIECE: Final = 512
"""Elements between two pauses; ours. Most take about a microsecond."""

MERGED_AT_ONCE: Final = 4_096
"""Elements that are sorted in one piece, in runs that are in order already."""


class Pace:
    """Counts elements across all loops of an operation; `cost` is the number of elements of one step."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = PIECE

    def spent(self, cost: int = 1) -> bool:
        """Count `cost` elements and return whether the piece is over; the caller then yields."""
        self.left -= cost
        if self.left > 0:
            return False
        self.left = PIECE
        return True


def finished(steps: Steps[Result]) -> Result:
    """Run all pieces and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


def freed(objects: list[Any] | set[Any] | dict[Any, Any]) -> Steps[None]:
    """Empty the container a few objects at a time. It should have the last references to them: Python frees
    10,000 changes in 5 ms if the last reference to a tuple of them is dropped.
    """
    while objects:
        if isinstance(objects, list):
            del objects[-FREED_AT_ONCE:]
        else:
            remove = objects.popitem if isinstance(objects, dict) else objects.pop
            for _ in range(min(FREED_AT_ONCE, len(objects))):
                remove()
        yield


def nlargest_in_steps(count: int, items: Iterable[T], measure: Callable[[T], float]) -> Steps[list[T]]:
    """Return the `count` items of the largest measure in descending order, the earlier first if equal.

    `heapq.nlargest` with pauses: measuring ten thousand sensors takes tens of milliseconds.
    """
    found: list[tuple[float, int, T]] = []
    for number, item in enumerate(items):
        if number % MEASURED_AT_ONCE == 0:
            yield None
        measured = (measure(item), -number, item)
        if len(found) < count:
            heappush(found, measured)
        elif found and measured > found[0]:
            heapreplace(found, measured)
    found.sort(reverse=True)
    return [item for *_, item in found]


def sorted_in_steps(items: Collection[Sortable], pace: Pace) -> Steps[list[Sortable]]:
    """`sorted` with pauses: ten thousand names take 4 ms."""
    if len(items) <= PIECE:
        if pace.spent(len(items)):
            yield
        return sorted(items)
    unsorted = list(items)
    runs = []
    for at in range(0, len(unsorted), PIECE):
        runs.append(sorted(unsorted[at : at + PIECE]))
        if pace.spent(PIECE):
            yield
    if len(unsorted) <= MERGED_AT_ONCE:
        return sorted(each for run in runs for each in run)
    found = []
    for each in merge(*runs):
        found.append(each)
        if pace.spent():
            yield
    return found

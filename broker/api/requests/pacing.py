"""Splits loops over a request's items into slices, and sets of its names into small tables.

Used by handlers that build their response item by item. `api.requests.outcome.in_slices` turns their
generators into outcomes.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

from broker.common.slices import SLICE, Slices

Item = TypeVar("Item")
Result = TypeVar("Result")
Name = TypeVar("Name", bound=Hashable)

TABLES: Final = 64
"""Initial size of a `Distinct`; a power of two; our own.

The 100,000 elements of the largest request make 1,600 in each table.
"""


def mapped(function: Callable[[Item], Result], items: Iterable[Item]) -> Slices[list[Result]]:
    """Apply `function` to every item, in order."""
    responses = []
    for item in items:
        responses.append(function(item))
        yield None
    return responses


def consumed(items: list[Item], size: int = SLICE) -> Iterator[list[Item]]:
    """Yield `items` in pieces of at most `size`, in order; one empty piece if there are none.

    Removes the items from the list, so that each piece is freed separately: releasing 95,000 objects takes 5
    ms, even if they are referenced elsewhere.
    """
    items.reverse()
    while True:
        piece = items[: -size - 1 : -1]
        del items[-size:]
        yield piece
        if not items:
            return


def pieces(items: Sequence[Item], size: int = SLICE) -> Iterator[Sequence[Item]]:
    """Yield `items` in pieces of at most `size`; one empty piece if there are none."""
    return (items[at : at + size] for at in range(0, max(len(items), 1), size))


def emptied(items: set[Any]) -> Slices[None]:
    """Empty a large set in slices rather than freeing it and its items all at once."""
    for _ in range(len(items)):
        items.pop()
        yield None


class Distinct(Generic[Name]):
    """A set of a request's names, for handlers that return each name once.

    A hash table is copied when it grows and freed all at once: with 90,000 names that takes 4 ms and 8 ms.
    This set uses up to TABLES small tables, and each operation touches only one.
    """

    __slots__ = ("_tables",)

    def __init__(self) -> None:
        self._tables: dict[int, set[Name]] = {}

    def add(self, item: Name) -> bool:
        """Add `item` and return whether it is new."""
        at = hash(item) & (TABLES - 1)
        table = self._tables.get(at)
        if table is None:
            self._tables[at] = {item}
            return True
        if item in table:
            return False
        table.add(item)
        return True

    def release(self) -> Slices[None]:
        """Free all tables, one in each slice."""
        tables = self._tables
        while tables:
            tables.popitem()
            if tables:
                yield None

"""A set of a request's names, for handlers that return each name once.

A hash table is copied when it grows and freed all at once: with 90,000 names that takes 4 ms and 8 ms.
`Distinct` uses many small tables, and each operation touches only one.
"""

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from broker.records.slices import Slices

Item = TypeVar("Item", bound=Hashable)

TABLES: Final = 64
"""A power of two; our own. The 100,000 elements of the largest request make 1,600 in each table."""


class Distinct(Generic[Item]):
    """A set that is split into up to TABLES tables."""

    __slots__ = ("_tables",)

    def __init__(self) -> None:
        self._tables: dict[int, set[Item]] = {}

    def add(self, item: Item) -> bool:
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

"""Loops over what a client named, left where others may have a turn.

Used by handlers that answer element by element. Their generators become outcomes by `api.outcome.in_slices`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from broker.records.slices import SLICE, Slices

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Pace:
    """Counts elements over all the loops of one request. `cost` is how many elements one step stands for."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = SLICE

    def spent(self, cost: int = 1) -> bool:
        """Counts so many elements more; whether the slice is over, and a new one begins with a yield."""
        self.left -= cost
        if self.left > 0:
            return False
        self.left = SLICE
        return True


def mapped(function: Callable[[Item], Answer], items: Iterable[Item], pace: Pace) -> Slices[list[Answer]]:
    """`function` of every item, in their order."""
    answers = []
    for item in items:
        answers.append(function(item))
        if pace.spent():
            yield None
    return answers


def consumed(items: list[Item], size: int = SLICE) -> Iterator[list[Item]]:
    """`items` in pieces of at most `size`, in their order; one piece where there are none. Empties `items`,
    so that each piece is freed with its last holder and not with all the others: letting go of 95,000 objects
    takes 5 ms, even where others hold them.
    """
    items.reverse()
    while True:
        piece = items[: -size - 1 : -1]
        del items[-size:]
        yield piece
        if not items:
            return


def pieces(items: Sequence[Item], size: int = SLICE) -> Iterator[Sequence[Item]]:
    """`items` in pieces of at most `size`; one piece where there are none."""
    return (items[at : at + size] for at in range(0, max(len(items), 1), size))


def emptied(items: set[Any], pace: Pace) -> Slices[None]:
    """Empties a large set, which would otherwise be freed in one piece with what it alone holds."""
    for _ in range(len(items)):
        items.pop()
        if pace.spent():
            yield None

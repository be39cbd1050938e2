"""Columns of a table in as many character cells as there are.

Used by the tables of `weir top`. Widths follow from the room alone and never from what stands in the cells,
so that nothing jumps from one second to the next. Knows nothing of what is shown.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from broker.commands.plain import cell

Row = TypeVar("Row")
GAP: Final = "  "


@dataclass(frozen=True)
class Column(Generic[Row]):
    """`least` cells, and of what is left over a part in proportion to `grows`. The lower its `rank`, the
    longer it stays when there is no room for all. `sort` is what the column is sorted by, if it can be;
    `ascending` the way in which it is sorted at first.
    """

    title: str
    text: Callable[[Row], str]
    least: int
    rank: int
    grows: int = 0
    right: bool = False
    sort: Callable[[Row], Any] | None = None
    ascending: bool = False


def fit(columns: Sequence[Column[Row]], room: int) -> list[tuple[Column[Row], int]]:
    """Those that are shown, in their order, and how wide each is; one at least."""
    chosen: list[Column[Row]] = []
    used = -len(GAP)
    for column in sorted(columns, key=lambda each: each.rank):
        if used + len(GAP) + column.least <= room:
            used += len(GAP) + column.least
            chosen.append(column)
    if not chosen:
        first = min(columns, key=lambda each: each.rank)
        return [(first, max(room, 0))]
    spare, parts = room - used, sum(column.grows for column in chosen)
    widths = {id(column): column.least + (spare * column.grows // parts if parts else 0) for column in chosen}
    return [(column, widths[id(column)]) for column in columns if id(column) in widths]


def heading(fitted: Sequence[tuple[Column[Row], int]], sorted_by: Column[Row], mark: str) -> str:
    """The titles; `mark` stands beside the one that is sorted by, where there is a place for it."""
    return GAP.join(
        cell(f"{column.title}{mark}" if column is sorted_by else column.title, width, right=column.right)
        for column, width in fitted
    )


def line(fitted: Sequence[tuple[Column[Row], int]], row: Row) -> str:
    return GAP.join(cell(column.text(row), width, right=column.right) for column, width in fitted)

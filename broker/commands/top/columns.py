"""Fits the columns of a table into the available character cells.

Used by the tables of `weir top`. Widths depend on the available width only and never on the cells'
contents, so that columns stay in place from one second to the next.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from broker.commands.plain import cell

Row = TypeVar("Row")
GAP: Final = "  "


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column of `least` cells plus a share of the spare cells in proportion to `grows`.

    Columns with a high `rank` are dropped first. `sort` is the sort key of a sortable column; `ascending`
    its initial direction.
    """

    title: str
    text: Callable[[Row], str]
    least: int
    rank: int
    grows: int = 0
    right: bool = False
    sort: Callable[[Row], Any] | None = None
    ascending: bool = False


def fit(columns: Sequence[Column[Row]], width: int) -> list[tuple[Column[Row], int]]:
    """Return the columns that fit, in their order, with their widths; at least one."""
    chosen: list[Column[Row]] = []
    used = -len(GAP)
    for column in sorted(columns, key=lambda each: each.rank):
        if used + len(GAP) + column.least <= width:
            used += len(GAP) + column.least
            chosen.append(column)
    if not chosen:
        first = min(columns, key=lambda each: each.rank)
        return [(first, max(width, 0))]
    spare, parts = width - used, sum(column.grows for column in chosen)
    widths = {id(column): column.least + (spare * column.grows // parts if parts else 0) for column in chosen}
    return [(column, widths[id(column)]) for column in columns if id(column) in widths]


def heading(fitted: Sequence[tuple[Column[Row], int]], sorted_by: Column[Row], mark: str) -> str:
    """Return the titles, with `mark` beside the sorted column's where it fits."""
    return GAP.join(
        cell(f"{column.title}{mark}" if column is sorted_by else column.title, width, right=column.right)
        for column, width in fitted
    )


def line(fitted: Sequence[tuple[Column[Row], int]], row: Row) -> str:
    return GAP.join(cell(column.text(row), width, right=column.right) for column, width in fitted)

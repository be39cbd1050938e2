"""Server-side search, sort and paging of tables, so that a browser never holds five thousand rows.

Used by the REST lists and by the live stream of the same table. A table is a value (`Table`) of the module
that defines its rows. Long tables are processed in slices. Independent of HTTP.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, Generic, TypeVar

from webui.tables.slices import gathered, in_order, let_go, sliced

Row = TypeVar("Row")

LONGEST_PAGE: Final = 1_000

_SORTED_AT_ONCE: Final = 256

_KEPT_AT_MOST: Final = 2_000
"""Maximum end of a page for which only the top rows are kept sorted during the scan."""


@dataclass(frozen=True, slots=True)
class Page:
    """A query. `search` matches the table's words, `shape` is one of the table's filters; `sort` None is the
    table's natural order.
    """

    search: str = ""
    shape: str | None = None
    sort: str | None = None
    descending: bool = False
    offset: int = 0
    limit: int = 100


@dataclass(frozen=True, slots=True)
class Table(Generic[Row]):
    """A table. Search matches `words`, ignoring case. `order` is the natural order, which breaks ties of the
    others; `natural` is the name of its column. A measure of `sorts` returns None if the row has no such
    value.
    """

    json: Callable[[Row], dict[str, Any]]
    words: Callable[[Row], Iterable[str]]
    natural: str
    order: Callable[[Row], Any]
    sorts: Mapping[str, Callable[[Row], Any]] = field(default_factory=dict)
    shapes: Mapping[str, Callable[[Row], bool]] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """The sort columns."""
        return (self.natural, *self.sorts)

    async def cut(self, rows: Iterable[Row | None], page: Page) -> dict[str, Any]:
        """Return the page with its row counts: `total` that match, `of` without a filter. `rows` must not
        change during the call, because other tasks run between slices. None among them is not a row.
        """
        of = 0
        if page.offset + page.limit > _KEPT_AT_MOST:
            return await self._cut_deep(rows, page)
        found = _Best(page.offset + page.limit, self._sorting(page))
        async with aclosing(sliced(rows)) as slices:
            async for some in slices:
                of += len(some)
                found.add([self._measured(row, page) for row in some if self._matches(row, page)])
        items = await gathered(self.json(row) for *_, row in found.best()[page.offset :])
        return {"items": items, "total": found.total, "of": of, "offset": page.offset, "limit": page.limit}

    async def _cut_deep(self, rows: Iterable[Row | None], page: Page) -> dict[str, Any]:
        """Like `cut`, for a page far down: sorts all rows."""
        found = await gathered(rows)
        fitting = await gathered(
            self._measured(row, page) if self._matches(row, page) else None for row in found
        )
        if page.sort in (None, self.natural):
            ordered = await in_order(fitting, itemgetter(2), descending=page.descending)
        else:
            natural = await in_order(fitting, itemgetter(2))
            with_it = (each if not each[0] else None for each in natural)
            ordered = await in_order(with_it, itemgetter(1), descending=page.descending)
            ordered += await gathered(each if each[0] else None for each in natural)
        wanted = ordered[page.offset : page.offset + page.limit]
        items = await gathered(self.json(row) for *_, row in wanted)
        total, of = len(ordered), len(found)
        await let_go(found, fitting, ordered)
        return {
            "items": items,
            "total": total,
            "of": of,
            "offset": page.offset,
            "limit": page.limit,
        }

    def _matches(self, row: Row, page: Page) -> bool:
        if page.shape is not None and not self.shapes[page.shape](row):
            return False
        needle = page.search.casefold()
        return not needle or any(needle in word.casefold() for word in self.words(row))

    def _measured(self, row: Row, page: Page) -> "_Measured[Row]":
        if page.sort in (None, self.natural):
            return False, None, self.order(row), row
        measure = self.sorts[page.sort or ""](row)
        return measure is None, measure, self.order(row), row

    def _sorting(self, page: Page) -> "_Sorting[Row]":
        """Return a sort function that puts rows without the value last, in either direction."""

        def naturally(rows: list[_Measured[Row]]) -> list[_Measured[Row]]:
            rows.sort(key=itemgetter(2), reverse=page.descending)
            return rows

        def by_measure(rows: list[_Measured[Row]]) -> list[_Measured[Row]]:
            rows.sort(key=itemgetter(2))
            with_it = [row for row in rows if not row[0]]
            with_it.sort(key=itemgetter(1), reverse=page.descending)
            return with_it + [row for row in rows if row[0]]

        return naturally if page.sort in (None, self.natural) else by_measure


_Measured = tuple[bool, Any, Any, Row]
"""Sort key: whether the value is missing, the value, the natural order, the row."""

_Sorting = Callable[[list[_Measured[Row]]], list[_Measured[Row]]]


class _Best(Generic[Row]):
    """The first `most` of many rows in some order. Merges new rows as soon as there are as many as kept ones,
    so that the work is spread over the scan.
    """

    __slots__ = ("_kept", "_most", "_new", "_sorting", "total")

    def __init__(self, most: int, sorting: "_Sorting[Row]") -> None:
        self._most = most
        self._sorting = sorting
        self._kept: list[_Measured[Row]] = []
        self._new: list[_Measured[Row]] = []
        self.total = 0

    def add(self, rows: "list[_Measured[Row]]") -> None:
        self.total += len(rows)
        self._new += rows
        if len(self._new) >= max(_SORTED_AT_ONCE, len(self._kept)):
            self.best()

    def best(self) -> "list[_Measured[Row]]":
        if self._new:
            self._kept = self._sorting(self._kept + self._new)[: self._most]
            self._new = []
        return self._kept

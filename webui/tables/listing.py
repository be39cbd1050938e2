"""Server-side search, sort and paging of tables, so that a browser never holds five thousand rows.

Used by the REST lists and by the live stream of the same table. A table is a value (`Table`) of the module
that defines its rows. Long tables are processed in slices. Independent of HTTP.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from operator import itemgetter
from typing import Any, Final, Generic, TypeVar

import msgspec

from webui.tables.slices import collect, free_in_slices, sliced, sort_in_slices

Row = TypeVar("Row")

LONGEST_PAGE: Final = 1_000

_SORTED_AT_ONCE: Final = 256

_MAX_TOP_ROWS: Final = 2_000
"""Maximum end of a page for which only the top rows are kept sorted during the scan."""


class Page(msgspec.Struct, frozen=True):
    """A query. `search` matches the table's texts, `shape` is one of its filters; `sort` None is its default
    order.
    """

    search: str = ""
    shape: str | None = None
    sort: str | None = None
    descending: bool = False
    offset: int = 0
    limit: int = 100


class Elsewhere(msgspec.Struct, frozen=True):
    """Rows of a page that another server has. Beside `rows`, `total` match and `of` are there; `counts` are
    further fields of the page.
    """

    rows: Sequence[Any]
    total: int
    of: int
    counts: Mapping[str, int]

    def counted(self, page: dict[str, Any]) -> dict[str, Any]:
        """Return the page, made of all rows, with the counts of those that are not among them."""
        sums: dict[str, Any] = {"total": page["total"] + self.total, "of": page["of"] + self.of}
        return {**page, **sums, **self.counts}


class Table(msgspec.Struct, Generic[Row], frozen=True):
    """A table. Search matches `search_texts`, ignoring case. `sort_key` gives the default order, which breaks
    ties of the others; `default_sort` is the name of its column. A measure of `sorts` returns None if the row
    has no such value.
    """

    json: Callable[[Row], dict[str, Any]]
    search_texts: Callable[[Row], Iterable[str]]
    default_sort: str
    sort_key: Callable[[Row], Any]
    sorts: Mapping[str, Callable[[Row], Any]] = msgspec.field(default_factory=dict)
    filters: Mapping[str, Callable[[Row], bool]] = msgspec.field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """The sort columns."""
        return (self.default_sort, *self.sorts)

    async def page(self, rows: Iterable[Row | None], page: Page) -> dict[str, Any]:
        """Return the page with its row counts: `total` that match, `of` without a filter. `rows` must not
        change during the call, because other tasks run between slices. None among them is not a row.
        """
        of = 0
        if page.offset + page.limit > _MAX_TOP_ROWS:
            return await self._page_deep(rows, page)
        found = _Best(page.offset + page.limit, self._sorting(page))
        async with aclosing(sliced(rows)) as slices:
            async for some in slices:
                of += len(some)
                found.add([self._measured(row, page) for row in some if self._matches(row, page)])
        items = await collect(self.json(row) for *_, row in found.best()[page.offset :])
        return {"items": items, "total": found.total, "of": of, "offset": page.offset, "limit": page.limit}

    async def _page_deep(self, rows: Iterable[Row | None], page: Page) -> dict[str, Any]:
        """Like `page`, for a page far down: sorts all rows."""
        found = await collect(rows)
        fitting = await collect(
            self._measured(row, page) if self._matches(row, page) else None for row in found
        )
        if page.sort in (None, self.default_sort):
            ordered = await sort_in_slices(fitting, itemgetter(2), descending=page.descending)
        else:
            natural = await sort_in_slices(fitting, itemgetter(2))
            with_it = (each if not each[0] else None for each in natural)
            ordered = await sort_in_slices(with_it, itemgetter(1), descending=page.descending)
            ordered += await collect(each if each[0] else None for each in natural)
        wanted = ordered[page.offset : page.offset + page.limit]
        items = await collect(self.json(row) for *_, row in wanted)
        total, of = len(ordered), len(found)
        await free_in_slices(found, fitting, ordered)
        return {
            "items": items,
            "total": total,
            "of": of,
            "offset": page.offset,
            "limit": page.limit,
        }

    def _matches(self, row: Row, page: Page) -> bool:
        if page.shape is not None and not self.filters[page.shape](row):
            return False
        needle = page.search.casefold()
        return not needle or any(needle in word.casefold() for word in self.search_texts(row))

    def _measured(self, row: Row, page: Page) -> "_Measured[Row]":
        if page.sort in (None, self.default_sort):
            return False, None, self.sort_key(row), row
        measure = self.sorts[page.sort or ""](row)
        return measure is None, measure, self.sort_key(row), row

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

        return naturally if page.sort in (None, self.default_sort) else by_measure


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

"""Server-side search, sort and paging of tables, so that a browser never holds five thousand rows.

Used by the REST lists and by the live stream of the same table. A table is a value (`Table`) of the module
that defines its rows. Long tables are processed in slices. Independent of HTTP.

A REST list continues after the last row that it has given (`Mark`), so rows that come or go in between move
no other row to another page. The live stream shows a window of the table at an offset instead.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from operator import itemgetter
from typing import Any, Final, Generic, TypeVar

import msgspec

from webui.tables.cursor import BadCursor
from webui.tables.slices import collect, free_in_slices, sliced, sort_in_slices

Row = TypeVar("Row")

LONGEST_PAGE: Final = 1_000

_SORTED_AT_ONCE: Final = 256

_MAX_TOP_ROWS: Final = 2_000
"""Maximum end of a page for which only the top rows are kept sorted during the scan."""


CLIPPED_AT: Final = 128
"""Characters of a text that a mark keeps; a client id has up to 32,767."""

_CUT: Final = "\U0010ffff"
"""Ends a text that was cut; it sorts after any other character."""


class Mark(msgspec.Struct, frozen=True):
    """The end of a page. `key` is the sort key of its last row, cut after a text of CLIPPED_AT characters,
    so that several rows can have the same; `same` of them were given. `given` rows were given on all pages.
    """

    key: tuple[Any, ...]
    same: int
    given: int


class Page(msgspec.Struct, frozen=True):
    """A query. `search` matches the table's texts, `filter` is one of its filters; `sort` None is its default
    order. The page begins at `offset`, or with the row after the mark `after`.
    """

    search: str = ""
    filter: str | None = None
    sort: str | None = None
    descending: bool = False
    offset: int = 0
    limit: int = 100
    after: Mark | None = None

    @property
    def given(self) -> int:
        """The number of rows before this page."""
        return self.offset if self.after is None else self.after.given


class Found(msgspec.Struct, frozen=True):
    """A page with its row counts: `total` that match, `of` without a filter. `next` is None on the last
    page.
    """

    items: list[Any]
    total: int
    of: int
    next: Mark | None


class RemoteRows(msgspec.Struct, frozen=True):
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
        """Return a window of the table as JSON, with its row counts."""
        found = await self.find(rows, page)
        counts = {"total": found.total, "of": found.of, "offset": page.offset, "limit": page.limit}
        return {"items": found.items, **counts}

    async def find(self, rows: Iterable[Row | None], page: Page, *, beyond: int = 0) -> Found:
        """Return a page. `rows` must not change during the call, because other tasks run between slices. None
        among them is not a row. `beyond` more rows exist after those that another server has given.

        Raises BadCursor if the mark is none of this table and order.
        """
        of = total = same = 0
        first = page.offset if page.after is None else page.after.same
        is_deep = first + page.limit > _MAX_TOP_ROWS
        best, deep = _Best(0 if is_deep else first + page.limit, self._sorting(page)), []
        async with aclosing(sliced(rows)) as slices:
            async for some in slices:
                of += len(some)
                fitting = [self._measured(row, page) for row in some if self._matches(row, page)]
                total += len(fitting)
                if page.after is not None:
                    places = [(self._place(row, page, page.after), row) for row in fitting]
                    same += sum(place == 0 for place, _ in places)
                    fitting = [row for place, row in places if place >= 0]
                if is_deep:
                    deep += fitting
                else:
                    best.add(fitting)
        if page.after is not None:
            # Rows of the mark's key that are gone by now need not be skipped.
            first = min(first, same)
        ordered = await self._sorted(deep, page) if is_deep else best.best()
        wanted = ordered[first : first + page.limit]
        items = await collect(self.json(row) for *_, row in wanted)
        has_more = (len(deep) if is_deep else best.total) > first + len(wanted)
        mark = self._mark(wanted, page) if has_more or (beyond and len(wanted) == page.limit) else None
        if is_deep:
            await free_in_slices(deep, ordered)
        return Found(items, total, of, mark)

    async def _sorted(self, fitting: "list[_Measured[Row]]", page: Page) -> "list[_Measured[Row]]":
        """Sort all rows, for a page far down."""
        if page.sort in (None, self.default_sort):
            return await sort_in_slices(fitting, itemgetter(2), descending=page.descending)
        natural = await sort_in_slices(fitting, itemgetter(2))
        with_it = (each if not each[0] else None for each in natural)
        ordered = await sort_in_slices(with_it, itemgetter(1), descending=page.descending)
        return ordered + await collect(each if each[0] else None for each in natural)

    def _key(self, row: "_Measured[Row]", page: Page) -> tuple[Any, ...]:
        """Return the sort key that a mark keeps."""
        missing, measure, natural, _ = row
        natural, _ = _clipped(natural)
        if page.sort in (None, self.default_sort):
            return (natural,)
        measure, is_cut = _clipped(measure)
        return missing, measure, () if is_cut else natural

    def _place(self, row: "_Measured[Row]", page: Page, after: Mark) -> int:
        """Return -1 for a row before the mark, 0 at it, 1 after it. Raises BadCursor."""
        own = self._key(row, page)
        if own == after.key:
            return 0
        try:
            if len(own) == 1:
                (natural,) = after.key
                is_after = own[0] < natural if page.descending else own[0] > natural
            else:
                missing, measure, natural = after.key
                if own[0] is not missing:
                    is_after = own[0] > missing
                elif own[1] == measure:
                    is_after = own[2] > natural
                else:
                    is_after = own[1] < measure if page.descending else own[1] > measure
        except (TypeError, ValueError):
            raise BadCursor("must be the `next` of the previous page") from None
        return 1 if is_after else -1

    def _mark(self, wanted: "list[_Measured[Row]]", page: Page) -> Mark | None:
        """Return where a page ends that gives the rows `wanted`."""
        if not wanted:
            return None
        key = self._key(wanted[-1], page)
        same = 0
        for row in reversed(wanted):
            if self._key(row, page) != key:
                break
            same += 1
        if same == len(wanted) and page.after is not None and page.after.key == key:
            same += page.after.same
        return Mark(key, same, page.given + len(wanted))

    def _matches(self, row: Row, page: Page) -> bool:
        if page.filter is not None and not self.filters[page.filter](row):
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


def _clipped(key: Any) -> tuple[Any, bool]:
    """Return a key cut after its first long text, and whether it was cut. Such keys sort as the whole ones,
    but for those that are equal up to there.
    """
    if isinstance(key, str):
        return (key[:CLIPPED_AT] + _CUT, True) if len(key) > CLIPPED_AT else (key, False)
    if not isinstance(key, tuple):
        return key, False
    parts, is_cut = [], False
    for part in key:
        clipped, is_cut = _clipped(part)
        parts.append(clipped)
        if is_cut:
            break
    return tuple(parts), is_cut


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

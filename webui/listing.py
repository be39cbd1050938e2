"""Tables that are searched, sorted and cut to a page here, so that a browser never holds five thousand rows.

Used by the REST lists and by the live stream of the same table, which therefore cannot disagree. A table is a
value (`Table`); what its rows mean is said by the module that makes it. Knows nothing of HTTP.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

Row = TypeVar("Row")

LONGEST_PAGE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Page:
    """`search` is looked for in the table's words, `shape` is one of the table's own filters; `sort` None is
    the order in which the table stands by itself.
    """

    search: str = ""
    shape: str | None = None
    sort: str | None = None
    descending: bool = False
    offset: int = 0
    limit: int = 100


@dataclass(frozen=True, slots=True)
class Table(Generic[Row]):
    """`words` are what a search looks through, whatever the case. `order` is the natural order, by which
    others are settled; the name of its column is `natural`. A measure of `sorts` that is None says that the
    row has no such figure.
    """

    json: Callable[[Row], dict[str, Any]]
    words: Callable[[Row], Iterable[str]]
    natural: str
    order: Callable[[Row], Any]
    sorts: Mapping[str, Callable[[Row], Any]] = field(default_factory=dict)
    shapes: Mapping[str, Callable[[Row], bool]] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """What it can be sorted by."""
        return (self.natural, *self.sorts)

    def cut(self, rows: Iterable[Row], page: Page) -> dict[str, Any]:
        """The page, and how many rows there are behind it: `total` of those that match, `of` without a
        filter.
        """
        everything = list(rows)
        found = self._sorted([row for row in everything if self._matches(row, page)], page)
        return {
            "items": [self.json(row) for row in found[page.offset : page.offset + page.limit]],
            "total": len(found),
            "of": len(everything),
            "offset": page.offset,
            "limit": page.limit,
        }

    def _matches(self, row: Row, page: Page) -> bool:
        if page.shape is not None and not self.shapes[page.shape](row):
            return False
        needle = page.search.casefold()
        return not needle or any(needle in word.casefold() for word in self.words(row))

    def _sorted(self, found: list[Row], page: Page) -> list[Row]:
        found.sort(key=self.order)
        if page.sort in (None, self.natural):
            if page.descending:
                found.reverse()
            return found
        measure = self.sorts[page.sort or ""]
        # Rows without the figure go last, whichever way the others are sorted.
        with_it = [row for row in found if measure(row) is not None]
        with_it.sort(key=measure, reverse=page.descending)
        return with_it + [row for row in found if measure(row) is None]

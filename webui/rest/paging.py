"""Pages of lists: `limit` and `cursor` of a request, `items` and `next` of the response.

Used by every route that lists. `page_query` and `page_schema` describe a list that is searched and sorted
(webui.tables.listing), and `table_page` answers it; `list_query` and `list_page` are for a list in one order.
A list in an order of its own, such as the audit trail, takes `place_of` and `next_of`.

A cursor holds the sort key of the last row, not its number, so a client that follows `next` sees each row
whose sort value stays the same once, whatever comes and goes in between.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from webui.problem import Problem
from webui.problem_types import INVALID_CURSOR
from webui.rest.routing import Call, Query
from webui.schema import COUNT, Listing, Number, Record, Schema, Text
from webui.tables.cursor import MAX_CURSOR, BadCursor, query_digest, read_cursor, write_cursor
from webui.tables.listing import LONGEST_PAGE, Mark, Page, RemoteRows, Table

Row = TypeVar("Row")

NEXT: Final = Text(max_length=MAX_CURSOR, nullable=True)
"""The cursor of the next page; null on the last one."""

MAX_OFFSET: Final = 10_000_000
_MAX_GIVEN: Final = 1_000_000_000
_MAX_DEPTH: Final = 8
"""Maximum nesting of a sort key."""


def list_query(*, limit: int = 100, most: int = LONGEST_PAGE) -> tuple[Query, ...]:
    """Return the parameters of a page."""
    return (
        Query(
            "limit", Number(integer=True, minimum=1, maximum=most), "Maximum number of rows.", default=limit
        ),
        Query(
            "cursor",
            Text(max_length=MAX_CURSOR, min_length=1),
            "The `next` of the previous page, with the same other parameters; `limit` may differ.",
        ),
    )


def page_query(table: Table[Any], *, limit: int = 100) -> tuple[Query, ...]:
    """Return the parameters of a list that is searched, sorted and paged."""
    filters = Query("filter", Text(choices=tuple(table.filters)), "Only rows of this kind.")
    return (
        Query("search", Text(), "Only rows with this text in a name, ignoring case.", default=""),
        *([filters] if table.filters else []),
        Query("sort", Text(choices=table.columns), "Sort column.", default=table.default_sort),
        Query("order", Text(choices=("asc", "desc")), "Sort order.", default="asc"),
        *list_query(limit=limit),
    )


def page_schema(row: Schema, **more: Schema) -> Record:
    """Return the schema of a page: `total` rows match, `of` exist. `more` are further fields of the page."""
    fields: dict[str, Schema] = {
        "items": Listing(row, max_items=LONGEST_PAGE),
        "next": NEXT,
        "total": COUNT,
        "of": COUNT,
    }
    title = f"{row.title}Page" if isinstance(row, Record) and row.title else ""
    return Record({**fields, **more}, title=title)


def page_of(call: Call) -> Page:
    """Return what a request selects of a table. Raises Problem 400 for a bad cursor."""
    query = call.query
    return Page(
        search=query.get("search", ""),
        filter=query.get("filter"),
        sort=query.get("sort"),
        descending=query.get("order") == "desc",
        limit=query["limit"],
        after=_mark_of(call),
    )


async def table_page(
    call: Call, table: Table[Row], rows: Iterable[Row | None], remote: RemoteRows | None = None
) -> dict[str, Any]:
    """Return the page of `rows` that a request selects. The rows of `remote` are among them already.

    Raises Problem 400 for a bad cursor.
    """
    beyond = 0 if remote is None else remote.total
    page = await _found(call, table, rows, page_of(call), beyond)
    return page if remote is None else remote.counted(page)


async def list_page(
    call: Call, rows: Iterable[Row], json: Callable[[Row], dict[str, Any]], key: Callable[[Row], Any]
) -> dict[str, Any]:
    """Return a page of `rows` in the order of `key`, a text, a number or a tuple of them. The caller has
    applied the filters of the request. Raises Problem 400 for a bad cursor.
    """
    table: Table[Row] = Table(json=json, search_texts=lambda _row: (), default_sort="key", sort_key=key)
    return await _found(call, table, rows, Page(limit=call.query["limit"], after=_mark_of(call)))


async def _found(
    call: Call, table: Table[Row], rows: Iterable[Row | None], page: Page, beyond: int = 0
) -> dict[str, Any]:
    try:
        found = await table.find(rows, page, beyond=beyond)
    except BadCursor as error:
        raise bad_cursor(error) from None
    mark = found.next
    return {
        "items": found.items,
        "next": None if mark is None else next_of(call, (mark.key, mark.same, mark.given)),
        "total": found.total,
        "of": found.of,
    }


def place_of(call: Call, more: Mapping[str, Any] | None = None) -> Any:
    """Return what `next_of` wrote to the request's cursor; None on the first page. Raises Problem 400."""
    cursor = call.query["cursor"]
    if cursor is None:
        return None
    try:
        return read_cursor(cursor, digest_of(call, more))
    except BadCursor as error:
        raise bad_cursor(error) from None


def next_of(call: Call, place: Any) -> str:
    return write_cursor(digest_of(call), place)


def digest_of(call: Call, more: Mapping[str, Any] | None = None) -> str:
    """Return what binds a cursor to its list: all parameters but those of the page, and `more`."""
    parameters = {name: value for name, value in call.query.items() if name not in ("limit", "cursor")}
    return query_digest(call.operation, {**parameters, **call.path_params, **(more or {})})


def bad_cursor(error: BadCursor | str) -> Problem:
    return Problem(400, str(error), kind=INVALID_CURSOR, where="cursor")


def _mark_of(call: Call) -> Mark | None:
    match place_of(call):
        case None:
            return None
        case [list() as key, int() as same, int() as given] if min(same, given) >= 0 and given <= _MAX_GIVEN:
            return Mark(_tuples(key), same, given)
    raise bad_cursor("must be the `next` of the previous page")


def _tuples(key: list[Any], depth: int = 0) -> tuple[Any, ...]:
    if depth == _MAX_DEPTH:
        raise bad_cursor("must be the `next` of the previous page")
    return tuple(_tuples(part, depth + 1) if isinstance(part, list) else part for part in key)

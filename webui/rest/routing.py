"""REST routes as values, used by dispatch, validation, the OpenAPI document and the tests.

The modules of this package define routes, webui.rest.routes collects them, and webui.http.app binds them to
HTTP. Independent of the web framework: a handler takes a `Call` and returns a `Reply`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from broker.control.commands import Actor
from webui.console import Console
from webui.live.sse_client import Connection
from webui.rest.problem import Problem
from webui.rest.schema import COUNT, Flag, Invalid, Listing, Number, Record, Schema, Text
from webui.security.headers import HeaderLookup
from webui.security.sessions import Session
from webui.tables.listing import LONGEST_PAGE, Page, Table

JSON: Final = "application/json"
SHORT_BODY: Final = 4_096
"""Maximum size in bytes of a body without a list."""

MAX_OFFSET: Final = 10_000_000
"""Maximum offset of a list."""


class Query(msgspec.Struct, frozen=True):
    """One query parameter. Its text is parsed as the schema's type; `default` applies if it is absent."""

    name: str
    schema: Text | Number | Flag
    about: str
    default: Any = None

    def read(self, text: str) -> Any:
        """Raises Invalid."""
        value: object = text
        if isinstance(self.schema, Flag):
            value = {"true": True, "false": False}.get(text, text)
        elif isinstance(self.schema, Number):
            try:
                value = int(text) if text.isascii() and len(text) <= 20 else text
            except ValueError:
                raise Invalid(self.name, "must be an integer") from None
        return self.schema.check(value, self.name)


class ResponseSpec(msgspec.Struct, frozen=True):
    """One response of a route. `schema` is None for no body or an undescribed one; `also` lists further media
    types.
    """

    about: str
    schema: Schema | None = None
    media: str = JSON
    also: tuple[str, ...] = ()


class Call(msgspec.Struct, frozen=True):
    """An authorized and validated request. Slow handlers check `is_logged_in` again after waiting.

    `path_params` has the parameters of the path. A stream writes its events to `connection` if there is one.
    `session` is the browser's session, None for a program. Lists and dictionaries in `to_free` and `body` are
    freed in slices after the handler returns. `lines` has the line of each element of a file, by list.
    """

    console: Console
    actor: Actor
    query: Mapping[str, Any]
    body: Any
    headers: HeaderLookup
    is_logged_in: Callable[[], bool]
    path_params: Mapping[str, Any] = msgspec.field(default_factory=dict)
    connection: Connection | None = None
    session: Session | None = None
    to_free: list[list[Any] | dict[Any, Any]] = msgspec.field(default_factory=list)
    lines: Mapping[str, Sequence[int]] = msgspec.field(default_factory=dict)


class Reply(msgspec.Struct, frozen=True):
    """A response. `content` is bytes, a stream of bytes, or a value to encode as JSON. Encoding empties the
    value's lists, so they must not be shared.
    """

    content: Any = None
    status: int = 200
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    media: str = JSON

    @property
    def is_stream(self) -> bool:
        return isinstance(self.content, AsyncIterator)


class Route(msgspec.Struct, frozen=True):
    """One route. `public` routes require no token and return no sensitive data. `responses` omits the errors
    that every route can return (400 to 503 as problem details). `path_params` describes the names in
    braces of `path`; the last may contain slashes. `has_list`: the body contains a list and is limited by
    console.request.max.bytes; other bodies are limited to SHORT_BODY bytes. `is_file`: the body may be YAML.
    """

    method: str
    path: str
    operation: str
    about: str
    handle: Callable[[Call], Awaitable[Reply]]
    responses: Mapping[int, ResponseSpec]
    query: tuple[Query, ...] = ()
    body: Schema | None = None
    public: bool = False
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    path_params: tuple[Query, ...] = ()
    has_list: bool = False
    is_file: bool = False


def url_rule(route: Route) -> str:
    """The path in the web framework's syntax."""
    address = route.path.replace("{", "<").replace("}", ">")
    if route.path_params and route.path.endswith("}"):
        address = address.replace(f"<{route.path_params[-1].name}>", f"<path:{route.path_params[-1].name}>")
    return address


def read_path_params(route: Route, given: Mapping[str, str]) -> dict[str, Any]:
    """Raises Invalid."""
    return {part.name: part.read(given[part.name]) for part in route.path_params}


def read_query(route: Route, given: Mapping[str, list[str]]) -> dict[str, Any]:
    """Parse the query. Raises Invalid, also for unknown and repeated parameters."""
    known = {query.name: query for query in route.query}
    for name, values in given.items():
        if name not in known:
            raise Invalid(name[:80], f"unknown parameter; allowed: {', '.join(known) or 'none'}")
        if len(values) > 1:
            raise Invalid(name, "is given twice")
    return {
        name: query.read(given[name][0]) if name in given else query.default for name, query in known.items()
    }


def page_query(table: Table[Any], *, limit: int = 100) -> tuple[Query, ...]:
    """Return the parameters of a list that is searched, sorted and paged."""
    shapes = Query("shape", Text(choices=tuple(table.filters)), "Only rows of this kind.")
    return (
        Query("search", Text(), "Only rows with this text in a name, ignoring case.", default=""),
        *([shapes] if table.filters else []),
        Query("sort", Text(choices=table.columns), "Sort column.", default=table.default_sort),
        Query("order", Text(choices=("asc", "desc")), "Which way.", default="asc"),
        Query(
            "offset",
            Number(integer=True, minimum=0, maximum=MAX_OFFSET),
            "Number of rows to skip.",
            default=0,
        ),
        Query(
            "limit",
            Number(integer=True, minimum=1, maximum=LONGEST_PAGE),
            "Maximum number of rows.",
            default=limit,
        ),
    )


def page_schema(row: Schema, **more: Schema) -> Record:
    """Return the schema of a page that `Table.page` returns, with `more` fields of the route."""
    counts = dict.fromkeys(("total", "of", "offset", "limit"), COUNT)
    return Record({"items": Listing(row, max_items=LONGEST_PAGE), **counts, **more})


def page_of(query: Mapping[str, Any]) -> Page:
    return Page(
        search=query["search"],
        shape=query.get("shape"),
        sort=query["sort"],
        descending=query["order"] == "desc",
        offset=query["offset"],
        limit=query["limit"],
    )


IF_MATCH = {"If-Match": "The ETag of the entity as read; 412 if the entity has changed since."}
HEADERS = IF_MATCH | {
    "If-None-Match": "`*`: only if the entity does not exist yet.",
}


def expected_version(headers: HeaderLookup) -> int | None:
    """Return the version that the caller has seen: 0 for a new entity, None without a header. Raises Problem
    400.
    """
    if headers.get("If-None-Match") == "*":
        return 0
    tag = headers.get("If-Match")
    if tag is None:
        return None
    digits = tag.strip().removeprefix('"').removesuffix('"')
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise Problem(400, 'Invalid If-Match: expected the ETag of one entity, such as "17".')
    return int(digits)


def etag(version: int) -> str:
    return f'"{version}"'

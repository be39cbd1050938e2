"""What a REST route is: one value that dispatch, validation, the OpenAPI document and the tests all read.

Written in the modules beside this one, gathered in webui.rest.routes, bound to HTTP by webui.http.app. Knows
nothing of the web framework: a handler gets a `Call` and gives back a `Reply`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from broker.control.commands import Actor
from webui.console import Console
from webui.live.sse_client import Connection
from webui.rest.schema import Flag, Invalid, Number, Schema, Text
from webui.security.headers import HeaderLookup
from webui.security.sessions import Session
from webui.tables.listing import LONGEST_PAGE, Page, Table

JSON: Final = "application/json"
SHORT_BODY: Final = 4_096
"""Bytes that a body has at most where it holds no list."""

FARTHEST: Final = 10_000_000
"""The most rows that a list skips."""


@dataclass(frozen=True, slots=True)
class Query:
    """One query parameter. A value arrives as text and is read as its schema's type; `default` where it is
    not given.
    """

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


@dataclass(frozen=True, slots=True)
class Answer:
    """One way in which a route answers; `schema` None: no body, or one that is not described. `also` are
    other media that it may have.
    """

    about: str
    schema: Schema | None = None
    media: str = JSON
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """A request that has passed the gate and its own schema. `signed_in` is to be asked again by whoever
    takes long; `place` has what the path names. `connection` takes what a stream has to say once it has
    begun, where it can. `session` is that of a browser, None for a program. Lists and dictionaries in
    `left`, and those in `body`, are freed in slices when the handler has returned.
    """

    console: Console
    actor: Actor
    query: Mapping[str, Any]
    body: Any
    headers: HeaderLookup
    signed_in: Callable[[], bool]
    place: Mapping[str, Any] = field(default_factory=dict)
    connection: Connection | None = None
    session: Session | None = None
    left: list[list[Any] | dict[Any, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Reply:
    """`content` is bytes as they are, a stream of bytes, or a value that goes out as JSON; the lists in it
    are emptied then, so they belong to nobody else.
    """

    content: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    media: str = JSON

    @property
    def is_stream(self) -> bool:
        return isinstance(self.content, AsyncIterator)


@dataclass(frozen=True, slots=True)
class Route:
    """`public` routes ask for no token; they say nothing about anybody. `answers` leaves out what every route
    can answer (400 to 503 as problem details). `place` describes what stands in braces in the path; the last
    of them may have slashes. `has_list`: its body holds a list and may be as long as
    console.request.max.bytes says; any other has SHORT_BODY bytes at most.
    """

    method: str
    path: str
    operation: str
    about: str
    handle: Callable[[Call], Awaitable[Reply]]
    answers: Mapping[int, Answer]
    query: tuple[Query, ...] = ()
    body: Schema | None = None
    public: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    place: tuple[Query, ...] = ()
    has_list: bool = False


def address_of(route: Route) -> str:
    """Its path as the web framework writes it."""
    address = route.path.replace("{", "<").replace("}", ">")
    if route.place and route.path.endswith("}"):
        address = address.replace(f"<{route.place[-1].name}>", f"<path:{route.place[-1].name}>")
    return address


def read_place(route: Route, given: Mapping[str, str]) -> dict[str, Any]:
    """Raises Invalid."""
    return {part.name: part.read(given[part.name]) for part in route.place}


def read_query(route: Route, given: Mapping[str, list[str]]) -> dict[str, Any]:
    """Raises Invalid: unknown parameters and repeated ones are refused, not ignored."""
    known = {query.name: query for query in route.query}
    for name, values in given.items():
        if name not in known:
            raise Invalid(name[:80], f"unknown parameter; known are {', '.join(known) or 'none'}")
        if len(values) > 1:
            raise Invalid(name, "is given twice")
    return {
        name: query.read(given[name][0]) if name in given else query.default for name, query in known.items()
    }


def page_query(table: Table[Any], *, limit: int = 100) -> tuple[Query, ...]:
    """The parameters of a list that is searched, sorted and paged."""
    shapes = Query("shape", Text(choices=tuple(table.shapes)), "Only rows of this kind.")
    return (
        Query("search", Text(), "Only rows with this in a name, in whatever case.", default=""),
        *([shapes] if table.shapes else []),
        Query("sort", Text(choices=table.columns), "What to sort by.", default=table.natural),
        Query("order", Text(choices=("asc", "desc")), "Which way.", default="asc"),
        Query("offset", Number(integer=True, least=0, most=FARTHEST), "How many rows to skip.", default=0),
        Query(
            "limit",
            Number(integer=True, least=1, most=LONGEST_PAGE),
            "How many rows to answer.",
            default=limit,
        ),
    )


def page_of(query: Mapping[str, Any]) -> Page:
    return Page(
        search=query["search"],
        shape=query.get("shape"),
        sort=query["sort"],
        descending=query["order"] == "desc",
        offset=query["offset"],
        limit=query["limit"],
    )

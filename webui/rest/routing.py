"""REST routes as values, used by dispatch, validation, the OpenAPI document and the tests.

The modules of this package define routes, webui.rest.routes collects them, and webui.http.app binds them to
HTTP. Independent of the web framework: a handler takes a `Call` and returns a `Reply`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from broker.common.errors import ErrorCode
from broker.config.sections.console import ConsoleConfig
from broker.controller.commands import Actor, Command, Role, lacks_role
from broker.views.console import Views
from webui.console import Console
from webui.live.sse_client import StreamConnection
from webui.path_names import unescaped
from webui.problem import Problem
from webui.schema import Flag, Invalid, Number, Schema, Text
from webui.security.headers import HeaderLookup
from webui.security.sessions import Session

Answer = TypeVar("Answer")

BASE: Final = "/api/v1"
JSON: Final = "application/json"
SHORT_BODY: Final = 4_096
"""Maximum size in bytes of a body without a list."""


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


class PathName(Query, frozen=True):
    """A name in a path, which can be escaped (webui.path_names)."""

    def read(self, text: str) -> Any:
        """Raises Invalid."""
        try:
            return super().read(unescaped(text))
        except UnicodeDecodeError:
            raise Invalid(self.name, "must be a name in UTF-8") from None


class ResponseSpec(msgspec.Struct, frozen=True):
    """One response of a route. `schema` is None for no body (204, 304) or an undescribed one; `also` lists
    further media types.
    """

    about: str
    schema: Schema | None = None
    media: str = JSON
    also: tuple[str, ...] = ()


class RefusedEntry(msgspec.Struct, frozen=True):
    """An element of a file's list that is not valid, and is left out of the body: its line, and a message.
    `where` is a JSON pointer.
    """

    line: int
    message: str
    where: str


class Call(msgspec.Struct, frozen=True):
    """An authorized and validated request. Slow handlers check `is_logged_in` again after waiting.

    `operation` names the route. `path_params` has the parameters of the path. A stream writes its events to
    `connection` if there is one. `session` is the browser's session, None for a program. Lists and
    dictionaries in `to_free` and `body` are freed in slices after the handler returns. `lines` has the line
    of each element of a file, by list, and `refused` the invalid elements, which are not in the body.
    """

    console: Console
    actor: Actor
    query: Mapping[str, Any]
    body: Any
    headers: HeaderLookup
    is_logged_in: Callable[[], bool]
    path_params: Mapping[str, Any] = msgspec.field(default_factory=dict)
    connection: StreamConnection | None = None
    session: Session | None = None
    operation: str = ""
    to_free: list[list[Any] | dict[Any, Any]] = msgspec.field(default_factory=list)
    lines: Mapping[str, Sequence[int]] = msgspec.field(default_factory=dict)
    refused: Sequence[RefusedEntry] = ()

    @property
    def views(self) -> Views:
        return self.console.backend.views

    async def apply(self, command: Command[Answer]) -> Answer:
        """Run a command in the name of the actor. Raises ApiError, as `ControlService` does."""
        return await self.console.backend.control.apply(command, self.actor)


class Reply(msgspec.Struct, frozen=True):
    """A response. `content` is bytes, a stream of bytes, or a value to encode as JSON. Encoding empties the
    value's lists, so they must not be shared. A response without content (204, 304) has no media type.
    """

    content: Any = None
    status: int = 200
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    media: str = JSON

    @property
    def is_stream(self) -> bool:
        return isinstance(self.content, AsyncIterator)

    @property
    def has_content(self) -> bool:
        return self.status not in (204, 304)


_REFUSED_AS: Final = {
    "topics": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    "groups": ErrorCode.GROUP_AUTHORIZATION_FAILED,
}
"""The error codes of missing roles, by tag, as in broker.controller."""


class Route(msgspec.Struct, frozen=True):
    """One route. `request` is its method and its path, as in `GET /api/v1/topics/{name}`. `public` routes
    require no token and return no sensitive data. `responses` omits the errors that every route can return
    (400 to 503 as problem details). `path_params` describes the names in braces of the path; the last may
    contain slashes if it ends the path, or with `has_slashes`. `has_list`: the body contains a list and is
    limited by console.request.max.bytes; other bodies are limited to SHORT_BODY bytes. `is_file`: the body
    may be YAML. `example` is a body for the OpenAPI document. `role` is the least role that the command of a
    route with a body requires, so that the body of others is not even read.
    """

    request: str
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
    has_slashes: bool = False
    example: Any = None
    role: Role | Callable[[ConsoleConfig], Role] = Role.VIEWER

    def check_role(self, actor: Actor, settings: ConsoleConfig) -> None:
        """Raise the Problem that `Control` would answer with."""
        needed = self.role if isinstance(self.role, Role) else self.role(settings)
        if actor.role < needed:
            code = _REFUSED_AS.get(self.tag, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            raise Problem.of(code, lacks_role(actor.name, actor.role, needed))

    @property
    def method(self) -> str:
        return self.request.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.request.partition(" ")[2]

    @property
    def tag(self) -> str:
        """The route's group in the OpenAPI document: the first segment of its path."""
        return self.path.removeprefix(BASE).lstrip("/").partition("/")[0].partition(":")[0]


def url_rule(route: Route) -> str:
    """The path in the web framework's syntax."""
    address = route.path.replace("{", "<").replace("}", ">")
    if route.path_params and (route.path.endswith("}") or route.has_slashes):
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

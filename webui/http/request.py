"""The web framework's request: its limits, its queue, and adapters to the checks.

Used by webui.http.asgi before the framework sees a request, and by webui.http.app and
webui.http.page_routes. A body's length is limited by route when the framework creates its request, before
any part of the body is stored: Content-Length is compared with the limit then, and a chunked body as its
bytes arrive. A longer body is refused with 413.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from hypercorn.typing import HTTPScope
from quart import Request
from quart_trio.wrappers import TrioRequest
from werkzeug.datastructures import Headers
from werkzeug.exceptions import RequestEntityTooLarge

from broker.control.commands import Role
from webui.console import Console
from webui.http.fair_queue import Kind
from webui.live.sse_client import Connection
from webui.rest.problem import Problem
from webui.rest.routes import ROUTES
from webui.rest.routing import SHORT_BODY, Route
from webui.security.backoff import network_of
from webui.security.gate import RequestInfo, cookie_name

BEARER: Final = "webui.bearer"
CONNECTION: Final = "webui.connection"
ENTRY: Final = "webui.entry"
"""State key of the connection's `Entry`, set by http.http_server."""
WEBSOCKET: Final = "webui.websocket"
"""State key of a flag for WebSocket upgrades, set by http.http_server."""
UNAUTHENTICATED: Final = "webui.unauthenticated"
"""Scope key of a flag for requests without a valid session or token, set by `queue_of`."""
PUBLIC_PATHS: Final = frozenset(route.path for route in ROUTES if route.public)
"""Health checks, served without a token."""
QUOTAS: Final = "/api/v1/client-quotas"


class BodyLimits:
    """The limits of all routes. `longest` applies to routes whose body has a list."""

    __slots__ = ("_longest", "_patterns", "_short")

    def __init__(self, routes: Iterable[Route], longest: int) -> None:
        self._longest = longest
        self._short = min(SHORT_BODY, longest)
        self._patterns = [(each.method, _pattern(each)) for each in routes if each.has_list]

    def of(self, method: str, path: str) -> int:
        """Return the limit in bytes, also for unknown paths."""
        for its_method, pattern in self._patterns:
            if method == its_method and pattern.fullmatch(path):
                return self._longest
        return self._short


def _pattern(route: Route) -> re.Pattern[str]:
    """Return a pattern that matches any text for each name in braces. No other route has such paths."""
    return re.compile(".+".join(re.escape(part) for part in re.split(r"\{[^}]*\}", route.path)), re.DOTALL)


def limited_request(limits: BodyLimits) -> type[TrioRequest]:
    """Return the framework's request class with the limit of each request's own route."""

    class LimitedRequest(TrioRequest):
        def __init__(
            self,
            method: str,
            scheme: str,
            path: str,
            query_string: bytes,
            headers: Headers,
            root_path: str,
            http_version: str,
            scope: HTTPScope,
            **rest: Any,
        ) -> None:
            longest = rest["max_content_length"] = limits.of(method, path)
            super().__init__(
                method, scheme, path, query_string, headers, root_path, http_version, scope, **rest
            )
            self.max_content_length = longest

    return LimitedRequest


async def body_of(request: Request) -> bytes:
    """Return the whole body. Raises Problem 413, and the framework's RequestTimeout."""
    try:
        return await request.get_data(cache=False, as_text=False, parse_form_data=False)
    except RequestEntityTooLarge:
        raise too_long(request.max_content_length or 0) from None


def connection_of(request: Request) -> Connection | None:
    """Return the connection that http.http_server stored, or None if the response cannot be chunked."""
    if request.http_version != "1.1":
        return None
    state: dict[str, Connection] = request.scope.get("state", {})
    return state.get(CONNECTION)


def queue_of(console: Console, scope: HTTPScope) -> tuple[str, Kind]:
    """Return the queue of a request (by session, token or address) and the kind of its turn. Called before
    the framework sees the request.

    A bearer token is compared here, so it counts as a guess here even if the request is never finished; the
    result is stored with the request. While the address must wait, no token is compared, so the length of the
    queue reveals nothing about a guess.
    """
    address = address_of(scope)
    if scope["path"] in PUBLIC_PATHS:
        return f"health {address}", Kind.HEALTH
    found = dict(scope["headers"])
    cookies = found.get(b"cookie", b"").decode("latin-1").split(";")
    wanted = cookie_name(console, scope["scheme"]) + "="
    for cookie in cookies:
        if cookie.strip().startswith(wanted):
            session = console.authenticator.session(cookie.strip().removeprefix(wanted))
            if session is not None:
                return f"session {session.csrf}", _kind(scope, session.token.role)
    kind, _, secret = found.get(b"authorization", b"").decode("latin-1").partition(" ")
    if kind.lower() == "bearer":
        shown: dict[str, Any] = scope  # type: ignore[assignment]
        try:
            token = shown[BEARER] = console.authenticator.bearer(secret.strip(), address)
        except Problem as problem:
            shown[BEARER] = problem
        else:
            return f"token {token.name}", _kind(scope, token.role)
    scope[UNAUTHENTICATED] = True  # type: ignore[typeddict-unknown-key]
    return f"address {address}", Kind.PAGE


def address_of(scope: HTTPScope) -> str:
    """Return the client's network, by which requests are counted."""
    client = scope.get("client")
    return network_of(str(client[0])) if client else ""


def refusal_of(limits: BodyLimits, scope: HTTPScope) -> Problem | None:
    """Return why to refuse a request at its turn, before the framework sees it, or None.

    Refuses a body that is too long only without authentication: the connection closes before the body is
    read, so the client may not receive the response.
    """
    state: dict[str, Any] = scope.get("state") or {}
    if state.get(WEBSOCKET):
        return Problem(400, "WebSockets are not supported.", headers={"Connection": "close"})
    entry = state.get(ENTRY)
    if entry is not None and entry.is_reserved and scope["path"] not in PUBLIC_PATHS:
        detail = "Connection limit reached; further connections may send health checks only."
        return Problem(503, detail, headers={"Connection": "close", "Retry-After": "5"})
    if scope.get(UNAUTHENTICATED):
        longest = limits.of(scope["method"], scope["path"])
        if _content_length(scope) > longest:
            problem = too_long(longest)
            problem.headers["Connection"] = "close"
            return problem
    return None


def too_long(longest: int) -> Problem:
    return Problem(413, f"Request body too long: at most {longest} bytes are allowed.")


def _content_length(scope: HTTPScope) -> int:
    """Return the Content-Length, which h11 has validated; 0 without one."""
    return next((int(value) for name, value in scope["headers"] if name == b"content-length"), 0)


@contextmanager
def counted_as_idle(scope: HTTPScope) -> Iterator[None]:
    """Count the connection as idle while its request waits for a turn, so it may be closed at a limit."""
    state: dict[str, Any] = scope.get("state") or {}
    entry = state.get(ENTRY)
    if entry is not None:
        entry.set_idle(True)
    yield
    if entry is not None:
        entry.set_idle(False)


def _kind(scope: HTTPScope, role: str) -> Kind:
    return Kind.CHANGE if _changes_quotas(scope, role) else Kind.PAGE


def _changes_quotas(scope: HTTPScope, role: str) -> bool:
    return scope["method"] == "PATCH" and scope["path"] == QUOTAS and Role[role.upper()] >= Role.EDITOR


def request_info_of(request: Request) -> RequestInfo:
    """Return the request's data for the checks. The address is the socket's, never a header's."""
    client = request.scope.get("client") or ("", 0)
    return RequestInfo(
        method=request.method,
        scheme=request.scheme,
        path=request.path,
        address=str(client[0]),
        headers=request.headers,
        cookies=request.cookies,
        bearer=request.scope.get(BEARER),  # type: ignore[arg-type]
    )

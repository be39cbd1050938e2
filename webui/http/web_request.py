"""The web framework's request, as the gate sees it. Used by webui.http.app and webui.pages."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from hypercorn.typing import HTTPScope
from quart import Request
from werkzeug.exceptions import RequestEntityTooLarge

from broker.control.commands import Role
from webui.console import Console
from webui.http.body_limits import BodyLimits
from webui.http.fair_queue import Kind
from webui.live.sse_client import Connection
from webui.rest.problem import Problem
from webui.rest.routes import ROUTES
from webui.security.backoff import network_of
from webui.security.gate import RequestInfo, cookie_name

BEARER: Final = "webui.bearer"
CONNECTION: Final = "webui.connection"
ENTRY: Final = "webui.entry"
"""Where http.http_server puts what a connection is counted as."""
WEBSOCKET: Final = "webui.websocket"
"""Where http.http_server says that a request was to become a WebSocket."""
STRANGER: Final = "webui.stranger"
"""Where `line_of` says that a request shows neither a session nor a token that is right."""
PUBLIC_PATHS: Final = frozenset(route.path for route in ROUTES if route.public)
"""Answered without a token, for health checks."""
QUOTAS: Final = "/api/v1/client-quotas"


async def body_of(request: Request) -> bytes:
    """The whole body. Raises Problem 413; RequestTimeout is the framework's."""
    try:
        return await request.get_data(cache=False, as_text=False, parse_form_data=False)
    except RequestEntityTooLarge:
        raise too_long(request.max_content_length or 0) from None


def connection_of(request: Request) -> Connection | None:
    """What webui.http.http_server has put beside the request, where its answer can be sent in chunks."""
    if request.http_version != "1.1":
        return None
    state: dict[str, Connection] = request.scope.get("state", {})
    return state.get(CONNECTION)


def line_of(console: Console, scope: HTTPScope) -> tuple[str, Kind]:
    """The line in which a request waits for its turn: its session's, its token's or its address's; and which
    kind of turn it takes. Asked before the framework has seen the request.

    A bearer token is compared here, so it is counted here as a guess, whether or not the request is ever
    finished; what was found goes with the request. While its address must wait, no token is compared: the
    length of the line says nothing about a guess.
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
    scope[STRANGER] = True  # type: ignore[typeddict-unknown-key]
    return f"address {address}", Kind.PAGE


def address_of(scope: HTTPScope) -> str:
    """The network that a request comes from, as it is counted."""
    client = scope.get("client")
    return network_of(str(client[0])) if client else ""


def refusal_of(limits: BodyLimits, scope: HTTPScope) -> Problem | None:
    """Why a request is refused when its turn has come, before the framework has seen it. A body that is too
    long is refused here only where nobody knows the sender: its connection closes before the body is read,
    and the sender may never see the answer.
    """
    state: dict[str, Any] = scope.get("state") or {}
    if state.get(WEBSOCKET):
        return Problem(400, "The console serves no WebSockets.", headers={"Connection": "close"})
    entry = state.get(ENTRY)
    if entry is not None and entry.is_reserved and scope["path"] not in PUBLIC_PATHS:
        detail = "The console has no free connection; those beyond its limit answer health checks only."
        return Problem(503, detail, headers={"Connection": "close", "Retry-After": "5"})
    if scope.get(STRANGER):
        longest = limits.of(scope["method"], scope["path"])
        if _announced(scope) > longest:
            problem = too_long(longest)
            problem.headers["Connection"] = "close"
            return problem
    return None


def too_long(longest: int) -> Problem:
    return Problem(413, f"The body of this request may have {longest} bytes at most.")


def _announced(scope: HTTPScope) -> int:
    """Content-Length, of which h11 has made sure that it is a number; 0 without one."""
    return next((int(value) for name, value in scope["headers"] if name == b"content-length"), 0)


@contextmanager
def out_of_hand(scope: HTTPScope) -> Iterator[None]:
    """While a request waits for its turn, its connection counts as idle: it may be closed to make room."""
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
    """The address is the socket's: no header is believed about it."""
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

"""One HTTP request: its turn before the framework sees it, its limits, and adapters to the checks.

Used by webui.http.app and webui.http.page_routes; `paced_connection` is the `asgi_http_class` of the app. A
body's length is limited by route when the framework creates its request, before any part of the body is
stored: Content-Length is compared with the limit then, and a chunked body as its bytes arrive. A longer body
is refused with 413.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import trio
from hypercorn.typing import ASGIReceiveCallable, ASGIReceiveEvent, ASGISendCallable, ASGISendEvent, HTTPScope
from quart import Request
from quart_trio.asgi import TrioASGIHTTPConnection
from quart_trio.wrappers import TrioRequest
from werkzeug.datastructures import Headers
from werkzeug.exceptions import RequestEntityTooLarge

from broker.controller.commands import Role
from webui.console import Console
from webui.fair_queue import TurnKind
from webui.http.forwarded_for import client_of
from webui.live.sse_client import StreamConnection
from webui.problem import PROBLEM_TYPE, Problem
from webui.rest.routes import ROUTES
from webui.rest.routing import SHORT_BODY, Route
from webui.security import headers
from webui.security.backoff import network_of
from webui.security.gate import RequestInfo
from webui.tables.json_output import encode

BEARER: Final = "webui.bearer"
CONNECTION: Final = "webui.connection"
ENTRY: Final = "webui.entry"
"""State key of the connection's `CountedConnection`, set by http.http_server."""
WEBSOCKET: Final = "webui.websocket"
"""State key of a flag for WebSocket upgrades, set by http.http_server."""
UNAUTHENTICATED: Final = "webui.unauthenticated"
"""Scope key of a flag for requests without a valid session or token, set by `queue_of`."""
PUBLIC_PATHS: Final = frozenset(route.path for route in ROUTES if route.public)
"""Health checks, served without a token."""
QUOTAS: Final = "/api/v1/client-quotas"

log = logging.getLogger(__name__)

SEND_LIMIT_S = 15.0
MAX_SEND_BYTES: Final = 131_072
"""Bytes of a body per send."""

MAX_RECEIVED: Final = 8
"""Messages kept for a waiting request. A closed connection is not detected after more messages than that."""

OVERLOADED: Final = Problem(503, "The console is overloaded.", headers={"Retry-After": "5"})


class WholeSendConnection(TrioASGIHTTPConnection):
    """A request whose response is sent in shielded parts. `on_response_start` is called when the response
    begins.

    When a response is complete, hypercorn recycles or closes the connection inside the app's own `send`, and
    notifies the task that reads messages. In quart-trio that task then cancels the nursery in which `send` is
    still running. The close would be interrupted and leave the socket and its reading task behind. A shielded
    `send` lets the close finish; its time limit is for a peer that does not read.
    """

    async def handle(
        self, receive: ASGIReceiveCallable, send: ASGISendCallable, on_response_start: Callable[[], None]
    ) -> None:
        async def send_whole(message: ASGISendEvent) -> None:
            if message["type"] == "http.response.start":
                on_response_start()
            for part in _parts(message):
                with trio.fail_after(SEND_LIMIT_S, shield=True):
                    await send(part)

        await super().__call__(receive, send_whole)


def paced_connection(console: Console, limits: "BodyLimits") -> type[TrioASGIHTTPConnection]:
    """Return a class of requests that wait for a turn of the kind and in the queue that `queue_of` returns.

    Requests that `refusal_of` refuses wait too, and do not reach the framework.
    """
    refused = RefusalLog(log, "console refused requests")
    proxies = console.settings.forwarded_for_trusted_addresses

    class PacedConnection(WholeSendConnection):
        async def __call__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
            if proxies:
                self.scope["client"] = client_of(self.scope, proxies)
            identity, kind = queue_of(console, self.scope)
            turn = console.fair_queue.turn(identity, kind)
            try:
                if turn.wait_s > 0:
                    received: list[ASGIReceiveEvent] = []
                    with counted_as_idle(self.scope):
                        is_connected = await wait_for_turn(turn.wait_s, receive, received)
                    if not is_connected:
                        return
                    receive = _replayed(received, receive)
                if not turn.granted:
                    await _refuse(send, OVERLOADED)
                elif (problem := refusal_of(limits, self.scope)) is not None:
                    refused.note(address_of(self.scope))
                    await _refuse(send, problem)
                else:
                    await self.handle(receive, send, turn.done)
            finally:
                turn.done()

    return PacedConnection


def _parts(message: ASGISendEvent) -> Iterator[ASGISendEvent]:
    """Yield a long body in parts, since each part is copied and encrypted in one step."""
    if message["type"] != "http.response.body" or len(message["body"]) <= MAX_SEND_BYTES:
        yield message
        return
    body = memoryview(message["body"])
    for at in range(0, len(body), MAX_SEND_BYTES):
        more = message["more_body"] or at + MAX_SEND_BYTES < len(body)
        part = bytes(body[at : at + MAX_SEND_BYTES])
        yield {"type": "http.response.body", "body": part, "more_body": more}


async def wait_for_turn(
    wait_s: float, receive: ASGIReceiveCallable, received: list[ASGIReceiveEvent]
) -> bool:
    """Wait for `wait_s`, adding messages to `received`. Return False once the peer disconnects."""
    gone = False

    async def receive_messages() -> None:
        nonlocal gone
        while len(received) < MAX_RECEIVED:
            message = await receive()
            received.append(message)
            if message["type"] == "http.disconnect":
                gone = True
                waiting.cancel()
                return

    async with trio.open_nursery() as nursery:
        waiting = nursery.cancel_scope
        nursery.start_soon(receive_messages)
        await trio.sleep(wait_s)
        waiting.cancel()
    return not gone


def _replayed(received: list[ASGIReceiveEvent], receive: ASGIReceiveCallable) -> ASGIReceiveCallable:
    async def receive_on() -> ASGIReceiveEvent:
        return received.pop(0) if received else await receive()

    return receive_on


async def _refuse(send: ASGISendCallable, problem: Problem) -> None:
    fields = headers.SECURITY_HEADERS | problem.headers | {"Content-Type": PROBLEM_TYPE}
    body = encode(problem.document())
    fields |= {"Cache-Control": headers.NO_STORE, "Content-Length": str(len(body))}
    sent = [(name.lower().encode(), value.encode()) for name, value in fields.items()]
    with trio.move_on_after(SEND_LIMIT_S, shield=True):
        await send(
            {"type": "http.response.start", "status": problem.status, "headers": sent, "trailers": False}
        )
        await send({"type": "http.response.body", "body": body, "more_body": False})


LOG_EVERY_S: Final = 1.0


class RefusalLog:
    """Logs `message` with the number of refusals since the last line as `refused`."""

    __slots__ = ("_count", "_log", "_message", "_next_at")

    def __init__(self, log: logging.Logger, message: str) -> None:
        self._count = 0
        self._log = log
        self._next_at = 0.0
        self._message = message

    def note(self, address: str) -> None:
        """Count a refusal of `address`."""
        self._count += 1
        now = trio.current_time()
        if now >= self._next_at:
            self._log.info(self._message, extra={"address": address, "refused": self._count})
            self._count = 0
            self._next_at = now + LOG_EVERY_S


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


def connection_of(request: Request) -> StreamConnection | None:
    """Return the connection that http.http_server stored, or None if the response cannot be chunked."""
    if request.http_version != "1.1":
        return None
    state: dict[str, StreamConnection] = request.scope.get("state", {})
    return state.get(CONNECTION)


def queue_of(console: Console, scope: HTTPScope) -> tuple[str, TurnKind]:
    """Return the queue of a request (by session, token or address) and the kind of its turn. Called before
    the framework sees the request.

    A bearer token is compared here, so it counts as a guess here even if the request is never finished; the
    result is stored with the request. While the address must wait, no token is compared, so the length of the
    queue reveals nothing about a guess.
    """
    address = address_of(scope)
    if scope["path"] in PUBLIC_PATHS:
        return f"health {address}", TurnKind.HEALTH
    found = dict(scope["headers"])
    cookies = found.get(b"cookie", b"").decode("latin-1").split(";")
    wanted = console.gate.cookie_name(scope["scheme"]) + "="
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
    return f"address {address}", TurnKind.PAGE


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


def _kind(scope: HTTPScope, role: str) -> TurnKind:
    return TurnKind.CHANGE if _changes_quotas(scope, role) else TurnKind.PAGE


def _changes_quotas(scope: HTTPScope, role: str) -> bool:
    """Return whether the request can change quotas. A body that is too long for a rule cannot, and waits as
    any other request does.
    """
    method, path = scope["method"], scope["path"]
    if method == "PATCH":
        is_change = path == QUOTAS
    else:
        is_of_rule = method in ("PUT", "DELETE") and path.startswith(f"{QUOTAS}/")
        is_change = is_of_rule and _content_length(scope) <= SHORT_BODY
    return is_change and Role[role.upper()] >= Role.EDITOR


def request_info_of(request: Request) -> RequestInfo:
    """Return the request's data for the checks. The address is the socket's, unless a trusted proxy has named
    another one.
    """
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

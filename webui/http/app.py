"""The web application: creates the console's objects, binds every route to HTTP behind one set of checks, and
renders all errors.

Built by webui.serving and the tests. A request waits for its turn, then passes the checks of host and
origin, authentication, and validation before its handler runs. Independent of individual routes.
"""

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final, Never

from quart import Response, request
from quart.routing import QuartRule
from quart.typing import ResponseReturnValue
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException
from werkzeug.routing import PathConverter

from broker.common.errors import ApiError
from broker.common.http_requests import fetch_over_http
from broker.config.sections.console import ConsoleConfig
from broker.controller.commands import Actor, ChangeOrigin, Role
from webui.backend import Backend
from webui.console import Console
from webui.http.page_routes import add_pages
from webui.http.request import (
    PUBLIC_PATHS,
    BodyLimits,
    body_of,
    connection_of,
    limited_request,
    paced_connection,
    request_info_of,
)
from webui.insights.reader import Reader
from webui.insights.what_if import WhatIf
from webui.pages import Renderer, shared_renderer
from webui.problem import PROBLEM_TYPE, Problem
from webui.rest import bodies as strict_json
from webui.rest.bodies import read
from webui.rest.events import make_live
from webui.rest.files import YAML, read_file
from webui.rest.routes import ROUTES
from webui.rest.routing import Call, RefusedEntry, Reply, Route, read_path_params, read_query, url_rule
from webui.schema import Invalid, Record
from webui.security import headers
from webui.security.authenticator import Authenticator
from webui.security.gate import Gate, check_body, check_encoding, check_framing, check_head, check_query
from webui.security.oidc import Oidc
from webui.security.origin import AllowedHosts, OwnHost
from webui.tables.json_output import encode_in_pieces, encode_in_slices
from webui.tables.slices import consumed, free_in_slices

log = logging.getLogger(__name__)

BODY_TIMEOUT_S = 10

LARGE_BODY: Final = 65_536
"""Bytes of a body above which only one is parsed at a time, and a file until it is answered: a megabyte of
YAML takes 48 MB as nodes.
"""


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def make_console(
    backend: Backend,
    settings: ConsoleConfig,
    port: int,
    *,
    now_ms: Callable[[], int] = wall_clock_ms,
    uptime_ms: Callable[[], int] = monotonic_ms,
) -> Console:
    """Create the shared objects of all handlers. `now_ms` is the time of day in responses, `uptime_ms`
    the clock of sessions and waits.
    """
    listener = settings.listener
    authenticator = Authenticator(backend, settings, uptime_ms, now_ms)
    hosts = AllowedHosts("" if listener is None else listener.host, settings.allowed_hosts)
    return Console(
        backend=backend,
        settings=settings,
        authenticator=authenticator,
        gate=Gate(authenticator, hosts, OwnHost(settings), port),
        live=make_live(backend.views, backend.alerts, now_ms),
        now_ms=now_ms,
        insights=Reader(settings.insights_warehouse),
        what_if=WhatIf(settings.insights_warehouse),
        oidc=Oidc(settings, fetch_over_http, uptime_ms),
    )


class MatchedRule(QuartRule):
    """A URL rule that only matches. Werkzeug compiles two functions for each rule that make URLs from it. The
    console writes its URLs itself, and the functions would be a twentieth of the processor time of a start.
    """

    def _compile_builder(self, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:
        return _make_no_url


def _make_no_url(_rule: MatchedRule, **_values: object) -> Never:
    raise NotImplementedError("the console's rules only match")


class NamePath(PathConverter):
    """The rest of a path. Werkzeug's own matches no line feed, which the names of groups may contain."""

    regex = "[^/](?s:.*?)"


def build_app(console: Console) -> QuartTrio:
    app = QuartTrio(__name__, static_folder=None, template_folder=None)
    limits = BodyLimits(ROUTES, console.settings.request_max_bytes)
    app.asgi_http_class = paced_connection(console, limits)
    app.url_rule_class = MatchedRule
    app.url_map.converters["path"] = NamePath
    app.url_map.merge_slashes = False
    app.request_class = limited_request(limits)
    app.config["BODY_TIMEOUT"] = BODY_TIMEOUT_S
    app.config["RESPONSE_TIMEOUT"] = 30
    add_pages(app, console)
    for route in ROUTES:
        app.add_url_rule(
            url_rule(route),
            route.operation,
            _bind(console, route),
            methods=[route.method],
            provide_automatic_options=False,
        )

    @app.before_request
    async def check_request() -> None:
        scope = request.scope
        target = scope["raw_path"] + scope["query_string"]
        check_head(target, scope["headers"])
        check_encoding(target)
        check_query(scope["query_string"])
        request_info = request_info_of(request)
        check_framing(request_info)
        console.gate.check_origin(request_info, any_host=request_info.path in PUBLIC_PATHS)

    @app.after_request
    async def add_headers(response: Response) -> Response:
        for name, value in headers.SECURITY_HEADERS.items():
            response.headers.setdefault(name, value)
        response.headers.setdefault("Cache-Control", headers.NO_STORE)
        if request.scheme == "https":
            response.headers.update(headers.TLS_HEADERS)
        request.routing_exception = None  # its traceback refers to the request: a cycle
        return response

    _add_error_handlers(app, shared_renderer())
    return app


def _bind(console: Console, route: Route) -> Callable[[], Awaitable[ResponseReturnValue]]:
    async def handler(**path: str) -> ResponseReturnValue:
        request_info = request_info_of(request)
        if route.public:
            actor = Actor("", Role.VIEWER, request_info.address, ChangeOrigin.REST)
            call = Call(console, actor, {}, None, request.headers, lambda: True)
            return await _response(await route.handle(call))
        identity = console.gate.identity(request_info)
        actor = identity.actor()
        route.check_role(actor, console.settings)
        path_params = read_path_params(route, path)
        query = read_query(route, request.args.to_dict(flat=False))
        async with AsyncExitStack() as turn:
            body = None
            lines: Mapping[str, Sequence[int]] = {}
            refused_entries: Sequence[RefusedEntry] = ()
            if route.body is not None:
                media = check_body(request_info, *((YAML,) if route.is_file else ()))
                sent = await body_of(request)
                if len(sent) > LARGE_BODY:
                    await turn.enter_async_context(console.large_bodies)
                if isinstance(route.body, Record) and route.is_file:
                    body, lines, refused_entries = await read_file(sent, media, route.body)
                else:
                    body = await read(sent, route.body)
                    await turn.aclose()  # a simulation takes minutes

            def is_logged_in() -> bool:
                return console.gate.is_still_signed_in(request_info, identity)

            call = Call(
                console,
                actor,
                query,
                body,
                request.headers,
                is_logged_in,
                path_params,
                connection_of(request),
                identity.session,
                route.operation,
                lines=lines,
                refused=refused_entries,
            )
            refused: Problem | None = None
            try:
                reply = await route.handle(call)
            except Problem as problem:
                # The traceback's frames refer to objects that `free_in_slices` frees.
                refused = problem.with_traceback(None)
            if refused is not None:
                await free_in_slices(body, *call.to_free)
                raise refused
            response = await _response(reply)
            await free_in_slices(reply.content, body, *call.to_free)
            return response
        raise AssertionError("unreachable: neither context suppresses exceptions")

    return handler


async def _each(pieces: list[bytes]) -> AsyncIterator[bytes]:
    for piece in consumed(pieces):
        yield piece


async def _response(reply: Reply) -> Response:
    headers = dict(reply.headers)
    content: bytes | AsyncIterator[bytes] = reply.content
    if not (reply.is_stream or isinstance(reply.content, bytes)):
        pieces = await encode_in_pieces(reply.content)
        headers["Content-Length"] = str(sum(map(len, pieces)))
        content = pieces[0] if len(pieces) == 1 else _each(pieces)
    if request.method == "HEAD" and not isinstance(content, bytes):
        content = b""  # or a stream would be kept open
    response = Response(content, status=reply.status, headers=headers, content_type=reply.media)
    if "Content-Length" in headers:
        response.headers["Content-Length"] = headers["Content-Length"]  # also if the content is left out
    if not reply.has_content:
        for name in ("Content-Type", "Content-Length"):
            response.headers.pop(name, None)
    if reply.is_stream:
        response.timeout = None
    return response


FRAMEWORK_ERRORS: Final = {
    400: "The request is malformed.",
    404: "There is no page and no resource at this path.",
    405: "This path does not have the method; the header Allow names those that it has.",
    413: "The body is too long.",
    500: "Internal error; see the broker's log.",
}
"""What a client is told in place of the framework's own texts, which are for websites."""


def _add_error_handlers(app: QuartTrio, renderer: Renderer) -> None:
    """Render every error: as a problem document, or as a page for browser navigations."""

    async def respond(problem: Problem) -> Response:
        wants_page = request.method == "GET" and request.headers.get("Sec-Fetch-Dest") == "document"
        if wants_page:
            html = renderer.render("error.html", **problem.document())
            response = Response(html, status=problem.status, content_type="text/html; charset=utf-8")
        else:
            response = Response(
                await encode_in_slices(problem.document()), status=problem.status, content_type=PROBLEM_TYPE
            )
        response.headers.update(problem.headers)
        return response

    @app.errorhandler(Problem)
    async def problem_response(problem: Problem) -> Response:
        return await respond(problem)

    @app.errorhandler(Invalid)
    async def invalid(error: Invalid) -> Response:
        return await respond(Problem(400, error.message, where=error.where))

    @app.errorhandler(strict_json.NotJson)
    async def not_json(error: strict_json.NotJson) -> Response:
        return await respond(Problem(400, str(error)))

    @app.errorhandler(ApiError)
    async def refused_by_control(error: ApiError) -> Response:
        return await respond(Problem.of(error.code, error.message))

    @app.errorhandler(HTTPException)
    async def refused_by_framework(error: HTTPException) -> Response:
        status = error.code or 500
        problem = Problem(status, FRAMEWORK_ERRORS.get(status) or error.description or "")
        allowed = getattr(error, "valid_methods", None)
        if allowed:
            problem.headers["Allow"] = ", ".join(sorted(set(allowed) - {"OPTIONS"}))
        return await respond(problem)

    @app.errorhandler(Exception)
    async def internal_error(error: Exception) -> Response:
        log.error(
            "Failed to handle a request for %s",
            request.path.encode("unicode_escape").decode(),
            exc_info=error,
        )
        return await respond(Problem(500, FRAMEWORK_ERRORS[500]))

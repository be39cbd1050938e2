"""The web framework's request, as the gate sees it. Used by webui.http.app and webui.pages."""

from typing import Final

from hypercorn.typing import HTTPScope
from quart import Request
from werkzeug.exceptions import RequestEntityTooLarge

from broker.control.commands import Role
from webui.console import Console
from webui.live.follower import Connection
from webui.rest.problem import Problem
from webui.security.gate import Knock, cookie_name

CONNECTION: Final = "webui.connection"
QUOTAS: Final = "/api/v1/client-quotas"


async def body_of(request: Request) -> bytes:
    """The whole body. Raises Problem 413; RequestTimeout is the framework's."""
    try:
        return await request.get_data(cache=False, as_text=False, parse_form_data=False)
    except RequestEntityTooLarge:
        detail = f"The body of this request may have {request.max_content_length} bytes at most."
        raise Problem(413, detail) from None


def connection_of(request: Request) -> Connection | None:
    """What webui.http.front has put beside the request, where its answer can be sent in chunks."""
    if request.http_version != "1.1":
        return None
    state: dict[str, Connection] = request.scope.get("state", {})
    return state.get(CONNECTION)


def line_of(console: Console, scope: HTTPScope) -> tuple[str, bool]:
    """Whose turns a request takes: a session's, a token's, an address's; and whether it is one for changes.
    Asked before the framework has seen the request, and whether or not it will be let in.
    """
    found = dict(scope["headers"])
    cookies = found.get(b"cookie", b"").decode("latin-1").split(";")
    wanted = cookie_name(console, scope["scheme"]) + "="
    for cookie in cookies:
        if cookie.strip().startswith(wanted):
            session = console.doorkeeper.session(cookie.strip().removeprefix(wanted))
            if session is not None:
                return f"session {session.csrf}", _changes_quotas(scope, session.token.role)
    kind, _, secret = found.get(b"authorization", b"").decode("latin-1").partition(" ")
    token = console.doorkeeper.holder(secret.strip()) if kind.lower() == "bearer" else None
    if token is not None:
        return f"token {token.name}", _changes_quotas(scope, token.role)
    client = scope.get("client")
    return f"address {client[0] if client else ''}", False


def _changes_quotas(scope: HTTPScope, role: str) -> bool:
    return scope["method"] == "PATCH" and scope["path"] == QUOTAS and Role[role.upper()] >= Role.EDITOR


def knock_of(request: Request) -> Knock:
    """The address is the socket's: no header is believed about it."""
    client = request.scope.get("client") or ("", 0)
    return Knock(
        method=request.method,
        scheme=request.scheme,
        path=request.path,
        address=str(client[0]),
        headers=request.headers,
        cookies=request.cookies,
    )

"""The web framework's request, as the gate sees it. Used by webui.app and webui.pages."""

from typing import Final

from quart import Request

from webui.follower import Connection
from webui.security.gate import Knock

CONNECTION: Final = "webui.connection"


async def body_of(request: Request) -> bytes:
    """The whole body; RequestEntityTooLarge and RequestTimeout are the framework's."""
    return await request.get_data(cache=False, as_text=False, parse_form_data=False)


def connection_of(request: Request) -> Connection | None:
    """What webui.front has put beside the request, where its answer can be sent in chunks."""
    if request.http_version != "1.1":
        return None
    state: dict[str, Connection] = request.scope.get("state", {})
    return state.get(CONNECTION)


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

"""Keeps requests with a token at their origin.

Used by broker.commands.console_client. urllib follows a redirect to any host with all headers, including
Authorization, and turns a redirected POST into a GET, whose response looks as if the change had been made.
"""

import ssl
import urllib.request
from collections.abc import Callable
from http.client import HTTPMessage
from typing import IO, Any, Final
from urllib.parse import urljoin, urlsplit

_PORTS: Final = {"http": 80, "https": 443}


def opener(
    trust: ssl.SSLContext | None, refusal: Callable[[str], Exception]
) -> urllib.request.OpenerDirector:
    """Return an opener that follows redirects of GET within the origin and raises `refusal(target)` for any
    other.

    `trust` is as in `Console`.
    """
    return urllib.request.build_opener(urllib.request.HTTPSHandler(context=trust), _WithinOrigin(refusal))


class _WithinOrigin(urllib.request.HTTPRedirectHandler):
    def __init__(self, refusal: Callable[[str], Exception]) -> None:
        self._refusal = refusal

    def http_error_302(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage
    ) -> Any:
        target = headers.get("Location") or headers.get("URI")
        if target is not None:
            target = urljoin(req.full_url, target)
            if req.get_method() != "GET" or _origin(target) != _origin(req.full_url):
                fp.close()
                raise self._refusal(target)
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def _origin(url: str) -> tuple[str, str | None, int | None, str | None]:
    """Return scheme, host and port (RFC 6454), and the user, which RFC 6454 leaves out. Raises ValueError."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme), parts.username

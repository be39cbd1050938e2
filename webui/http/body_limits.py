"""Limits on the length of request bodies, by route.

Applied when the framework creates its request, before any part of the body is stored: Content-Length is
compared with the limit then, and a chunked body as its bytes arrive. A longer body is refused with 413.
"""

import re
from collections.abc import Iterable
from typing import Any

from hypercorn.typing import HTTPScope
from quart_trio.wrappers import TrioRequest
from werkzeug.datastructures import Headers

from webui.rest.routing import SHORT_BODY, Route


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

"""How long a request's body may be, which depends on where it goes.

Asked by the framework's request when it is made, before a byte of its body is kept: Content-Length is
compared with the limit then, and the bytes of a chunked body as they come. Whoever needs it is told 413.
"""

import re
from collections.abc import Iterable
from typing import Any

from hypercorn.typing import HTTPScope
from quart_trio.wrappers import TrioRequest
from werkzeug.datastructures import Headers

from webui.rest.routing import SHORT_BODY, Route


class BodyLimits:
    """`longest` is for the routes whose body holds a list."""

    __slots__ = ("_longest", "_patterns", "_short")

    def __init__(self, routes: Iterable[Route], longest: int) -> None:
        self._longest = longest
        self._short = min(SHORT_BODY, longest)
        self._patterns = [(each.method, _pattern(each)) for each in routes if each.has_list]

    def of(self, method: str, path: str) -> int:
        """In bytes, also for what is no route."""
        for its_method, pattern in self._patterns:
            if method == its_method and pattern.fullmatch(path):
                return self._longest
        return self._short


def _pattern(route: Route) -> re.Pattern[str]:
    """Each name in braces stands for anything: it is part of an address that no other route has."""
    return re.compile(".+".join(re.escape(part) for part in re.split(r"\{[^}]*\}", route.path)), re.DOTALL)


def limited_request(limits: BodyLimits) -> type[TrioRequest]:
    """The framework's request, with the limit of its own address in the place of the one for all."""

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

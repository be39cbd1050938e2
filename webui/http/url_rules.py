"""URL rules that only match, with names of any characters.

Used by http.app. Werkzeug compiles two functions for each rule that make URLs from it. The console writes its
URLs itself, and the functions would be a twentieth of the processor time of a start.
"""

from collections.abc import Callable
from typing import Never

from quart.routing import QuartRule
from werkzeug.routing import PathConverter


class MatchedRule(QuartRule):
    def _compile_builder(self, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:
        return _make_no_url


def _make_no_url(_rule: MatchedRule, **_values: object) -> Never:
    raise NotImplementedError("the console's rules only match")


class NamePath(PathConverter):
    """The rest of a path. Werkzeug's own matches no line feed, which the names of groups may contain."""

    regex = "[^/](?s:.*?)"

"""The console's rules match every name, and make no URLs."""

import pytest
from werkzeug.exceptions import MethodNotAllowed, NotFound
from werkzeug.routing import Map

from webui.console import Console
from webui.http.app import MatchedRule, build_app
from webui.rest.routes import ROUTES
from webui.rest.routing import Route


def test_a_rule_matches_and_makes_no_url() -> None:
    rule = MatchedRule("/api/v1/topics/<path:name>", endpoint="topic", methods=["GET"])
    adapter = Map([rule]).bind("localhost")
    assert adapter.match("/api/v1/topics/a/b", "GET") == ("topic", {"name": "a/b"})
    with pytest.raises(MethodNotAllowed):
        adapter.match("/api/v1/topics/a", "POST")
    with pytest.raises(NotFound):
        adapter.match("/api/v1/topics", "GET")
    with pytest.raises(NotImplementedError, match="only match"):
        rule.build({"name": "a"})


def test_every_rule_of_the_console_only_matches(console: Console) -> None:
    rules = list(build_app(console).url_map.iter_rules())
    assert rules and all(isinstance(rule, MatchedRule) for rule in rules)


@pytest.mark.parametrize("name", ["a\nb", "\na", "a\n", "\r\n", "\x85a\u2028"])
@pytest.mark.parametrize(
    "route", [route for route in ROUTES if route.path_params], ids=lambda route: route.operation
)
def test_a_name_may_have_line_feeds(console: Console, route: Route, name: str) -> None:
    given = {each.name: name for each in route.path_params}
    adapter = build_app(console).url_map.bind("localhost")
    assert adapter.match(route.path.format(**given), route.method) == (route.operation, given)

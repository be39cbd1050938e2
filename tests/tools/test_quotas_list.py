"""The order of `weir quotas list`, and its lines for temporary limits."""

from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from broker.tools.console_client import Console
from broker.tools.quotas import quotas

LIMIT = {"value": 50_000_000, "used": 0.5, "throttled": 0}
TEMPORARY = {"value": 5, "permanent": None, "active": False, "seconds_left": 60}
RULE = {
    "entity": {"user": "orders"},
    "limits": {"producer_byte_rate": LIMIT},
    "temporary": {"consumer_byte_rate": TEMPORARY | {"windows": ["Mon 09:00-10:00"], "zone": "UTC"}},
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The queries of a console that has one rule."""
    queries: list[dict[str, Any]] = []

    class OneRule:
        def each(self, _path: str, query: dict[str, Any]) -> Iterator[dict[str, Any]]:
            queries.append(query)
            return iter([RULE])

    monkeypatch.setattr(Console, "from_environment", lambda _url, _ca_file: OneRule())
    return queries


def test_the_nearest_limits_come_first_where_that_is_asked_for(asked: list[dict[str, Any]]) -> None:
    for arguments in (["list"], ["list", "--nearest"]):
        assert CliRunner().invoke(quotas, arguments).exit_code == 0
    assert asked == [{"search": ""}, {"search": "", "sort": "used", "order": "desc"}]


def test_a_limit_that_begins_later_has_a_line_without_a_value(asked: list[dict[str, Any]]) -> None:
    lines = CliRunner().invoke(quotas, ["list"]).output.splitlines()[1:]
    assert [" ".join(line.split()[2:]) for line in lines] == [
        "producer_byte_rate 50 MB/s 50% 0",
        "consumer_byte_rate - - 0 5 B/s Mon 09:00-10:00 UTC, begins in 1 min; else no limit",
    ]

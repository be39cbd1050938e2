"""POST /insights/what-if: what is asked of the process that plays, and what is refused before."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.webui.conftest import Browserless
from tests.webui.rest.test_insights import console_on
from webui.http.app import build_app
from webui.insights.what_if import WhatIf
from webui.rest.insights_what_if import SIMULATED

PATH = "/api/v1/insights/what-if"
RULE = {"entity": {"user": "alice"}, "limits": {"producer_byte_rate": 1_000}}
FIGURES = {
    "rule": {"user": "alice"},
    "limit": 1_000.0,
    "throttles": 3,
    "throttled_share": 0.5,
    "longest_ms": 10,
    "accepted_bytes": 1,
    "waiting_bytes": 2,
}
TOLD = {
    "seconds": 60,
    "clients": 2,
    "throttled_now": 0,
    "throttled_proposed": 1,
    "throttled_more": 1,
    "throttled_less": 0,
    "rules_met": 1,
    "not_simulated": [],
    "items": [
        {
            "user": "alice",
            "client_id": "a",
            "key": "producer_byte_rate",
            "offered_bytes": 3,
            "now": FIGURES | {"rule": {}, "limit": None},
            "proposed": FIGURES,
        }
    ],
}


class Played(WhatIf):
    def __init__(self) -> None:
        super().__init__("/somewhere")
        self.questions: list[Any] = []

    async def simulate(self, question: Any) -> dict[str, Any]:
        self.questions.append(question)
        return dict(TOLD)


@pytest.fixture
def played() -> Played:
    return Played()


@pytest.fixture
def client(played: Played) -> Browserless:
    _, console = console_on("")
    return Browserless(build_app(replace(console, what_if=played)).test_client(use_cookies=False))


def body(first: str = "2026-01-10", **more: Any) -> dict[str, Any]:
    return {"from": first, "quotas": [RULE], **more}


async def test_the_proposed_rules_are_played_beside_those_of_now(client: Browserless, played: Played) -> None:
    answer = await client.ask("POST", PATH, body=body(node=2, to="2026-01-11"))
    assert answer.status_code == 200
    found = await answer.get_json()
    SIMULATED.check(found)
    assert found == {"from": "2026-01-10", "to": "2026-01-11"} | TOLD
    (question,) = played.questions
    assert question == {
        "first": "2026-01-10",
        "last": "2026-01-11",
        "node": 2,
        "cluster": None,
        "now": [],
        "proposed": [RULE],
        "lines": None,
        "keep_unlisted": False,
    }


async def test_a_file_goes_to_the_process_as_it_is(client: Browserless, played: Played) -> None:
    lines = ["quotas:", "- entity: {user: alice}", "  limits: {producer_byte_rate: 1000}", ""]
    asked = {"from": "2026-01-10", "lines": lines, "keep_unlisted": True, "cluster": "x"}
    assert (await client.ask("POST", PATH, body=asked)).status_code == 200
    (question,) = played.questions
    assert (question["proposed"], question["lines"]) == (None, lines)
    assert (question["keep_unlisted"], question["cluster"]) == (True, "x")


@pytest.mark.parametrize(("size", "status"), [(16_383, 200), (16_384, 200), (16_385, 400)])
async def test_a_line_of_a_file_has_a_longest(client: Browserless, size: int, status: int) -> None:
    answer = await client.ask("POST", PATH, body={"from": "2026-01-10", "lines": ["#" * size]})
    assert answer.status_code == status


async def test_one_day_of_the_only_broker_is_usual(client: Browserless, played: Played) -> None:
    assert (await client.ask("POST", PATH, body=body())).status_code == 200
    (question,) = played.questions
    assert (question["last"], question["node"]) == ("2026-01-10", None)


async def test_the_rules_of_now_go_along(played: Played) -> None:
    _, console = console_on("")
    client = Browserless(build_app(replace(console, what_if=played)).test_client(use_cookies=False))
    entry = {"entity": RULE["entity"], "ops": [{"key": "producer_byte_rate", "value": 1_000}]}
    assert (await client.patch("/api/v1/client-quotas", {"entries": [entry]})).status_code == 200
    assert (await client.ask("POST", PATH, body=body())).status_code == 200
    assert played.questions[0]["now"] == [RULE]


@pytest.mark.parametrize(("to", "status"), [("2026-01-15", 200), ("2026-01-16", 200), ("2026-01-17", 400)])
async def test_a_week_is_the_most(client: Browserless, to: str, status: int) -> None:
    answer = await client.ask("POST", PATH, body=body(to=to))
    assert answer.status_code == status
    if status == 400:
        assert (await answer.get_json())["where"] == "/to"


@pytest.mark.parametrize("day", ["0001-01-01", "9999-12-31"])
async def test_the_ends_of_the_calendar_are_days(client: Browserless, day: str) -> None:
    assert (await client.ask("POST", PATH, body=body(day))).status_code == 200


@pytest.mark.parametrize(("count", "status"), [(99_999, 200), (100_000, 200), (100_001, 400)])
async def test_a_file_has_a_hundred_thousand_lines_at_most(
    client: Browserless, count: int, status: int
) -> None:
    answer = await client.ask("POST", PATH, body={"from": "2026-01-10", "lines": [""] * count})
    assert answer.status_code == status
    if status == 400:
        assert (await answer.get_json())["where"] == "/lines"


async def test_rules_or_a_file_are_required(client: Browserless, played: Played) -> None:
    answer = await client.ask("POST", PATH, body={"from": "2026-01-10"})
    assert answer.status_code == 400 and (await answer.get_json())["where"] == "/quotas"
    assert not played.questions


@pytest.mark.parametrize(
    ("more", "where"),
    [
        ({"from": "yesterday"}, "/from"),
        ({"from": "2026-W02-6"}, "/from"),
        ({"from": "2026-02-30"}, "/from"),
        ({"to": "2026-01-09"}, "/to"),
        ({"node": -1}, "/node"),
        ({"node": 2**31}, "/node"),
        ({"quotas": {}}, "/quotas"),
        ({"quotas": [RULE, RULE]}, "/quotas"),
        ({"quotas": [{"entity": {"user": "alice"}, "limits": {"rate": 1}}]}, "/quotas/0/limits/rate"),
        ({"days": 1}, "/days"),
        ({"lines": ["quotas: []"]}, "/quotas"),
        ({"quotas": None}, "/quotas"),
        ({"keep_unlisted": "yes"}, "/keep_unlisted"),
    ],
)
async def test_impossible_values_are_refused_with_their_place(
    client: Browserless, played: Played, more: dict[str, Any], where: str
) -> None:
    answer = await client.ask("POST", PATH, body=body() | more)
    assert answer.status_code == 400
    assert (await answer.get_json())["where"] == where
    assert not played.questions


async def test_without_a_warehouse_it_says_so() -> None:
    _, console = console_on("")
    client = Browserless(build_app(console).test_client(use_cookies=False))
    answer = await client.ask("POST", PATH, body=body())
    assert (answer.status_code, (await answer.get_json())["code"]) == (404, "INSIGHTS_OFF")

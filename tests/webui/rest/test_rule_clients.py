"""The clients that a rule matches, over REST."""

import pytest

from broker.controller.commands import EntityPairs
from tests.webui.conftest import Browserless
from tests.webui.fake_resolving import usage
from tests.webui.fakes import FakeBroker
from webui.rest.rule_clients import RULE_CLIENTS

PRODUCE, PERCENT = "producer_byte_rate", "request_percentage"
APP: EntityPairs = (("client-id", "app"),)
ALICE: EntityPairs = (("user", "alice"),)


@pytest.fixture
def stocked(broker: FakeBroker) -> FakeBroker:
    broker.set(APP, {PRODUCE: 1e6, PERCENT: 10.0})
    broker.set(ALICE, {PRODUCE: 2e6})
    broker.usage_rows = [
        usage("alice", "app", 1e3, connections=2),
        usage("bob", "app", 5e3, connections=1),
        usage("bob", "other", 7e3, connections=1),
        usage("carol", "app", 0.0, connections=0),
    ]
    return broker


async def test_the_connected_clients_of_a_rule_come_busiest_first_with_the_rule_that_applies(
    http: Browserless, stocked: FakeBroker
) -> None:
    path = "/api/v1/client-quotas/client-id=app/clients"
    page = RULE_CLIENTS.check(await (await http.get(path, token="viewer-token")).get_json())
    found = [(row["user"], row["client_id"], row["connections"], row["rules"]) for row in page["items"]]
    app = dict(APP)
    assert found == [
        ("bob", "app", 1, {PRODUCE: app, PERCENT: app}),
        ("alice", "app", 2, {PRODUCE: dict(ALICE), PERCENT: app}),
    ]
    assert (page["total"], page["unlisted"]) == (2, 0)


async def test_a_default_rule_matches_every_name(http: Browserless, stocked: FakeBroker) -> None:
    stocked.set((("user", None),), {PRODUCE: 5.0})
    answer = await http.get("/api/v1/client-quotas/user/clients")
    found = RULE_CLIENTS.check(await answer.get_json())["items"]
    assert [(row["user"], row["client_id"], row["rules"][PRODUCE]) for row in found] == [
        ("bob", "other", {"user": None}),
        ("bob", "app", {"user": None}),
        ("alice", "app", {"user": "alice"}),
    ]


@pytest.mark.parametrize(
    ("rule", "status", "words"),
    [
        ("user=bob", 404, "no limit in force"),
        ("ip=10.0.0.7", 400, "in /ip-quotas"),
        ("user=", 400, "empty name"),
    ],
)
async def test_what_has_no_clients_is_refused(
    http: Browserless, stocked: FakeBroker, rule: str, status: int, words: str
) -> None:
    answer = await http.get(f"/api/v1/client-quotas/{rule}/clients")
    assert (answer.status_code, words in (await answer.get_json())["detail"]) == (status, True)

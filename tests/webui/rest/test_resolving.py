"""Which rule governs a client, and what would change if: GET and POST /client-quotas:resolve."""

from typing import Any

import pytest

from broker.controller.commands import EntityPairs
from broker.controller.rows.quotas import Decided, NodeUse
from broker.controller.rows.upstream import GatewaySums, Incomplete
from broker.quotas.entity import Entity
from broker.quotas.remote_use import SensorUse
from tests.webui.conftest import Browserless
from tests.webui.fake_resolving import usage
from tests.webui.fakes import FakeBroker
from webui.rest.resolving import RESOLVED

PATH = "/api/v1/client-quotas:resolve"
PRODUCE = "producer_byte_rate"
ALICE: EntityPairs = (("user", "alice"),)
ANY_APP: EntityPairs = (("client-id", None),)


@pytest.fixture
def stocked(broker: FakeBroker) -> FakeBroker:
    broker.set(ANY_APP, {PRODUCE: 50.0})
    broker.set(ALICE, {PRODUCE: 100.0, "request_percentage": 12.5})
    return broker


def edit(entity: dict[str, str | None], *ops: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"entity": entity, "ops": list(ops), **more}


def setting(value: float) -> dict[str, Any]:
    return {"key": PRODUCE, "value": value}


REMOVING = {"key": PRODUCE, "remove": True}


async def limits_of(answer: Any) -> dict[str, dict[str, Any]]:
    assert answer.status_code == 200, await answer.get_data()
    return {each["key"]: each for each in RESOLVED.check(await answer.get_json())["limits"]}


async def test_the_eight_probes_and_the_one_that_found_a_limit(
    http: Browserless, stocked: FakeBroker
) -> None:
    stocked.observed[ALICE] = {PRODUCE: 110.0}
    limits = await limits_of(await http.get(f"{PATH}?user=alice&client_id=app", token="viewer-token"))
    produce = limits[PRODUCE]
    assert (produce["matched"], produce["bound"], produce["observed"]) == (dict(ALICE), 100, 110)
    assert (produce["measured_by"], produce["shadow"], produce["wait_ms"]) == ("quota", False, 1_000)
    assert [probe["matched"] for probe in produce["probes"]] == [False, False, True, *[False] * 5]
    assert [probe["value"] for probe in produce["probes"]] == [None, None, 100, *[None] * 4, 50]
    assert "matched" not in limits["consumer_byte_rate"]
    assert not any("if" in limit for limit in limits.values())


async def test_a_limit_at_each_upstream_node_is_reported_with_the_use_there(
    http: Browserless, stocked: FakeBroker
) -> None:
    stocked.observed[ALICE] = {PRODUCE: 110.0}
    stocked.at_nodes[PRODUCE] = (NodeUse(1, 50.0, 0), NodeUse(2, 110.0, 1_000))
    limits = await limits_of(await http.get(f"{PATH}?user=alice&client_id=app", token="viewer-token"))
    assert limits[PRODUCE]["nodes"] == [
        {"upstream_node": 1, "observed": 50, "wait_ms": 0},
        {"upstream_node": 2, "observed": 110, "wait_ms": 1_000},
    ]
    assert not any("nodes" in limit for key, limit in limits.items() if key != PRODUCE)


async def test_a_limit_that_gateways_share_is_reported_with_the_use_of_each(
    http: Browserless, stocked: FakeBroker
) -> None:
    stocked.observed[ALICE] = {PRODUCE: 30.0}
    stocked.throttled_here[PRODUCE] = [("alice", None)]
    shares = stocked.remote_shares
    shares.sums, shares.parts = GatewaySums(2), {"": 0.25, "g2": 0.5}
    shares.uses = [("g2", SensorUse(PRODUCE, Entity("alice"), ("alice", None), 80.0, 3))]
    shares.not_complete = Incomplete(uses=frozenset({"g3"}))
    limits = await limits_of(await http.get(f"{PATH}?user=alice&client_id=app", token="viewer-token"))
    produce = limits[PRODUCE]
    assert (produce["observed"], produce["wait_ms"]) == (110, 1_000)
    assert produce["gateways"] == [
        {"gateway": "", "observed": 30, "throttled": 1, "share": 25},
        {"gateway": "g2", "observed": 80, "throttled": 3, "share": 50},
    ]
    assert produce["unlisted"] == ["g3"]
    assert "gateways" not in limits["consumer_byte_rate"]
    edits = [{"entity": dict(ALICE), "ops": [{"key": PRODUCE, "value": 220}]}]
    body = {"user": "alice", "client_id": "app", "if": edits}
    limits = await limits_of(await http.ask("POST", PATH, body=body, token="viewer-token"))
    then = limits[PRODUCE]["if"]
    assert (then["bound"], then["observed"], then["wait_ms"]) == (220, 110, 0)
    assert [use["share"] for use in then["gateways"]] == [None, None]


@pytest.mark.parametrize(
    ("tags", "shown"), [(None, []), ((), []), ((("group", "red"),), [{"name": "group", "value": "red"}])]
)
async def test_a_callbacks_decision_is_reported_with_its_tags(
    http: Browserless, stocked: FakeBroker, tags: tuple[tuple[str, str], ...] | None, shown: list[Any]
) -> None:
    stocked.callback = "acme:Groups"
    stocked.decisions[PRODUCE] = Decided(tags, 5.0, None)
    limits = await limits_of(await http.get(PATH))
    callback = limits[PRODUCE]["callback"]
    assert callback == {"class": "acme:Groups", "answered": tags is not None, "tags": shown}
    assert "callback" not in limits["consumer_byte_rate"]
    assert limits[PRODUCE]["bound"] == 5.0 and "matched" not in limits[PRODUCE]


async def test_a_client_without_a_name_is_anonymous(http: Browserless, stocked: FakeBroker) -> None:
    found = RESOLVED.check(await (await http.get(PATH)).get_json())
    assert (found["user"], found["client_id"]) == ("ANONYMOUS", "")
    produce = next(each for each in found["limits"] if each["key"] == PRODUCE)
    assert (produce["matched"], produce["bound"]) == (dict(ANY_APP), 50)


async def test_an_address_is_answered_where_one_is_asked_for(http: Browserless, stocked: FakeBroker) -> None:
    limits = await limits_of(await http.get(f"{PATH}?ip=10.0.0.7"))
    address = limits["connection_creation_rate"]
    assert [probe["entity"] for probe in address["probes"]] == [{"ip": "10.0.0.7"}, {"ip": None}]


async def test_each_limit_says_what_it_would_be_after_the_edits(
    http: Browserless, stocked: FakeBroker
) -> None:
    stocked.observed[ALICE] = {PRODUCE: 90.0}
    stocked.usage_rows = [usage("alice", "app", 60.0), usage("alice", "other", 30.0)]
    body = {
        "user": "alice",
        "client_id": "app",
        "if": [edit({"client-id": "app", "user": "alice"}, setting(30), shadow=True)],
    }
    limits = await limits_of(await http.ask("POST", PATH, body=body, token="viewer-token"))
    now, then = limits[PRODUCE], limits[PRODUCE]["if"]
    assert (now["matched"], now["observed"], now["wait_ms"]) == (dict(ALICE), 90, 0)
    assert then.pop("probes")[0] == {
        "entity": {"user": "alice", "client-id": "app"},
        "value": 30,
        "matched": True,
        "shadow": True,
    }
    assert then == {
        "bound": 30,
        "observed": 60,
        "measured_by": "connections",
        "shadow": True,
        "wait_ms": 10_000,
        "matched": {"user": "alice", "client-id": "app"},
    }
    assert limits["request_percentage"]["if"]["bound"] == 12.5
    assert stocked.applied == []


async def test_several_edits_stand_together(http: Browserless, stocked: FakeBroker) -> None:
    edits = [edit(dict(ALICE), REMOVING), edit(dict(ANY_APP), setting(7))]
    limits = await limits_of(await http.ask("POST", PATH, body={"user": "alice", "if": edits}))
    assert (limits[PRODUCE]["bound"], limits[PRODUCE]["if"]["bound"]) == (100, 7)
    gone = [edit(dict(ALICE), REMOVING), edit(dict(ANY_APP), REMOVING)]
    limits = await limits_of(await http.ask("POST", PATH, body={"user": "alice", "if": gone}))
    assert limits[PRODUCE]["if"]["bound"] is None and "matched" not in limits[PRODUCE]["if"]


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"if": []}, "/if"),
        ({}, "/if"),
        ({"if": [edit({}, setting(1))]}, "/if/0/entity"),
        ({"if": [edit({"user": "a"})]}, "/if/0/ops"),
        ({"if": [edit({"user": "a"}, setting(0))]}, "/if/0/ops/0/value"),
        ({"if": [edit({"user": "a"}, setting(1), version=1)]}, "/if/0/version"),
        ({"if": [edit({"user": "a"}, setting(1))] * 9}, "/if"),
        ({"if": [edit({"user": "a"}, setting(1))], "client-id": "app"}, "/client-id"),
        ({"if": [edit({"user": "a"}, setting(1))], "user": None}, "/user"),
    ],
)
async def test_questions_that_make_no_sense_are_refused(
    http: Browserless, broker: FakeBroker, body: Any, where: str
) -> None:
    answer = await http.ask("POST", PATH, body=body)
    assert (answer.status_code, (await answer.get_json())["where"]) == (400, where)


async def test_edits_that_the_broker_would_refuse_are_refused_in_its_words(
    http: Browserless, broker: FakeBroker
) -> None:
    answer = await http.ask("POST", PATH, body={"if": [edit({"user": "a"}, setting(1.5))]})
    problem = await answer.get_json()
    assert (answer.status_code, problem["code"]) == (400, "INVALID_REQUEST")
    assert "fractional" in problem["detail"]

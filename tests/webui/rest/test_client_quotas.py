"""GET and PATCH /client-quotas, and the table of rules: searched, sorted and cut to a page."""

from typing import Any

import pytest
from msgspec.structs import replace

from broker.controller.commands import ChangeOrigin, EntityPairs, Role
from broker.controller.rows.quotas import ShadowUse
from tests.webui.conftest import Browserless
from tests.webui.fake_resolving import usage
from tests.webui.fakes import FakeBroker
from tests.webui.rows import connection
from webui.rest.client_quotas import QUOTAS, REFUSED_RESULTS, RESULTS

PATH = "/api/v1/client-quotas"
PRODUCE = "producer_byte_rate"
ALICE: EntityPairs = (("user", "alice"),)
ALICE_APP: EntityPairs = (("user", "alice"), ("client-id", "app"))
DEFAULT_USER: EntityPairs = (("user", None),)
APP: EntityPairs = (("client-id", "app"),)


def one(entity: dict[str, str | None], *ops: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"entries": [{"entity": entity, "ops": list(ops), **rest}]}


def setting(value: Any, key: str = PRODUCE) -> dict[str, Any]:
    return {"key": key, "value": value}


REMOVING = {"key": PRODUCE, "remove": True}


@pytest.fixture
def stocked(broker: FakeBroker) -> FakeBroker:
    for entity in (ALICE, ALICE_APP, DEFAULT_USER, APP):
        broker.version += 1
        broker.set(entity, {PRODUCE: 100.0})
    return broker


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", [ALICE, ALICE_APP, DEFAULT_USER, APP]),
        ("user=alice", [ALICE, ALICE_APP]),
        ("user=alice&strict=true", [ALICE]),
        ("user=alice&client_id=app", [ALICE_APP]),
        ("user=&match=default", [DEFAULT_USER]),
        ("user_match=default", [DEFAULT_USER]),
        ("user_match=any&strict=true", [ALICE, DEFAULT_USER]),
        ("client_id_match=any", [ALICE_APP, APP]),
        ("client_id_match=any&user=alice", [ALICE_APP]),
        ("user=alice&search=app", [ALICE_APP]),
        ("filter=client-id", [APP]),
        ("sort=changed&order=desc&limit=1", [APP]),
        ("user=nobody", []),
    ],
)
async def test_filters_mean_what_kafkas_do(
    http: Browserless, stocked: FakeBroker, query: str, found: list[EntityPairs]
) -> None:
    for row in (ALICE, ALICE_APP, DEFAULT_USER, APP):
        stocked.now_ms += 1
        stocked.set(row, {PRODUCE: 100.0})
    answer = await http.get(f"{PATH}?{query}")
    assert answer.status_code == 200
    body = QUOTAS.check(await answer.get_json())
    assert [item["entity"] for item in body["items"]] == [dict(entity) for entity in found]


@pytest.mark.parametrize(
    "query",
    ["user=", "user=alice&match=default", "user=alice&user_match=any", "match=nothing", "strict=yes",
     "limit=0",
     "limit=1001", "offset=1", "sort=colour", "user=a&user=b", "userr=a", "q=%ff"],
)  # fmt: skip
async def test_filters_that_make_no_sense_are_refused(http: Browserless, query: str) -> None:
    answer = await http.get(f"{PATH}?{query}")
    assert answer.status_code == 400 and answer.content_type == "application/problem+json"


@pytest.mark.parametrize(
    ("query", "tag"),
    [
        ("user=alice&strict=true", '"2"'),
        ("user=alice&client_id=app&strict=true", '"3"'),
        ("user_match=default&strict=true", '"4"'),
        ("user=nobody&strict=true", '"0"'),
        ("user=alice", None),
        ("user_match=any&strict=true", None),
        ("strict=true", None),
    ],
)
async def test_a_filter_that_names_one_entity_answers_its_etag(
    http: Browserless, stocked: FakeBroker, query: str, tag: str | None
) -> None:
    answer = await http.get(f"{PATH}?{query}")
    assert answer.headers.get("ETag") == tag


async def test_an_edit_reaches_control_as_it_was_meant(http: Browserless, broker: FakeBroker) -> None:
    broker.set(APP, {"request_percentage": 5.0})
    body = one(
        {"client-id": "app", "user": None}, setting(1_048_576), {"key": "request_percentage", "remove": True}
    )
    answer = await http.patch(PATH, body, token="editor-token")
    assert answer.status_code == 200
    [(command, actor)] = broker.applied
    [entry] = command.entries
    assert entry.entity == (("user", None), ("client-id", "app"))
    assert [(op.key, op.value) for op in entry.ops] == [(PRODUCE, 1_048_576), ("request_percentage", None)]
    assert entry.expected_version is None and not command.validate_only
    assert (actor.name, actor.role, actor.origin) == ("ed", Role.EDITOR, ChangeOrigin.REST)


async def test_the_answer_shows_the_rule_as_it_is_now_and_the_command(
    http: Browserless, broker: FakeBroker
) -> None:
    answer = await http.patch(PATH, one({"user": "alice"}, setting(100)))
    body = RESULTS.check(await answer.get_json())
    [result] = body["results"]
    assert result["error"] == "NONE" and result["current"]["limits"][PRODUCE]["value"] == 100
    assert result["command"].endswith(
        "--add-config producer_byte_rate=100 --entity-type users --entity-name alice"
    )
    assert "reach" not in result
    assert result["warnings"] == []


async def test_an_edit_computes_no_metrics(http: Browserless, broker: FakeBroker) -> None:
    answer = await http.patch(PATH, one({"user": "alice"}, setting(1_000)))
    assert answer.status_code == 200
    assert broker.overviews == 0


async def test_validation_changes_nothing_and_says_the_clients_that_it_would_affect(
    http: Browserless, broker: FakeBroker
) -> None:
    broker.connection_rows = [connection("app", "alice"), connection("app", "bob")]
    answer = await http.patch(f"{PATH}?validate_only=true", one({"client-id": "app"}, setting(100)))
    body = RESULTS.check(await answer.get_json())
    [reach] = body["results"][0]["reach"]
    assert (reach["key"], reach["clients"], reach["unmeasured"]) == (PRODUCE, 2, 2)
    assert (reach["unlisted"], reach["unheard"]) == (0, [])
    assert broker.rows == {} and broker.applied[0][0].validate_only


async def test_validation_counts_the_clients_of_all_gateways(http: Browserless, broker: FakeBroker) -> None:
    broker.connection_rows = [connection("app", "alice")]
    broker.remote_shares.client_rows = [replace(usage("bob", "app", 101.0), gateways=("1-a",))]
    broker.unlisted_client_count, broker.without_report = 3, ["2-b"]
    answer = await http.patch(f"{PATH}?validate_only=true", one({"client-id": "app"}, setting(100)))
    [reach] = RESULTS.check(await answer.get_json())["results"][0]["reach"]
    assert (reach["clients"], reach["over"], reach["unlisted"], reach["unheard"]) == (2, 2, 3, ["2-b"])


async def test_with_a_callback_the_affected_clients_of_an_edit_are_unknown(
    http: Browserless, broker: FakeBroker
) -> None:
    broker.callback = "acme:Groups"
    answer = await http.patch(f"{PATH}?validate_only=true", one({"client-id": "app"}, setting(100)))
    assert "reach" not in RESULTS.check(await answer.get_json())["results"][0]


async def test_many_validations_at_once_are_not_told_the_affected_clients(
    http: Browserless, broker: FakeBroker
) -> None:
    entries = [{"entity": {"user": f"u{index}"}, "ops": [setting(1)]} for index in range(9)]
    answer = await http.patch(f"{PATH}?validate_only=true", {"entries": entries})
    assert all("reach" not in result for result in (await answer.get_json())["results"])
    answer = await http.patch(f"{PATH}?validate_only=true", {"entries": entries[:8]})
    assert all("reach" in result for result in (await answer.get_json())["results"])


async def test_many_validations_are_told_the_affected_clients_together(
    http: Browserless, broker: FakeBroker
) -> None:
    broker.connection_rows = [connection("app", f"u{index}") for index in range(12)]
    for index in range(10):
        broker.set((("user", f"u{index}"),), {PRODUCE: 5.0})
    entries = [{"entity": {"user": f"u{index}"}, "ops": [REMOVING]} for index in range(10)]
    entries.append({"entity": {"user": "u11"}, "ops": [setting(1, "bad")]})
    answer = await http.patch(f"{PATH}?validate_only=true", {"entries": entries})
    assert answer.status_code == 207
    [reach] = RESULTS.check(await answer.get_json())["reach"]
    assert (reach["clients"], reach["moved"]) == (10, 10)
    assert {move["to"]["bound"] for move in reach["moves"]} == {None}
    assert len(broker.rows) == 10
    answer = await http.patch(f"{PATH}?validate_only=true", {"entries": entries[:1]})
    assert "reach" not in await answer.get_json()
    broker.callback = "acme:Groups"
    answer = await http.patch(f"{PATH}?validate_only=true", {"entries": entries})
    assert "reach" not in RESULTS.check(await answer.get_json())


async def test_entries_are_refused_one_by_one(http: Browserless, broker: FakeBroker) -> None:
    entries = [
        {"entity": {"user": "a"}, "ops": [setting(1)]},
        {"entity": {"user": "b"}, "ops": [setting(1, "bad")]},
    ]
    answer = await http.patch(PATH, {"entries": entries})
    assert answer.status_code == 207
    results = RESULTS.check(await answer.get_json())["results"]
    assert [result["error"] for result in results] == ["NONE", "INVALID_REQUEST"]
    assert results[1]["message"] == "Invalid configuration key bad"
    assert list(broker.rows) == [(("user", "a"),)]


async def test_where_all_are_refused_the_request_is(http: Browserless, broker: FakeBroker) -> None:
    answer = await http.patch(PATH, one({"user": "a"}, setting(10_000.5)))
    assert answer.status_code == 400 and answer.content_type == "application/problem+json"
    body = REFUSED_RESULTS.check(await answer.get_json())
    assert body["code"] == "INVALID_REQUEST" and "whole number" in body["detail"]
    assert body["results"][0]["error"] == "INVALID_REQUEST"


@pytest.mark.parametrize("value", [0, -1, -0.5, 2**63, 1e300, "1", None, True, [1]])
async def test_values_that_are_no_limits_never_reach_control(
    http: Browserless, broker: FakeBroker, value: Any
) -> None:
    answer = await http.patch(PATH, one({"user": "a"}, setting(value)))
    assert answer.status_code == 400
    assert (await answer.get_json())["where"] == "/entries/0/ops/0/value"
    assert broker.applied == []


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b'{"entries": []}', b'{"entries": [{"entity": {}, "ops": []}]}', b'{"entries": null}',
     b'{"entries": [{"entity": {"user": "a"}, "ops": [{"key": "producer_byte_rate", "value": NaN}]}]}',
     b'{"entries": [{"entity": {"user": "a"}, "ops": [{"key": "producer_byte_rate", "value": 1e400}]}]}',
     b'{"entries": [{"entity": {"user": "a"}, "ops": [{"key": "producer_byte_rate", "value": Infinity}]}]}',
     b'{"entries": [{"entity": {"user": "a", "colour": "b"}, "ops": [{"key": "x", "remove": true}]}]}',
     b'{"entries": [{"entity": {"user": "a"}, "ops": [{"key": "x", "remove": false}]}]}',
     b'{"entries": [{"entity": {"user": 7}, "ops": [{"key": "x", "remove": true}]}]}',
     b'{"entries": [{"entity": {"user": "\\ud800"}, "ops": [{"key": "x", "remove": true}]}]}',
     b'{"entries": [{"entity": {"user": "a"}, "ops": [], "shadow": null}]}',
     b'{"entries": [{"entity": {"user": "a"}, "ops": [], "shadow": "true"}]}',
     b'{"entries": [{"entity": {"user": "a"}, "ops": [], "shadow": 1}]}',
     b'{"entries": [{"entity": {"user": "a"}, "shadow": true}]}',
     b'{"entries": [{"entity": {"user": "a"}, "ops": []}]}',
     b'{"entries": [], "extra": 1}'],
)  # fmt: skip
async def test_bodies_that_are_not_the_schemas_never_reach_control(
    http: Browserless, broker: FakeBroker, text: bytes
) -> None:
    answer = await http.patch(PATH, text, Content_Type="application/json")
    assert answer.status_code == 400 and broker.applied == []


async def test_a_viewer_may_look_and_not_touch(http: Browserless, stocked: FakeBroker) -> None:
    assert (await http.get(PATH, token="viewer-token")).status_code == 200
    answer = await http.patch(PATH, one({"user": "alice"}, setting(1)), token="viewer-token")
    assert answer.status_code == 403 and (await answer.get_json())["code"] == "CLUSTER_AUTHORIZATION_FAILED"
    assert stocked.rows[ALICE].value(PRODUCE) == 100.0


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"If_Match": '"2"'}, 200),
        ({"If_Match": '"1"'}, 412),
        ({"If_Match": '"3"'}, 412),
        ({"If_Match": "2"}, 200),
        ({"If_Match": "*"}, 400),
        ({"If_Match": 'W/"2"'}, 400),
        ({"If_Match": '"²"'}, 400),
        ({"If_Match": '"2", "3"'}, 400),
        ({"If_None_Match": "*"}, 412),
        ({}, 200),
    ],
)
async def test_an_edit_of_what_was_read_is_not_an_edit_of_what_came_after(
    http: Browserless, stocked: FakeBroker, headers: dict[str, str], status: int
) -> None:
    answer = await http.patch(PATH, one({"user": "alice"}, setting(5)), **headers)
    assert answer.status_code == status
    assert stocked.rows[ALICE].value(PRODUCE) == (5 if status == 200 else 100)


async def test_a_lost_race_shows_what_is_there_now(http: Browserless, stocked: FakeBroker) -> None:
    answer = await http.patch(PATH, one({"user": "alice"}, REMOVING, version=1))
    assert answer.status_code == 412
    body = REFUSED_RESULTS.check(await answer.get_json())
    assert body["results"][0]["current"]["version"] == 2
    assert body["results"][0]["current"]["limits"][PRODUCE]["value"] == 100.0


async def test_a_new_rule_is_only_made_where_there_is_none(http: Browserless, stocked: FakeBroker) -> None:
    made = await http.patch(PATH, one({"user": "new"}, setting(5)), If_None_Match="*")
    again = await http.patch(PATH, one({"user": "new"}, setting(6), version=0))
    assert (made.status_code, again.status_code) == (200, 412)


async def test_if_match_is_about_one_entity(http: Browserless, stocked: FakeBroker) -> None:
    entries = [{"entity": {"user": name}, "ops": [setting(1)]} for name in ("alice", "bob")]
    answer = await http.patch(PATH, {"entries": entries}, If_Match='"2"')
    assert answer.status_code == 400 and stocked.applied == []


async def test_a_removed_rule_is_shown_as_empty(http: Browserless, stocked: FakeBroker) -> None:
    answer = await http.patch(PATH, one({"user": "alice"}, REMOVING))
    [result] = RESULTS.check(await answer.get_json())["results"]
    assert result["current"] == {} and "--delete-config producer_byte_rate" in result["command"]


@pytest.mark.parametrize("shadow", [True, False])
async def test_a_rule_is_marked_with_its_limits_or_by_itself(
    http: Browserless, stocked: FakeBroker, shadow: bool
) -> None:
    answer = await http.patch(
        PATH, {"entries": [{"entity": {"user": "alice"}, "ops": [], "shadow": shadow}]}, If_Match='"2"'
    )
    [result] = RESULTS.check(await answer.get_json())["results"]
    mode = "--shadow" if shadow else "--enforce"
    command = f"weir quotas --console http://127.0.0.1:8080 set --user alice {mode}"
    assert (result["current"]["shadow"], result["command"]) == (shadow, command)
    [(command, _)] = stocked.applied
    assert (command.entries[0].shadow, command.entries[0].expected_version) == (shadow, 2)
    await http.patch(PATH, one({"user": "alice"}, setting(5)))
    assert (stocked.applied[-1][0].entries[0].shadow, stocked.rows[ALICE].shadow) == (None, shadow)


async def test_a_limit_names_the_upstream_node_that_is_used_most(
    http: Browserless, stocked: FakeBroker
) -> None:
    row = stocked.rows[ALICE]
    stocked.rows[ALICE] = replace(
        row, limits=tuple(replace(each, observed=110.0, upstream_node=2) for each in row.limits)
    )
    rows = QUOTAS.check(await (await http.get(PATH)).get_json())["items"]
    nodes = {str(row["entity"]): row["limits"][PRODUCE].get("upstream_node") for row in rows}
    assert nodes == {
        str(dict(each)): 2 if each == ALICE else None for each in (ALICE, ALICE_APP, DEFAULT_USER, APP)
    }


async def test_throttles_of_a_limit_in_shadow_are_listed(http: Browserless, stocked: FakeBroker) -> None:
    stocked.set(ALICE, {}, shadow=True)
    last_at_ms = 1_700_000_000_250
    stocked.shadow_use[ALICE, PRODUCE] = ShadowUse(ALICE, PRODUCE, 37, 12_400, last_at_ms)
    rows = QUOTAS.check(await (await http.get(PATH)).get_json())["items"]
    would = {"times": 37, "throttle_ms": 12_400, "last_at": "2023-11-14T22:13:20.250Z"}
    assert [(row["shadow"], row["limits"][PRODUCE].get("shadow_throttles")) for row in rows] == [
        (row["entity"] == dict(ALICE), would if row["entity"] == dict(ALICE) else None) for row in rows
    ]
    stocked.shadow_use[ALICE, PRODUCE] = ShadowUse(ALICE, PRODUCE, 0, 0, None)
    (row,) = (await (await http.get(f"{PATH}?user=alice&strict=true")).get_json())["items"]
    assert row["limits"][PRODUCE]["shadow_throttles"] == {"times": 0, "throttle_ms": 0, "last_at": None}

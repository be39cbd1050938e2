"""Export and import of quotas."""

from typing import Any

import pytest

from broker.controller.commands import EntityPairs
from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from tests.webui.rows import connection
from webui.quotas import ALL_KEYS
from webui.rest.quota_files import FILE, IMPORTED, REFUSED_IMPORT

QUOTAS = "/api/v1/client-quotas"
PRODUCE, PERCENT = "producer_byte_rate", "request_percentage"
ALICE: EntityPairs = (("user", "alice"),)
ANY_APP: EntityPairs = (("client-id", None),)
BOB: EntityPairs = (("user", "bob"),)
LARGEST = 2.0**63
"""Long.MAX_VALUE as a double."""


@pytest.fixture
def stocked(broker: FakeBroker) -> FakeBroker:
    broker.set(ANY_APP, {PRODUCE: 50.0})
    broker.set(ALICE, {PRODUCE: 100.0, PERCENT: 12.5})
    return broker


def entry(entity: EntityPairs, **limits: float) -> dict[str, Any]:
    return {"entity": dict(entity), "limits": limits}


def limits_of(broker: FakeBroker) -> dict[EntityPairs, dict[str, float]]:
    return {entity: {each.key: each.value for each in row.limits} for entity, row in broker.rows.items()}


async def test_everything_is_exported_in_one_order_and_whole_numbers_are_whole(
    http: Browserless, stocked: FakeBroker
) -> None:
    answer = await http.get(f"{QUOTAS}:export", token="viewer-token")
    document = FILE.check(await answer.get_json())
    assert document == {
        "quotas": [entry(ALICE, **{PRODUCE: 100, PERCENT: 12.5}), entry(ANY_APP, **{PRODUCE: 50})]
    }
    assert b"100.0" not in await answer.get_data()


async def test_an_exported_file_changes_nothing(http: Browserless, stocked: FakeBroker) -> None:
    document = await (await http.get(f"{QUOTAS}:export")).get_json()
    answer = await http.ask("POST", f"{QUOTAS}:import?prune=true", body=document)
    found = IMPORTED.check(await answer.get_json())
    assert (answer.status_code, found["changes"], found["shadow_changes"], found["refused"]) == (
        200,
        [],
        [],
        [],
    )
    assert stocked.applied == []


async def test_the_largest_limit_of_kafkas_clients_is_exported_as_one_that_an_import_takes(
    http: Browserless, stocked: FakeBroker
) -> None:
    stocked.set(BOB, {PRODUCE: LARGEST})
    document = FILE.check(await (await http.get(f"{QUOTAS}:export")).get_json())
    assert document["quotas"][1]["limits"] == {PRODUCE: 2**63 - 1}
    answer = await http.ask("POST", f"{QUOTAS}:import?prune=true", body=document)
    assert (answer.status_code, (await answer.get_json())["changes"]) == (200, [])


async def test_a_limit_that_no_double_has_is_the_next_one_and_changes_nothing_later(
    http: Browserless, stocked: FakeBroker
) -> None:
    document = {"quotas": [entry(BOB, **{PRODUCE: 2**53 + 1})]}
    for changes in (1, 0):
        answer = await http.ask("POST", f"{QUOTAS}:import", body=document)
        assert len(IMPORTED.check(await answer.get_json())["changes"]) == changes


@pytest.mark.parametrize("validate_only", [True, False])
@pytest.mark.parametrize("prune", [True, False])
async def test_listed_entities_get_what_is_listed_and_others_go_if_pruned(
    http: Browserless, stocked: FakeBroker, *, prune: bool, validate_only: bool
) -> None:
    before = limits_of(stocked)
    document = {"quotas": [entry(BOB, **{PRODUCE: 7}), entry(ALICE, **{PRODUCE: 200})]}
    query = f"prune={str(prune).lower()}&validate_only={str(validate_only).lower()}"
    answer = await http.ask("POST", f"{QUOTAS}:import?{query}", body=document, token="editor-token")
    changes = IMPORTED.check(await answer.get_json())["changes"]
    expected = [
        (ALICE, PRODUCE, 100, 200),
        (ALICE, PERCENT, 12.5, None),
        (BOB, PRODUCE, None, 7),
        *([(ANY_APP, PRODUCE, 50, None)] if prune else []),
    ]
    assert [(each["entity"], each["key"], each["old"], each["new"]) for each in changes] == [
        (dict(entity), *rest) for entity, *rest in expected
    ]
    after = {ALICE: {PRODUCE: 200}, BOB: {PRODUCE: 7}, **({} if prune else {ANY_APP: {PRODUCE: 50}})}
    assert limits_of(stocked) == (before if validate_only else after)


async def test_shadow_mode_is_kept_in_the_file_and_left_out_means_enforced(
    http: Browserless, stocked: FakeBroker
) -> None:
    stocked.set(ALICE, {}, shadow=True)
    document = FILE.check(await (await http.get(f"{QUOTAS}:export")).get_json())
    assert [each.get("shadow") for each in document["quotas"]] == [True, None]
    same = await http.ask("POST", f"{QUOTAS}:import?prune=true", body=document)
    assert (await same.get_json())["shadow_changes"] == []
    document["quotas"] = [
        entry(ALICE, **{PRODUCE: 100, PERCENT: 12.5}),
        entry(BOB, **{PRODUCE: 7}) | {"shadow": True},
    ]
    answer = await http.ask("POST", f"{QUOTAS}:import?prune=true", body=document)
    assert IMPORTED.check(await answer.get_json())["shadow_changes"] == [
        {"entity": dict(ALICE), "shadow": False},
        {"entity": dict(BOB), "shadow": True},
    ]
    assert {entity: row.shadow for entity, row in stocked.rows.items()} == {ALICE: False, BOB: True}


@pytest.mark.parametrize("validate_only", [True, False])
async def test_one_entity_that_is_refused_keeps_the_whole_file_from_changing_anything(
    http: Browserless, stocked: FakeBroker, *, validate_only: bool
) -> None:
    document = {"quotas": [entry(ALICE, **{PRODUCE: 1.5}), entry(BOB, **{PRODUCE: 7})]}
    before = limits_of(stocked)
    answer = await http.ask(
        "POST", f"{QUOTAS}:import?validate_only={str(validate_only).lower()}", body=document
    )
    problem = REFUSED_IMPORT.check(await answer.get_json())
    (refused,) = problem["refused"]
    assert (answer.status_code, refused["entity"], refused["error"]) == (400, dict(ALICE), "INVALID_REQUEST")
    assert (refused["line"], problem["line"]) == (1, 1)
    assert problem["detail"] == f"Line 1: {refused['message']}"
    assert limits_of(stocked) == before


async def test_all_that_is_refused_is_reported(http: Browserless, stocked: FakeBroker) -> None:
    document = {"quotas": [entry(ALICE, **{PRODUCE: 1.5}), entry(BOB, **{PRODUCE: 2.5})]}
    problem = REFUSED_IMPORT.check(
        await (await http.ask("POST", f"{QUOTAS}:import", body=document)).get_json()
    )
    assert [each["entity"] for each in problem["refused"]] == [dict(ALICE), dict(BOB)]


async def test_a_concurrent_change_of_one_rule_keeps_the_whole_file_from_changing_anything(
    http: Browserless, stocked: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply = stocked.apply

    async def late(command: Any, actor: Any) -> Any:
        stocked.version += 1
        stocked.set(ALICE, {PRODUCE: 300.0})
        return await apply(command, actor)

    monkeypatch.setattr(stocked, "apply", late)
    document = {"quotas": [entry(BOB, **{PRODUCE: 7}), entry(ALICE, **{PRODUCE: 200})]}
    answer = await http.ask("POST", f"{QUOTAS}:import", body=document)
    (refused,) = REFUSED_IMPORT.check(await answer.get_json())["refused"]
    assert (answer.status_code, refused["error"]) == (412, "INVALID_UPDATE_VERSION")
    assert limits_of(stocked)[ALICE][PRODUCE] == 300 and BOB not in stocked.rows


async def test_only_what_was_previewed_is_imported(http: Browserless, stocked: FakeBroker) -> None:
    document = {"quotas": [entry(ALICE, **{PRODUCE: 200})]}
    preview = await http.ask("POST", f"{QUOTAS}:import?validate_only=true", body=document)
    tag = preview.headers["ETag"]
    assert tag == f'"{(await preview.get_json())["version"]}"'
    stocked.set(ALICE, {PRODUCE: 150.0})
    answer = await http.ask("POST", f"{QUOTAS}:import", body=document, If_Match=tag)
    problem = REFUSED_IMPORT.check(await answer.get_json())
    assert (answer.status_code, problem["changes"][0]["old"]) == (412, 150)
    assert limits_of(stocked)[ALICE][PRODUCE] == 150
    stocked.set(ALICE, {PRODUCE: 100.0})
    answer = await http.ask("POST", f"{QUOTAS}:import", body=document, If_Match=tag)
    assert (answer.status_code, limits_of(stocked)[ALICE]) == (200, {PRODUCE: 200})


async def test_a_yaml_file_has_units_and_json_has_numbers(http: Browserless, stocked: FakeBroker) -> None:
    path = f"{QUOTAS}:import?prune=true"
    limits = b"{producer_byte_rate: 1.5 MiB/s, request_percentage: 12.5%}"
    text = b"quotas:\n- entity: {user: bob}\n  limits: " + limits
    answer = await http.ask("POST", path, body=text, Content_Type="application/yaml")
    assert answer.status_code == 200
    assert limits_of(stocked) == {BOB: {PRODUCE: 1_572_864, PERCENT: 12.5}}

    text = b"quotas:\n- entity: {user: bob}\n  limits:\n    producer_byte_rate: '10,000'\n"
    answer = await http.ask("POST", path, body=text, Content_Type="application/yaml")
    problem = REFUSED_IMPORT.check(await answer.get_json())
    assert (answer.status_code, problem["line"]) == (400, 2)
    assert problem["where"] == "/quotas/0/limits/producer_byte_rate"
    assert "10,000 may mean 10000 or 10; write 10000 or 10" in problem["detail"]

    body = {"quotas": [{"entity": {"user": "bob"}, "limits": {PRODUCE: "10 MB"}}]}
    answer = await http.ask("POST", path, body=body)
    assert answer.status_code == 400 and "must be a number" in (await answer.get_json())["detail"]
    assert limits_of(stocked) == {BOB: {PRODUCE: 1_572_864, PERCENT: 12.5}}


async def test_yaml_is_exported_and_imported(http: Browserless, stocked: FakeBroker) -> None:
    stocked.set((("user", "yes"),), {PRODUCE: 1.0})
    stocked.set(ANY_APP, {}, shadow=True)
    exported = await http.get(f"{QUOTAS}:export?format=yaml", token="viewer-token")
    assert exported.content_type == "application/yaml"
    assert exported.headers["Content-Disposition"] == 'attachment; filename="client-quotas.yaml"'
    text = await exported.get_data()
    assert b"user: 'yes'" in text and b"shadow: true" in text
    before = limits_of(stocked)
    stocked.rows.clear()
    answer = await http.ask("POST", f"{QUOTAS}:import", body=text, Content_Type="application/yaml")
    assert (answer.status_code, limits_of(stocked)) == (200, before)


async def test_an_empty_export_is_a_file_without_rules(http: Browserless) -> None:
    exported = await http.get(f"{QUOTAS}:export?format=yaml")
    assert await exported.get_data() == b"quotas: []\n"


async def test_a_refused_entry_of_a_file_is_named_with_its_line(
    http: Browserless, stocked: FakeBroker
) -> None:
    text = b"""# two rules
quotas:
- entity: {user: bob}
  limits: {producer_byte_rate: 7}
- entity:
    user: carol
  limits:
    producer_byte_rate: 1.5
"""
    answer = await http.ask("POST", f"{QUOTAS}:import", body=text, Content_Type="application/yaml")
    problem = REFUSED_IMPORT.check(await answer.get_json())
    assert [each["line"] for each in problem["refused"]] == [5]
    assert problem["detail"] == "Line 5: producer_byte_rate must be a whole number"


async def test_all_refused_entries_are_told_whoever_refuses_them(
    http: Browserless, stocked: FakeBroker
) -> None:
    text = b"""quotas:
- entity: {user: carol}
  limits: {producer_byte_rate: 1.5}
- entity: {user: dora}
  limits: {producer_byte_rate: -1}
- entity: {user: bob}
  limits: {producer_byte_rate: 7}
- entity: {user: eve}
  limits: {producer_byte_rate: "1,5 MB"}
- entity: {user: bob}
  limits: {producer_byte_rate: 8}
- entity: {user: frank}
  limits: {}
- entity: {user: gina}
  limits: {}
  temporary: {producer_byte_rate: {value: 1}}
- entity: {user: alice}
  nonsense: 1
  limits: {producer_byte_rate: 7}
"""
    before = limits_of(stocked)
    for query in ("", "?validate_only=true", "?prune=true"):
        answer = await http.ask("POST", f"{QUOTAS}:import{query}", body=text, Content_Type="application/yaml")
        problem = REFUSED_IMPORT.check(await answer.get_json())
        found = [
            (each["line"], each.get("entity", {}).get("user"), each["message"]) for each in problem["refused"]
        ]
        assert found == [
            (2, "carol", "producer_byte_rate must be a whole number"),
            (4, None, "/quotas/1/limits/producer_byte_rate: must be greater than 0"),
            (8, None, "/quotas/3/limits/producer_byte_rate: 1,5 may mean 15 or 1.5; write 15 or 1.5"),
            (10, "bob", "user bob is listed twice"),
            (12, "frank", f"/limits: must have at least 1 of {', '.join(ALL_KEYS)}"),
            (14, "gina", "producer_byte_rate: a temporary limit needs until or windows"),
            (17, None, "/quotas/7/nonsense: unknown field; allowed: entity, limits, temporary, shadow"),
        ]
        assert answer.status_code == 400
        assert (problem["line"], problem["where"]) == (2, "/quotas/1/limits/producer_byte_rate")
        assert problem["detail"] == f"Line 2: {found[0][2]}; 6 more entries are refused"
        assert [each["entity"] for each in problem["changes"]] == [{"user": "bob"}, {"user": "carol"}]
    assert limits_of(stocked) == before


async def test_a_concurrent_change_is_not_overwritten(
    http: Browserless, stocked: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply = stocked.apply

    async def late(command: Any, actor: Any) -> Any:
        stocked.version += 1
        stocked.set(ALICE, {PRODUCE: 300.0})
        return await apply(command, actor)

    monkeypatch.setattr(stocked, "apply", late)
    answer = await http.ask("POST", f"{QUOTAS}:import", body={"quotas": [entry(ALICE, **{PRODUCE: 200})]})
    code = (await answer.get_json())["code"]
    assert (answer.status_code, code) == (412, "INVALID_UPDATE_VERSION")
    assert limits_of(stocked)[ALICE][PRODUCE] == 300


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"quotas": {}},
        {"quotas": [{"entity": {"user": "x"}}]},
        {"quotas": [entry((), **{PRODUCE: 1})]},
        {"quotas": [entry(BOB)]},
        {"quotas": [entry(BOB, **{PRODUCE: 0})]},
        {"quotas": [entry(BOB, **{PRODUCE: 2.0**63})]},
        {"quotas": [entry(BOB, nonsense=1)]},
        {"quotas": [entry(BOB, **{PRODUCE: 1}) | {"shadow": "true"}]},
        {"quotas": [entry(BOB, **{PRODUCE: 1}) | {"shadow": None}]},
        {"quotas": [entry(BOB, **{PRODUCE: 1}), entry(BOB, **{PERCENT: 1})]},
    ],
)
async def test_a_file_that_makes_no_sense_is_refused_whole(
    http: Browserless, stocked: FakeBroker, body: Any
) -> None:
    sent = b"null" if body is None else body
    answer = await http.ask("POST", f"{QUOTAS}:import?prune=true", body=sent, Content_Type="application/json")
    assert answer.status_code == 400
    assert all(command.validate_only for command, _ in stocked.applied)


async def test_an_entity_listed_twice_is_named(http: Browserless, stocked: FakeBroker) -> None:
    twice = entry((("user", "bob"), ("client-id", None)), **{PRODUCE: 1})
    answer = await http.ask("POST", f"{QUOTAS}:import", body={"quotas": [twice, twice]})
    problem = await answer.get_json()
    assert problem["detail"] == "Line 1: user bob, default client-id is listed twice"


async def test_viewers_may_not_import(http: Browserless, stocked: FakeBroker) -> None:
    document = {"quotas": [entry(BOB, **{PRODUCE: 7})]}
    answer = await http.ask("POST", f"{QUOTAS}:import", body=document, token="viewer-token")
    assert answer.status_code == 403
    assert BOB not in stocked.rows


async def test_validate_only_says_whom_the_file_takes_from_which_rule(
    http: Browserless, stocked: FakeBroker
) -> None:
    stocked.connection_rows = [connection("app", "bob")]
    body = {"quotas": [entry((("user", None),), **{PRODUCE: 70})]}
    answer = await http.ask("POST", f"{QUOTAS}:import?validate_only=true", body=body)
    [reach] = IMPORTED.check(await answer.get_json())["reach"]
    [move] = reach["moves"]
    assert move["from"] == {"entity": {"client-id": None}, "bound": 50}
    assert move["to"] == {"entity": {"user": None}, "bound": 70}
    assert reach["emptied"] == [{"entity": {"client-id": None}, "bound": 50}]
    stocked.callback = "my.Callback"
    answer = await http.ask("POST", f"{QUOTAS}:import?validate_only=true", body=body)
    assert "reach" not in IMPORTED.check(await answer.get_json())

"""Temporary limits over REST: what is shown, set, refused, exported and imported. The fake broker's clock
stands at 2027-01-15T08:00:00Z, a Friday.
"""

from typing import Any

import pytest

from broker.common.temporary_limits import read_time
from broker.controller.commands import EntityPairs
from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from tests.webui.rows import NOW_MS, connection
from webui.rest.client_quota_rule import EDITED
from webui.rest.client_quotas import QUOTA, QUOTAS, REFUSED_RESULTS, RESULTS
from webui.rest.quota_files import FILE, IMPORTED, REFUSED_IMPORT

PATH = "/api/v1/client-quotas"
PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
ORDERS: EntityPairs = (("user", "orders"),)
LATER = "2027-01-15T10:00:00Z"


@pytest.fixture
def stocked(broker: FakeBroker) -> FakeBroker:
    assert broker.now_ms == NOW_MS == read_time("2027-01-15T08:00:00Z")
    broker.set(ORDERS, {PRODUCE: 10.0})
    return broker


def one(*ops: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"entries": [{"entity": {"user": "orders"}, "ops": list(ops), **more}]}


def until(value: float, key: str = PRODUCE, **times: Any) -> dict[str, Any]:
    return {"key": key, "value": value, **(times or {"until": LATER})}


async def rule(http: Browserless) -> dict[str, Any]:
    return QUOTA.check(await (await http.get(f"{PATH}/user=orders")).get_json())


async def test_a_value_with_an_end_lies_over_the_permanent_one(
    http: Browserless, stocked: FakeBroker
) -> None:
    assert "temporary" not in await rule(http)
    answer = await http.patch(PATH, one(until(50)), token="editor-token")
    [result] = RESULTS.check(await answer.get_json())["results"]
    assert (answer.status_code, result["error"]) == (200, "NONE")
    assert result["command"] == (
        f"weir quotas --console http://127.0.0.1:8080 set --user orders producer_byte_rate=50 --until {LATER}"
    )
    shown = await rule(http)
    assert shown["limits"][PRODUCE]["value"] == 50
    assert shown["temporary"] == {
        PRODUCE: {
            "value": 50,
            "permanent": 10,
            "effective": 50,
            "active": True,
            "until": "2027-01-15T10:00:00.000Z",
            "changes_at": "2027-01-15T10:00:00.000Z",
            "seconds_left": 7_200,
            "changed_at": "2027-01-15T08:00:00.000Z",
            "changed_by": "ed",
        }
    }
    listed = QUOTAS.check(await (await http.get(PATH)).get_json())
    assert listed["items"] == [shown]


async def test_a_limit_that_begins_later_counts_down_to_its_begin(
    http: Browserless, stocked: FakeBroker
) -> None:
    begin = "2027-01-15T08:00:00.001Z"
    await http.patch(PATH, one(until(50, FETCH, until=LATER, **{"from": begin})), token="editor-token")
    shown = await rule(http)
    assert FETCH not in shown["limits"]
    limit = shown["temporary"][FETCH]
    assert (limit["active"], limit["permanent"], limit["effective"]) == (False, None, None)
    assert (limit["from"], limit["changes_at"], limit["seconds_left"]) == (begin, begin, 1)


async def test_windows_are_shown_with_their_zone(http: Browserless, stocked: FakeBroker) -> None:
    times = {"windows": ["mon-fri 09:00-17:00", "Sat 22:00-06:00"], "zone": "Europe/Berlin"}
    answer = await http.patch(PATH, one(until(50, **times)), token="editor-token")
    [result] = (await answer.get_json())["results"]
    assert result["command"].endswith(
        "--weekly 'Mon-Fri 09:00-17:00 Europe/Berlin' --weekly 'Sat 22:00-06:00 Europe/Berlin'"
    )
    limit = (await rule(http))["temporary"][PRODUCE]
    assert (limit["windows"], limit["zone"]) == (
        ["Mon-Fri 09:00-17:00", "Sat 22:00-06:00"],
        "Europe/Berlin",
    )
    assert (limit["active"], limit["changes_at"]) == (True, "2027-01-15T16:00:00.000Z")


async def test_it_is_ended_by_itself_and_with_the_rule(http: Browserless, stocked: FakeBroker) -> None:
    await http.patch(PATH, one(until(50), until(7, FETCH)), token="editor-token")
    answer = await http.patch(PATH, one({"key": FETCH, "remove_temporary": True}), token="editor-token")
    [result] = (await answer.get_json())["results"]
    assert (
        result["command"]
        == "weir quotas --console http://127.0.0.1:8080 remove --user orders --temporary consumer_byte_rate"
    )
    assert list((await rule(http))["temporary"]) == [PRODUCE]
    assert (await http.ask("DELETE", f"{PATH}/user=orders", token="editor-token")).status_code == 204
    assert (await http.get(f"{PATH}/user=orders")).status_code == 404


@pytest.mark.parametrize(
    ("op", "problem", "where"),
    [
        (until(50, until="2027-01-15T08:00:00Z"), "until 2027-01-15T08:00:00Z is in the past", None),
        (until(50, until=LATER, **{"from": LATER}), f"until {LATER} is not after from", None),
        (until(50, windows=["Mon 09:00-09:00"]), "begins and ends at the same time", "/windows"),
        (until(50, windows=["Mon 9-17"]), "expected days and times", "/windows"),
        (until(50, windows=["Mon 09:00-17:00"], zone="Mars/Olympus"), "unknown time zone", None),
        (until(50, windows=["Mon 09:00-17:00"], zone="../x"), "unknown time zone", "/zone"),
        (until(50, windows=[]), "must have 1 to 16 elements", "/windows"),
        (until(50, until="18:00"), "Invalid isoformat string", "/until"),
        (until(50, until="2027-01-15T18:00:00"), "has no offset from UTC", "/until"),
        (until(50, **{"from": LATER}), "a temporary limit needs until or windows", None),
        (until(0), "must be greater than 0", "/value"),
        ({"key": PRODUCE, "remove_temporary": False}, "must be true", "/remove_temporary"),
        ({"key": PRODUCE, "until": LATER}, "must be {key, value, from?, until?, windows?, zone?} or", ""),
    ],
)
async def test_impossible_times_are_refused(
    http: Browserless, stocked: FakeBroker, op: dict[str, Any], problem: str, where: str | None
) -> None:
    answer = await http.patch(PATH, one(op), token="editor-token")
    found = await answer.get_json()
    assert answer.status_code == 400
    if where is None:
        [refused] = REFUSED_RESULTS.check(found)["results"]
        assert problem in refused["message"]
    else:
        assert found["where"] == f"/entries/0/ops/0{where}"
        assert problem in found["detail"]
    assert "temporary" not in await rule(http)


async def test_a_put_leaves_temporary_limits_alone_unless_it_lists_them(
    http: Browserless, stocked: FakeBroker
) -> None:
    await http.patch(PATH, one(until(50), until(7, FETCH)), token="editor-token")
    answer = await http.ask(
        "PUT", f"{PATH}/user=orders", body={"limits": {PRODUCE: 20}}, token="editor-token"
    )
    edited = EDITED.check(await answer.get_json())
    assert edited["command"].endswith(
        "--add-config producer_byte_rate=20 --entity-type users --entity-name orders"
    )
    assert edited["current"]["temporary"][PRODUCE]["permanent"] == 20
    assert list(edited["current"]["temporary"]) == [PRODUCE, FETCH]
    body = {"limits": {PRODUCE: 20}, "temporary": {PRODUCE: {"value": 60, "until": LATER}}}
    edited = await (await http.ask("PUT", f"{PATH}/user=orders", body=body, token="editor-token")).get_json()
    assert {key: each["value"] for key, each in edited["current"]["temporary"].items()} == {PRODUCE: 60}
    again = await (await http.ask("PUT", f"{PATH}/user=orders", body=body, token="editor-token")).get_json()
    assert again["command"] == ""


async def test_a_put_needs_a_limit(http: Browserless, stocked: FakeBroker) -> None:
    answer = await http.ask("PUT", f"{PATH}/user=orders", body={"limits": {}}, token="editor-token")
    assert (answer.status_code, (await answer.get_json())["where"]) == (400, "/limits")
    body = {"limits": {}, "temporary": {PRODUCE: {"value": 60, "until": LATER}}}
    answer = await http.ask("PUT", f"{PATH}/user=orders", body=body, token="editor-token")
    assert answer.status_code == 200
    assert (await rule(http))["temporary"][PRODUCE]["permanent"] is None


async def test_the_preview_says_who_would_come_under_it(http: Browserless, stocked: FakeBroker) -> None:
    stocked.connection_rows = [connection(principal="orders", client_id="app")]
    answer = await http.patch(f"{PATH}?validate_only=true", one(until(50)), token="editor-token")
    [result] = RESULTS.check(await answer.get_json())["results"]
    [reach] = result["reach"]
    [move] = reach["moves"]
    assert (reach["key"], move["from"]["bound"], move["to"]["bound"]) == (PRODUCE, 10, 50)
    assert "temporary" not in await rule(http)


async def test_a_file_holds_temporary_limits_and_changes_nothing_when_it_returns(
    http: Browserless, stocked: FakeBroker
) -> None:
    await http.patch(PATH, one(until(50)), token="editor-token")
    document = FILE.check(await (await http.get(f"{PATH}:export")).get_json())
    assert document["quotas"] == [
        {
            "entity": {"user": "orders"},
            "limits": {PRODUCE: 10},
            "temporary": {PRODUCE: {"value": 50, "until": LATER}},
        }
    ]
    answer = await http.ask("POST", f"{PATH}:import?prune=true", body=document, token="editor-token")
    found = IMPORTED.check(await answer.get_json())
    assert (found["changes"], found["temporary_changes"]) == ([], [])
    text = await (await http.get(f"{PATH}:export?format=yaml")).get_data()
    answer = await http.ask(
        "POST", f"{PATH}:import", body=text, Content_Type="application/yaml", token="editor-token"
    )
    assert (await answer.get_json())["temporary_changes"] == []


async def test_a_file_changes_temporary_limits_only_where_it_lists_them(
    http: Browserless, stocked: FakeBroker
) -> None:
    await http.patch(PATH, one(until(50), until(7, FETCH)), token="editor-token")
    entry: dict[str, Any] = {"entity": {"user": "orders"}, "limits": {PRODUCE: 10}}

    async def planned(query: str = "") -> list[dict[str, Any]]:
        path = f"{PATH}:import?validate_only=true{query}"
        answer = await http.ask("POST", path, body={"quotas": [entry]}, token="editor-token")
        return IMPORTED.check(await answer.get_json())["temporary_changes"]

    assert await planned() == await planned("&prune=true") == []
    entry["temporary"] = {PRODUCE: {"value": 60, "until": LATER}}
    fetch = {"entity": {"user": "orders"}, "key": FETCH, "old": {"value": 7, "until": LATER}, "new": None}
    produce = {"entity": {"user": "orders"}, "key": PRODUCE, "old": {"value": 50, "until": LATER}}
    assert await planned() == [fetch, produce | {"new": {"value": 60, "until": LATER}}]
    # What has ended counts as absent, so that a file can be applied every day.
    entry["temporary"] = {PRODUCE: {"value": 60, "until": "2027-01-15T08:00:00Z"}}
    assert await planned() == [fetch, produce | {"new": None}]
    entry = {"entity": {"user": "other"}, "limits": {PRODUCE: 10}}
    assert await planned() == []
    assert len(await planned("&prune=true")) == 2


async def test_an_import_applies_them(http: Browserless, stocked: FakeBroker) -> None:
    text = (
        b"quotas:\n- entity: {user: orders}\n  limits: {}\n  temporary:\n"
        b"    producer_byte_rate: {value: 50 MB, windows: ['Mon-Fri 09:00-17:00'], zone: Europe/Berlin}\n"
    )
    answer = await http.ask(
        "POST", f"{PATH}:import", body=text, Content_Type="application/yaml", token="editor-token"
    )
    found = IMPORTED.check(await answer.get_json())
    assert [change["new"] for change in found["changes"]] == [None]
    shown = (await rule(http))["temporary"][PRODUCE]
    assert (shown["value"], shown["permanent"], shown["zone"]) == (50_000_000, None, "Europe/Berlin")


@pytest.mark.parametrize(
    ("entry", "line", "problem"),
    [
        ("limits: {}", 3, "must have at least 1 of"),
        ("limits: {}\n  temporary: {producer_byte_rate: {value: 1, until: '18:00'}}", 3, "isoformat"),
        ("limits: {}\n  temporary: {producer_byte_rate: {value: 1 XB, until: x}}", 3, "unknown unit XB"),
        ("limits: {}\n  temporary: {producer_byte_rate: {value: 1}}", 3, "needs until or windows"),
        ("limits: {}\n  temporary: {colour: {value: 1}}", 3, "unknown field"),
    ],
)
async def test_a_wrong_entry_of_a_file_is_named_with_its_line(
    http: Browserless, stocked: FakeBroker, entry: str, line: int, problem: str
) -> None:
    first = "quotas:\n- {entity: {user: a}, limits: {producer_byte_rate: 1}}\n"
    text = f"{first}- entity: {{user: b}}\n  {entry}\n"
    answer = await http.ask(
        "POST",
        f"{PATH}:import",
        body=text.encode(),
        Content_Type="application/yaml",
        token="editor-token",
    )
    found = await answer.get_json()
    if "refused" in found:
        REFUSED_IMPORT.check(found)
    assert (answer.status_code, found["line"]) == (400, line)
    assert problem in found["detail"]

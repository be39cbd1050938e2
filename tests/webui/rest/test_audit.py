"""Who changed what, and the way back."""

import csv
import io
import json
from typing import Any

import pytest

from broker.controller.commands import Actor, ChangeOrigin, Role
from broker.controller.rows.broker import ServerInfo
from broker.controller.rows.client_endpoint import ClientEndpoint
from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from tests.webui.rows import change, connection
from webui.rest.audit import ENTRY, TRAIL, UNDONE, undo_command

PATH = "/api/v1/audit"
ANN = Actor("ann", Role.EDITOR, "10.0.0.1", ChangeOrigin.PAGE)
INFO = ServerInfo(1, "weir 1", (ClientEndpoint("b:1"),), "https://h:1/")


@pytest.fixture
def broker() -> FakeBroker:
    broker = FakeBroker()
    broker.trail = [
        change(1, ANN, kind="topic", entity="orders", key="partitions", new="3", origin="broker"),
        change(2, ANN),
        change(3, ANN, old="1000000", new="2000000", actor="bob"),
    ]
    broker.set((("client-id", "app"),), {"producer_byte_rate": 2e6})
    return broker


async def ids(http: Browserless, query: str = "") -> list[int]:
    answer = TRAIL.check(await (await http.get(f"{PATH}{query}")).get_json())
    return [item["id"] for item in answer["items"]]


async def test_the_newest_change_comes_first_with_actor_address_and_origin(http: Browserless) -> None:
    answer = TRAIL.check(await (await http.get(PATH)).get_json())
    newest, middle, oldest = answer["items"]
    assert newest["quota"] == {"client-id": "app"} and (newest["old"], newest["new"]) == (
        "1000000",
        "2000000",
    )
    assert (newest["actor"], newest["address"], newest["origin"]) == ("bob", "10.0.0.1", "page")
    assert newest["final"] is None and middle["final"] == "The value has been changed since"
    assert oldest["quota"] is None and answer["next"] is None


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("?kind=topic", [1]),
        ("?actor=bob", [3]),
        ("?origin=broker", [1]),
        ("?entity=orders", [1]),
        ("?without_broker=true", [3, 2]),
        ("?search=ORD", [1]),
        ("?limit=2", [3, 2]),
    ],
)
async def test_the_trail_is_filtered_and_paged(http: Browserless, query: str, found: list[int]) -> None:
    assert await ids(http, query) == found


async def test_a_full_page_says_where_the_next_begins(http: Browserless) -> None:
    answer = await (await http.get(f"{PATH}?limit=2")).get_json()
    assert await ids(http, f"?cursor={answer['next']}&limit=2") == [1]
    # A page that is exactly full is the last one.
    assert [(await (await http.get(f"{PATH}?limit={n}")).get_json())["next"] for n in (3, 4)] == [None, None]


@pytest.mark.parametrize(
    "query",
    ["?kind=x", "?origin=window", "?cursor=", "?cursor=3", "?before=3", "?limit=0", "?limit=1001", "?x=1"],
)
async def test_invalid_queries_are_refused(http: Browserless, query: str) -> None:
    assert (await http.get(f"{PATH}{query}")).status_code == 400


async def test_an_undo_says_first_what_it_would_do(http: Browserless, broker: FakeBroker) -> None:
    broker.connection_rows = [connection("app")]
    answer = await http.ask("POST", f"{PATH}/3:undo?validate_only=true")
    body = UNDONE.check(await answer.get_json())
    assert body["command"] == (
        "kafka-configs.sh --bootstrap-server 127.0.0.1:9092 --alter --add-config producer_byte_rate=1000000 "
        "--entity-type clients --entity-name app"
    )
    assert body["reach"][0]["clients"] == 1 and body["change"]["final"] is None
    assert broker.rows[(("client-id", "app"),)].value("producer_byte_rate") == 2e6


async def test_an_undo_is_another_change(http: Browserless, broker: FakeBroker) -> None:
    answer = await http.ask("POST", f"{PATH}/3:undo")
    assert answer.status_code == 201 and answer.headers["Location"] == f"{PATH}/4"
    assert UNDONE.check(await answer.get_json())["change"]["id"] == 3
    made = ENTRY.check(await (await http.get(answer.headers["Location"])).get_json())
    assert (made["id"], made["old"], made["new"]) == (4, "2e+06", "1e+06")
    assert broker.rows[(("client-id", "app"),)].value("producer_byte_rate") == 1e6
    assert await ids(http) == [4, 3, 2, 1]
    assert broker.trail[-1].actor == "root" and broker.trail[-1].origin == "rest"


@pytest.mark.parametrize(
    ("change_id", "status"), [("1", 400), ("2", 409), ("99", 404), ("0", 400), ("x", 400)]
)
async def test_a_change_that_cannot_be_undone_is_refused(
    http: Browserless, broker: FakeBroker, change_id: str, status: int
) -> None:
    for query in ("", "?validate_only=true"):
        answer = await http.ask("POST", f"{PATH}/{change_id}:undo{query}")
        assert answer.status_code == status and answer.content_type == "application/problem+json"
    assert len(broker.trail) == 3


async def test_the_trail_leaves_as_json_lines(http: Browserless) -> None:
    answer = await http.get(f"{PATH}:export?origin=page")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="weir-audit.jsonl"'
    lines = (await answer.get_data()).decode().splitlines()
    assert [ENTRY.check(json.loads(line))["id"] for line in lines] == [3, 2]


async def test_the_trail_leaves_as_csv_without_formulas(http: Browserless, broker: FakeBroker) -> None:
    hostile = ("=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", 'a,"b"\n', "плохо")
    broker.trail += [change(4 + index, ANN, actor=name) for index, name in enumerate(hostile)]
    answer = await http.get(f"{PATH}:export?format=csv")
    assert answer.content_type == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO((await answer.get_data()).decode(), newline="")))
    actors: list[Any] = [row["actor"] for row in reversed(rows)][3:]
    assert actors == ["'=1+1", "'+1", "'-1", "'@SUM(A1)", "'\tx", "'\rx", 'a,"b"\n', "плохо"]


async def test_a_long_trail_leaves_whole(http: Browserless, broker: FakeBroker) -> None:
    broker.trail = [change(seq, ANN) for seq in range(1, 2_502)]
    lines = (await (await http.get(f"{PATH}:export?format=csv")).get_data()).splitlines()
    assert len(lines) == 2_502 and lines[0].startswith(b"id,at,actor")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (
            change(1, ANN, kind="topic-config", entity="orders", key="cleanup.policy", old="compact,delete"),
            "--add-config 'cleanup.policy=[compact,delete]' --entity-type topics --entity-name orders",
        ),
        (
            change(1, ANN, kind="broker-config", entity="", key="num.io.threads", old=None),
            "--delete-config num.io.threads --entity-type brokers --entity-default",
        ),
        (change(1, ANN, kind="client-quota", entity='[["ip", null]]', key="connection_creation_rate"), "ips"),
    ],
)
def test_every_undo_that_a_tool_could_do_has_its_command(row: Any, words: str) -> None:
    assert words in undo_command(INFO, row)


def test_changes_that_no_tool_makes_have_no_command() -> None:
    assert undo_command(INFO, change(1, ANN, kind="admin-token", entity="root", key="token")) == ""


def test_weirs_own_tool_undoes_shadow_mode_and_temporary_limits() -> None:
    old, weir = '{"value":5,"until":"2026-12-01T18:00:00Z"}', "weir quotas --console https://h:1"
    mark = change(1, ANN, key="shadow", old="true", new=None)
    assert undo_command(INFO, mark) == f"{weir} set --client-id app --shadow"
    removal = change(1, ANN, kind="temporary-quota", old=old, new=None)
    expected = f"{weir} set --client-id app producer_byte_rate=5 --until 2026-12-01T18:00:00Z"
    assert undo_command(INFO, removal) == expected
    setting = change(1, ANN, kind="temporary-quota", old=None, new=old)
    assert undo_command(INFO, setting) == f"{weir} remove --client-id app --temporary producer_byte_rate"


async def test_the_oldest_come_first_where_that_is_asked_for(http: Browserless, broker: FakeBroker) -> None:
    broker.trail = [change(seq, ANN) for seq in range(1, 6)]
    answer = TRAIL.check(await (await http.get("/api/v1/audit?order=asc&limit=2")).get_json())
    assert [row["id"] for row in answer["items"]] == [1, 2]
    broker.trail.append(change(6, ANN))
    path = f"/api/v1/audit?order=asc&limit=4&cursor={answer['next']}"
    answer = TRAIL.check(await (await http.get(path)).get_json())
    assert ([row["id"] for row in answer["items"]], answer["next"]) == ([3, 4, 5, 6], None)


@pytest.mark.parametrize(
    ("change_id", "status"), [("1", 200), ("3", 200), ("4", 404), ("0", 400), ("x", 400)]
)
async def test_one_change_is_read_by_its_id(http: Browserless, change_id: str, status: int) -> None:
    assert (await http.get(f"{PATH}/{change_id}")).status_code == status


async def test_a_file_goes_on_after_its_last_line(http: Browserless) -> None:
    answer = await http.get("/api/v1/audit:export?before_id=3")
    assert [json.loads(line)["id"] for line in (await answer.get_data()).splitlines()] == [2, 1]


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("", ["produced"]),
        ("?log=changes", ["produced"]),
        ("?log=reads", ["read"]),
        ("?log=all", ["read", "produced"]),
        ("?log=reads&kind=topic", []),
    ],
)
async def test_what_was_read_is_a_log_of_its_own(
    http: Browserless, broker: FakeBroker, query: str, keys: list[str]
) -> None:
    ann = Actor("ann", Role.EDITOR, "10.0.0.1", ChangeOrigin.PAGE)
    broker.trail = [
        change(at, ann, kind="records", entity="orders", key=key, new="partition 0")
        for at, key in enumerate(("produced", "read"), 1)
    ]
    answer = await (await http.get(f"/api/v1/audit{query}")).get_json()
    assert [row["key"] for row in answer["items"]] == keys
    exported = await (await http.get(f"/api/v1/audit:export{query}")).get_data()
    assert exported.count(b"\n") == len(keys)

"""Connections, topics and groups."""

from typing import Any
from urllib.parse import quote

import pytest

from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from tests.webui.rows import connection, group, topic
from webui.rest.inventory import (
    CONNECTION,
    CONNECTION_PAGE,
    GROUP_DETAIL,
    GROUP_PAGE,
    TOPIC_DETAIL,
    TOPIC_PAGE,
)
from webui.rest.schema import Schema

STRANGE = 'a/b?c#d %2e%2e <default> ../x "y"'


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker(
        connection_rows=[
            connection("b", "bob", 1, requests=3, mute_state="muted_and_throttled"),
            connection("a", "ann", 0, requests=9, tls="TLSv1.3 X"),
            connection("c", "cy", 2, requests=5),
        ],
        topic_rows=[
            topic("orders"),
            topic("clicks", size_bytes=9),
            topic("__consumer_offsets", internal=True),
        ],
        group_rows=[group("readers", "app"), group("idle", lag=0), group(STRANGE, "x")],
    )


async def asked(http: Browserless, path: str, schema: Schema) -> Any:
    answer = await http.get(f"/api/v1/{path}")
    assert answer.status_code == 200, await answer.get_data()
    return schema.check(await answer.get_json())


@pytest.mark.parametrize(
    ("query", "clients"),
    [
        ("", ["a", "b", "c"]),
        ("?sort=requests&order=desc", ["a", "c", "b"]),
        ("?sort=client&order=desc&limit=2", ["c", "b"]),
        ("?search=BOB", ["b"]),
        ("?shape=throttled", ["b"]),
        ("?shape=tls", ["a"]),
        ("?offset=2", ["c"]),
    ],
)
async def test_connections_are_searched_sorted_and_paged(
    http: Browserless, query: str, clients: list[str]
) -> None:
    answer = await asked(http, f"connections{query}", CONNECTION_PAGE)
    assert [row["client_id"] for row in answer["items"]] == clients and answer["of"] == 3


async def test_one_connection_is_found_by_its_id(http: Browserless, broker: FakeBroker) -> None:
    wanted = broker.connection_rows[1].connection_id
    assert (await asked(http, f"connections/{wanted}", CONNECTION))["client_id"] == "a"
    assert (await http.get("/api/v1/connections/nobody")).status_code == 404


async def test_a_connection_is_closed_once(http: Browserless, broker: FakeBroker) -> None:
    path = f"/api/v1/connections/{broker.connection_rows[1].connection_id}"
    assert (await http.ask("DELETE", path, token="viewer-token")).status_code == 403
    answer = await http.ask("DELETE", path, token="editor-token")
    assert answer.status_code == 204 and await answer.get_data() == b""
    assert [row.client_id for row in broker.connection_rows] == ["b", "c"]
    assert (await http.ask("DELETE", path)).status_code == 404


async def test_topics_come_with_what_lies_in_them_the_brokers_own_last(http: Browserless) -> None:
    answer = await asked(http, "topics", TOPIC_PAGE)
    assert [row["name"] for row in answer["items"]] == ["clicks", "orders", "__consumer_offsets"]
    largest = await asked(http, "topics?sort=size&order=desc&shape=own", TOPIC_PAGE)
    assert [row["name"] for row in largest["items"]] == ["orders", "clicks"]


async def test_a_topic_is_told_partition_by_partition(http: Browserless) -> None:
    answer = await asked(http, "topics/orders", TOPIC_DETAIL)
    assert [row["index"] for row in answer["partition_list"]] == [0, 1, 2]
    assert answer["partition_list"][0]["end"] == 2_000 and answer["configs"] == {"retention.ms": "86400000"}
    assert (await http.get("/api/v1/topics/nothing")).status_code == 404


async def test_groups_come_with_their_lag(http: Browserless) -> None:
    answer = await asked(http, "groups?shape=behind&sort=lag&order=desc", GROUP_PAGE)
    assert {row["group_id"]: row["lag"] for row in answer["items"]} == {"readers": 40, STRANGE: 40}


@pytest.mark.parametrize("name", ["readers", STRANGE])
async def test_a_group_is_told_member_by_member_whatever_it_is_called(http: Browserless, name: str) -> None:
    answer = await asked(http, f"groups/{quote(name, safe='')}", GROUP_DETAIL)
    assert answer["group_id"] == name and len(answer["consumers"]) == 1
    assert answer["consumers"][0]["assigned"] == [{"topic": "orders", "partition": 0}]
    assert [row["lag"] for row in answer["offsets"]] == [40, 0]


async def test_five_thousand_connections_are_a_page(http: Browserless, broker: FakeBroker) -> None:
    broker.connection_rows = [connection(f"c{index}", "p", index) for index in range(5_000)]
    answer = await asked(http, "connections?limit=50&sort=client", CONNECTION_PAGE)
    assert len(answer["items"]) == 50 and answer["total"] == 5_000

"""Open connections, those of all gateways, as the REST API lists and closes them."""

from typing import Any

import pytest

from broker.views.connection_search import ConnectionQuery, RemoteConnections, version_order
from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from tests.webui.rows import connection
from webui.rest.connections import CONNECTION, CONNECTION_PAGE, MAX_SOFTWARE, SOFTWARE
from webui.schema import Schema


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker(
        connection_rows=[
            connection("b", "bob", 1, requests=3, mute_state="muted_and_throttled"),
            connection("a", "ann", 0, requests=9, tls="TLSv1.3 X"),
            connection("c", "cy", 2, requests=5),
        ],
    )


async def fetched(http: Browserless, path: str, schema: Schema) -> Any:
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
        ("?filter=throttled", ["b"]),
        ("?filter=tls", ["a"]),
    ],
)
async def test_connections_are_searched_sorted_and_paged(
    http: Browserless, query: str, clients: list[str]
) -> None:
    answer = await fetched(http, f"connections{query}", CONNECTION_PAGE)
    assert [row["client_id"] for row in answer["items"]] == clients and answer["of"] == 3


async def test_one_connection_is_found_by_its_id(http: Browserless, broker: FakeBroker) -> None:
    wanted = broker.connection_rows[1].connection_id
    assert (await fetched(http, f"connections/{wanted}", CONNECTION))["client_id"] == "a"
    assert (await http.get("/api/v1/connections/nobody")).status_code == 404


async def test_a_connection_is_closed_once(http: Browserless, broker: FakeBroker) -> None:
    path = f"/api/v1/connections/{broker.connection_rows[1].connection_id}"
    assert (await http.ask("DELETE", path, token="viewer-token")).status_code == 403
    answer = await http.ask("DELETE", path, token="editor-token")
    assert answer.status_code == 204 and await answer.get_data() == b""
    assert [row.client_id for row in broker.connection_rows] == ["b", "c"]
    assert (await http.ask("DELETE", path)).status_code == 404


@pytest.mark.parametrize(
    ("query", "clients"),
    [
        ("?sort=client", ["a", "b", "c", "their a", "their b"]),
        ("?sort=client&order=desc&limit=2", ["their b", "their a"]),
        ("?search=their", ["their a", "their b"]),
    ],
)
async def test_connections_of_other_gateways_are_on_the_same_pages(
    http: Browserless, broker: FakeBroker, query: str, clients: list[str]
) -> None:
    rows = tuple(connection(f"their {name}", index=8, gateway="g2-77aa") for name in "ab")
    broker.remote_connections = RemoteConnections(rows, 502, 600, 500, 1)
    answer = await fetched(http, f"connections{query}", CONNECTION_PAGE)
    assert [row["client_id"] for row in answer["items"]] == clients
    assert [row["gateway"] for row in answer["items"]] == [
        "g2-77aa" if client.startswith("their") else "" for client in clients
    ]
    own = 0 if "their" in query else 3
    assert (answer["total"], answer["of"]) == (own + 502, 603)
    assert (answer["unlisted"], answer["unanswered"]) == (500, 1)


async def test_other_gateways_are_asked_for_the_rows_up_to_the_end_of_the_page(
    http: Browserless, broker: FakeBroker
) -> None:
    broker.connection_rows = []
    query = "sort=bytes_in&order=desc&search=x&filter=tls"
    rows = tuple(connection(f"x{n}", "p", n, gateway="g2-77aa", tls="TLSv1.3") for n in range(41))
    broker.remote_connections = RemoteConnections(rows, 41, 41, 0, 0)
    first = await fetched(http, f"connections?{query}&limit=40", CONNECTION_PAGE)
    last = await fetched(http, f"connections?{query}&limit=20&cursor={first['next']}", CONNECTION_PAGE)
    assert (len(first["items"]), len(last["items"]), last["next"]) == (40, 1, None)
    assert broker.queries == [ConnectionQuery("x", "tls", "bytes_in", True, rows) for rows in (40, 60)]


async def test_a_full_page_has_a_next_while_other_gateways_have_more(
    http: Browserless, broker: FakeBroker
) -> None:
    """They are asked for no more rows than the page holds."""
    broker.connection_rows = []
    rows = tuple(connection(f"c{n}", "p", n, gateway="g2-77aa") for n in range(2))
    for total, has_next in ((2, False), (3, True)):
        broker.remote_connections = RemoteConnections(rows, total, total, 0, 0)
        page = await fetched(http, "connections?limit=2", CONNECTION_PAGE)
        assert (page["next"] is not None) is has_next


async def test_five_thousand_connections_are_a_page(http: Browserless, broker: FakeBroker) -> None:
    broker.connection_rows = [connection(f"c{index}", "p", index) for index in range(5_000)]
    answer = await fetched(http, "connections?limit=50&sort=client", CONNECTION_PAGE)
    assert len(answer["items"]) == 50 and answer["total"] == 5_000


def of_versions(*versions: str) -> list[Any]:
    return [
        connection(f"c{at}", index=at, software_name="lib", software_version=each)
        for at, each in enumerate(versions)
    ]


def test_versions_are_ordered_by_their_numbers() -> None:
    versions = ["", "unknown", "v2", "2.9", "2.9.0", "2.9.0-rc1", "2.10.0", "10"]
    mixed = versions[4:] + versions[:4]
    assert sorted(mixed, key=version_order) == versions


async def test_connections_are_sorted_and_searched_by_version(http: Browserless, broker: FakeBroker) -> None:
    broker.connection_rows = of_versions("2.10.0", "2.9.0", "2.10.0")
    for sort in ("software", "version"):
        answer = await fetched(http, f"connections?sort={sort}", CONNECTION_PAGE)
        versions = [row["software_version"] for row in answer["items"]]
        assert versions == ["2.9.0", "2.10.0", "2.10.0"]
    answer = await fetched(http, "connections?search=LIB%202.10", CONNECTION_PAGE)
    assert [row["client_id"] for row in answer["items"]] == ["c0", "c2"]


async def test_versions_of_software_are_counted(http: Browserless, broker: FakeBroker) -> None:
    broker.connection_rows = of_versions("2.10.0", "2.9.0", "2.10.0")
    assert await fetched(http, "connections:software", SOFTWARE) == {
        "items": [
            {"software_name": "lib", "software_version": "2.9.0", "connections": 1},
            {"software_name": "lib", "software_version": "2.10.0", "connections": 2},
        ],
        "of": 2,
        "connections": 3,
    }


@pytest.mark.parametrize("count", [MAX_SOFTWARE - 1, MAX_SOFTWARE, MAX_SOFTWARE + 1])
async def test_the_most_frequent_versions_are_listed(
    http: Browserless, broker: FakeBroker, count: int
) -> None:
    broker.connection_rows = of_versions(*(str(at) for at in range(count)), "0", "0")
    answer = await fetched(http, "connections:software", SOFTWARE)
    assert (len(answer["items"]), answer["of"]) == (min(count, MAX_SOFTWARE), count)
    assert answer["items"][0] == {"software_name": "lib", "software_version": "0", "connections": 3}

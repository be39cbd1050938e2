"""Every list is paged in one way: `limit`, and a cursor that belongs to its list and its parameters."""

from typing import Any

import pytest

from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from tests.webui.rows import connection, tasks, topic
from webui.rest.routes import ROUTES
from webui.rest.routing import Route
from webui.schema import Invalid, Listing, Record

CONNECTIONS = "/api/v1/connections"


def lists() -> list[Route]:
    return [route for route in ROUTES if route.operation.startswith("list")]


def page_of(route: Route) -> Record:
    schema = route.responses[200].schema
    assert isinstance(schema, Record)
    return schema


@pytest.mark.parametrize("route", lists(), ids=lambda route: route.operation)
def test_a_list_has_items_a_next_and_a_limit(route: Route) -> None:
    fields, query = page_of(route).fields, {each.name: each for each in route.query}
    assert isinstance(fields["items"], Listing) and fields["next"].check(None) is None
    assert {"limit", "cursor"} <= query.keys() and "offset" not in query
    assert query["cursor"].default is None and query["limit"].default >= 20


@pytest.mark.parametrize("route", lists(), ids=lambda route: route.operation)
def test_a_page_has_as_many_rows_as_its_limit_may_be(route: Route) -> None:
    limit = next(each for each in route.query if each.name == "limit")
    most = 100 if route.operation == "listNeededQuotas" else 1_000
    assert [limit.read(str(value)) for value in (1, most - 1, most)] == [1, most - 1, most]
    for value in ("0", str(most + 1), "-1", "1.5", ""):
        with pytest.raises(Invalid):
            limit.read(value)
    items = page_of(route).fields["items"]
    assert isinstance(items, Listing) and items.max_items >= most


def test_no_other_route_returns_a_bare_list() -> None:
    for route in ROUTES:
        for response in route.responses.values():
            assert not isinstance(response.schema, Listing), route.operation


@pytest.fixture
def broker() -> FakeBroker:
    broker = FakeBroker()
    broker.connection_rows = [connection(f"c{n:02}", "p", n) for n in range(7)]
    broker.topic_rows = [topic(f"t{n}") for n in range(3)]
    broker.task_rows = tasks()
    for n in range(5):
        broker.set((("user", f"u{n}"),), {"producer_byte_rate": 1_000 + n})
    return broker


async def followed(http: Browserless, path: str) -> tuple[list[Any], int]:
    """Return the items of all pages, and the number of pages."""
    sign, items, cursor, pages = "&" if "?" in path else "?", [], "", 0
    while cursor is not None:
        answer = await http.get(f"{path}{sign}limit=2{cursor and f'&cursor={cursor}'}")
        assert answer.status_code == 200, await answer.get_data()
        page = await answer.get_json()
        items += page["items"]
        cursor, pages = page["next"], pages + 1
    return items, pages


@pytest.mark.parametrize(
    "path",
    [
        CONNECTIONS,
        f"{CONNECTIONS}?sort=client&order=desc",
        f"{CONNECTIONS}?sort=state&search=c0",
        "/api/v1/topics",
        "/api/v1/client-quotas?sort=producer_byte_rate&order=desc",
        "/api/v1/client-quotas?sort=used",
        "/api/v1/tasks",
        "/api/v1/tokens",
        "/api/v1/broker-configs?search=log",
        "/api/v1/problem-types",
    ],
)
async def test_all_pages_together_are_the_list(http: Browserless, path: str) -> None:
    sign = "&" if "?" in path else "?"
    whole = await (await http.get(f"{path}{sign}limit=1000")).get_json()
    items, pages = await followed(http, path)
    assert items == whole["items"] and whole["next"] is None
    assert whole["total"] == len(items) and pages == max(1, -(-len(items) // 2))


async def test_a_connection_that_closes_meanwhile_hides_no_other(
    http: Browserless, broker: FakeBroker
) -> None:
    first = await (await http.get(f"{CONNECTIONS}?limit=3")).get_json()
    del broker.connection_rows[0]
    rest = await (await http.get(f"{CONNECTIONS}?limit=9&cursor={first['next']}")).get_json()
    assert [row["client_id"] for row in rest["items"]] == ["c03", "c04", "c05", "c06"]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        (f"{CONNECTIONS}?sort=client&cursor=", "belongs to another"),
        (f"{CONNECTIONS}?search=c&cursor=", "belongs to another"),
        (f"{CONNECTIONS}?order=desc&cursor=", "belongs to another"),
        (f"{CONNECTIONS}?filter=tls&cursor=", "belongs to another"),
        ("/api/v1/topics?cursor=", "belongs to another"),
        ("/api/v1/audit?cursor=", "belongs to another"),
        ("/api/v1/insights/usage?cursor=", "belongs to another"),
        (f"{CONNECTIONS}?cursor=x", "must be the `next`"),
    ],
)
async def test_a_cursor_of_another_list_is_refused(http: Browserless, path: str, why: str) -> None:
    page = await (await http.get(f"{CONNECTIONS}?limit=2")).get_json()
    answer = await http.get(path + page["next"])
    problem = await answer.get_json()
    assert answer.status_code == 400 and problem["detail"].startswith(why)
    assert problem["type"] == "urn:weir:problem:invalid-cursor" and problem["where"] == "cursor"


@pytest.mark.parametrize("length", [1, 8_191, 8_192, 8_193])
async def test_a_cursor_of_any_length_is_refused(http: Browserless, length: int) -> None:
    assert (await http.get(f"{CONNECTIONS}?cursor={'A' * length}")).status_code == 400


async def test_long_names_fit_a_cursor(http: Browserless, broker: FakeBroker) -> None:
    name = "\x01😀" * 10_000
    broker.connection_rows = [connection(name, name, n, software_name=name) for n in range(4)]
    for sort in ("client", "principal", "software"):
        items, pages = await followed(http, f"{CONNECTIONS}?sort={sort}")
        assert (len({row["connection_id"] for row in items}), pages) == (4, 2)

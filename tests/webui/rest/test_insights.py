"""GET /insights and what is below it: questions as they arrive, answers as they are described."""

import base64
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.webui.conftest import PORT, Browserless
from tests.webui.fakes import FakeBroker, console_config
from tests.webui.insights.full import DAY, fill
from tests.webui.insights.warehouse import write
from webui.console import Console
from webui.http.app import build_app, make_console
from webui.insights.reader import Reader
from webui.rest import insights_schemas as answers
from webui.rest.insights import LEAST_STALE_MS, fresh
from webui.rest.insights_routes import ROUTES
from webui.tables.cursor import write_cursor

NOON_MS = int(datetime.fromisoformat(f"{DAY}T12:00").replace(tzinfo=UTC).timestamp() * 1_000)
BASE = "/api/v1/insights"
METRIC = "org.apache.kafka.producer.node.request.latency.avg"
PATHS = {
    route.path: route.path + (f"?metric={METRIC}" if route.path.endswith("client-metrics:series") else "")
    for route in ROUTES
}


def console_on(warehouse: str) -> tuple[FakeBroker, Console]:
    broker = FakeBroker()
    settings = console_config(insights_warehouse=warehouse)
    return broker, make_console(broker.backend(), settings, PORT, now_ms=lambda: NOON_MS)


@pytest.fixture
async def tables(tmp_path: Path) -> AsyncIterator[Browserless]:
    """A console on a warehouse that has some of everything."""
    fill(tmp_path)
    _, console = console_on(str(tmp_path))
    yield Browserless(build_app(console).test_client(use_cookies=False))
    await console.insights.end()


class Recorded(Reader):
    """Says what it was asked, and answers with no rows."""

    def __init__(self) -> None:
        super().__init__("/somewhere")
        self.questions: list[dict[str, Any]] = []

    async def rows(self, question: Any) -> bytes:
        self.questions.append(question)
        return json.dumps(
            question["head"] | {"version": 1, "written_at": None, "items": [], "next": None}
        ).encode()

    async def table_states(self) -> list[dict[str, Any]]:
        return [{"name": "usage_per_minute", "state": "none", "problem": None}]


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


@pytest.fixture
def client(recorded: Recorded) -> Browserless:
    _, console = console_on("")
    return Browserless(build_app(replace(console, insights=recorded)).test_client(use_cookies=False))


async def test_every_answer_is_as_it_is_described(tables: Browserless) -> None:
    for route in ROUTES:
        answer = await tables.get(PATHS[route.path])
        assert answer.status_code == 200, (route.path, await answer.get_json())
        body = await answer.get_json()
        schema = route.responses[200].schema
        assert schema is not None
        schema.check(body)
        assert body.get("items", body.get("tables")), route.path


async def test_unchanged_tables_are_not_sent_again(tables: Browserless) -> None:
    first = await tables.get(f"{BASE}/usage")
    tag = first.headers["ETag"]
    again = await tables.get(f"{BASE}/usage", If_None_Match=tag)
    assert again.status_code == 304 and await again.get_data() == b"" and again.headers["ETag"] == tag
    other = await tables.get(f"{BASE}/usage?sort=requests", If_None_Match='"another"')
    assert other.status_code == 200


async def test_pages_lead_on(tables: Browserless) -> None:
    seen: list[Any] = []
    cursor = ""
    while cursor is not None:
        answer = await (
            await tables.get(f"{BASE}/usage?by=client&limit=1{cursor and f'&cursor={cursor}'}")
        ).get_json()
        seen += answer["items"]
        cursor = answer["next"]
    whole = await (await tables.get(f"{BASE}/usage?by=client")).get_json()
    assert seen == whole["items"] and len(seen) > 2


async def test_a_cursor_whose_version_is_gone_says_so(tables: Browserless) -> None:
    page = await (await tables.get(f"{BASE}/usage?by=client&limit=1")).get_json()
    digest, _ = json.loads(base64.urlsafe_b64decode(page["next"] + "=="))
    answer = await tables.get(f"{BASE}/usage?by=client&cursor={write_cursor(digest, [99, 1])}")
    assert answer.status_code == 410 and (await answer.get_json())["code"] == "CURSOR_GONE"


async def test_tables_that_are_there_say_how_fresh_they_are(tables: Browserless) -> None:
    body = await (await tables.get(BASE)).get_json()
    assert body["state"] == "ready" and body["problem"] is None
    assert body["newest_at"].startswith(DAY) and body["written_at"] is not None
    assert {row["state"] for row in body["tables"]} == {"there"}


async def test_a_table_that_is_not_there_is_no_reason_to_fail(tmp_path: Path) -> None:
    _, console = console_on(str(tmp_path / "it's nowhere"))
    http = Browserless(build_app(console).test_client(use_cookies=False))
    body = await (await http.get(BASE)).get_json()
    assert body["state"] == "none"
    assert body["command"] == (
        f"weir pipeline run --continuous --bootstrap 127.0.0.1:9092 "
        f"--warehouse '{tmp_path}/it'\"'\"'s nowhere'"
    )
    answer = await http.get(f"{BASE}/usage")
    assert answer.status_code == 404 and (await answer.get_json())["code"] == "NO_TABLE"
    await console.insights.end()


async def test_a_broker_without_a_warehouse_says_what_to_set(http: Browserless) -> None:
    body = await (await http.get(BASE)).get_json()
    assert body["state"] == "off" and body["setting"] == "insights.warehouse"
    assert body["install"] == "pip install '.[insights]'"
    answers.STATE.check(body)
    answer = await http.get(f"{BASE}/advice")
    assert answer.status_code == 404 and (await answer.get_json())["code"] == "INSIGHTS_OFF"


async def test_a_damaged_table_is_reported_and_the_others_are_read(
    tables: Browserless, tmp_path: Path
) -> None:
    log = tmp_path / "gold" / "quota_advice" / "_delta_log" / "00000000000000000000.json"
    log.write_bytes(log.read_bytes()[:100])
    answer = await tables.get(f"{BASE}/advice")
    assert answer.status_code == 502 and answer.content_type == "application/problem+json"
    assert (await answer.get_json())["code"] == "TABLE_DAMAGED"
    body = await (await tables.get(BASE)).get_json()
    states = {row["name"]: row["state"] for row in body["tables"]}
    assert states.pop("quota_advice") == "damaged" and set(states.values()) == {"there"}
    assert (await tables.get(f"{BASE}/usage")).status_code == 200


async def test_a_range_is_of_whole_days_and_a_week_unless_said(
    client: Browserless, recorded: Recorded
) -> None:
    for query, first, last in (
        ("", "2026-01-04", "2026-01-10"),
        ("?to=2026-01-03", "2025-12-28", "2026-01-03"),
        ("?from=2026-01-10", "2026-01-10", "2026-01-10"),
        ("?from=2025-10-11", "2025-10-11", "2026-01-10"),
        ("?from=0001-01-01&to=0001-01-01", "0001-01-01", "0001-01-01"),
        ("?to=0001-01-01", "0001-01-01", "0001-01-01"),
    ):
        assert (await client.get(f"{BASE}/usage{query}")).status_code == 200
        question = recorded.questions[-1]
        assert question["head"] == {"from": first, "to": last, "cluster": None}, query
        assert f"date >= DATE '{first}' AND date <= DATE '{last}'" in question["sql"]


async def test_invalid_queries_are_refused(client: Browserless, recorded: Recorded) -> None:
    for query, where in (
        ("from=2025-10-10", "from"),
        ("from=2026-01-11", "from"),
        ("from=2026-01-05&to=2026-01-04", "from"),
        ("from=2026-13-01", "from"),
        ("from=20260101", "from"),
        ("from=2026-W01-1", "from"),
        ("to=today", "to"),
        ("to=", "to"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("cursor=", "cursor"),
        ("cursor=1", "cursor"),
        ("cursor=" + write_cursor("another list", [0, 1]), "cursor"),
        ("cursor=%D9%A1-1", "cursor"),
        ("sort=name", "sort"),
        ("order=up", "order"),
        (f"search={'x' * 1_025}", "search"),
        (f"cluster={'x' * 1_025}", "cluster"),
        ("by=node", "by"),
        ("entity=x", "entity"),
        ("user=a&user=b", "user"),
    ):
        answer = await client.get(f"{BASE}/usage?{query}")
        assert answer.status_code == 400 and (await answer.get_json())["where"] == where, query
    assert recorded.questions == []


async def test_a_series_has_no_more_points_than_can_be_drawn(client: Browserless) -> None:
    for query, status in (
        ("step=minute", 400),
        ("step=minute&from=2026-01-09", 400),
        ("step=minute&from=2026-01-10", 200),
        ("step=hour&from=2025-10-11", 200),
        ("step=day", 200),
        ("step=week", 400),
        ("limit=5", 400),
    ):
        for name in ("usage:series", "throttling:series", "latency:series"):
            assert (await client.get(f"{BASE}/{name}?{query}")).status_code == status, (name, query)


async def test_a_cluster_an_order_and_a_search_are_asked_for(client: Browserless, recorded: Recorded) -> None:
    for query, words in (
        ("cluster=x", "coalesce(\"cluster\", '') = 'x'"),
        ("cluster=", "coalesce(\"cluster\", '') = ''"),
        ("sort=requests", 'ORDER BY "requests" desc NULLS LAST, '),
        ("sort=user&order=asc", 'ORDER BY "user" asc NULLS LAST, '),
        ("search=O'B", "strpos(lower(\"user\"), lower('O''B')) > 0"),
    ):
        assert (await client.get(f"{BASE}/usage?{query}")).status_code == 200
        assert words in recorded.questions[-1]["sql"], query
    assert [each["head"]["cluster"] for each in recorded.questions] == ["x", "", None, None, None]


async def test_every_view_has_a_cluster_and_every_list_an_order() -> None:
    for route in ROUTES[1:]:
        names = {query.name for query in route.query}
        assert "cluster" in names, route.path
        assert route.path.endswith(":series") or {"search", "sort", "order", "cursor"} <= names, route.path


async def test_the_prices_of_the_configuration_make_the_cost(tmp_path: Path) -> None:
    fill(tmp_path)
    broker = FakeBroker()
    prices = {"price_per_gb_produced": 100.0, "price_per_gb_fetched": 200.0, "price_currency": "EUR"}
    settings = console_config(insights_warehouse=str(tmp_path), **prices)
    console = make_console(broker.backend(), settings, PORT, now_ms=lambda: NOON_MS)
    http = Browserless(build_app(console).test_client(use_cookies=False))
    body = await (await http.get(f"{BASE}/cost")).get_json()
    series = await (await http.get(f"{BASE}/cost:series?step=day")).get_json()
    await console.insights.end()
    assert (body["currency"], body["price_per_gb_produced"], body["price_per_gb_fetched"]) == (
        "EUR",
        100,
        200,
    )
    costs = [(row["user"], row["client_id"], round(row["cost"], 6)) for row in body["items"]]
    assert costs == [("bob", None, 1.8), ("alice", None, 0.9002), ("ANONYMOUS", "scripts", 0.000001)]
    assert sum(row["share"] for row in body["items"]) == pytest.approx(1)
    (day,) = series["items"]
    assert day["produced_cost"] + day["fetched_cost"] == pytest.approx(sum(cost for _, _, cost in costs))


async def test_needs_have_the_present_limit_of_this_cluster(tmp_path: Path) -> None:
    figures = ("producer_byte_rate", 60, 8e4, 1e5, 1e5, "why", 0, None, "simulated", 0.1, 0.1, 5)
    row, script = (DAY, "alice", None, *figures), (DAY, None, "scripts", *figures)
    broker, console = console_on(str(tmp_path))
    own = broker.backend().views.overview().cluster_id
    write(tmp_path, "quota_advice", [(*row, own), (*row, "another"), row, (*script, own)])
    http = Browserless(build_app(console).test_client(use_cookies=False))
    entity = {"user": "alice"}
    entry = {"entity": entity, "ops": [{"key": "producer_byte_rate", "value": 70_000}]}
    assert (await http.patch("/api/v1/client-quotas", {"entries": [entry]})).status_code == 200
    answer = await http.get(f"{BASE}/advice:history?sort=user&order=asc")
    body = await answer.get_json()
    await console.insights.end()
    found = {(each["user"], each["cluster"]): (each["limit"], each["rule"]) for each in body["items"]}
    assert found == {
        ("alice", own): (70_000, entity),
        ("alice", None): (70_000, entity),
        ("alice", "another"): (None, {}),
        (None, own): (None, {}),
    }
    again = await http.get(f"{BASE}/advice:history?sort=user&order=asc", If_None_Match=answer.headers["ETag"])
    assert again.status_code == 304


@pytest.mark.parametrize(("limit", "status"), [(99, 200), (100, 200), (101, 400)])
async def test_needs_come_a_hundred_at_a_time(tables: Browserless, limit: int, status: int) -> None:
    assert (await tables.get(f"{BASE}/advice:history?limit={limit}")).status_code == status


async def test_no_user_asks_without_a_token(client: Browserless) -> None:
    for route in ROUTES:
        assert (await client.get(PATHS[route.path], token=None)).status_code == 401
        assert (await client.get(PATHS[route.path], token="viewer-token")).status_code == 200


async def test_figures_of_different_metrics_are_not_added_up(client: Browserless, recorded: Recorded) -> None:
    answer = await client.get(f"{BASE}/client-metrics:series")
    assert answer.status_code == 400 and (await answer.get_json())["where"] == "metric"
    assert recorded.questions == []


@pytest.mark.parametrize(
    ("gap_ms", "age_ms", "state"),
    [
        (None, 86_400_000, "ready"),
        (None, 86_400_001, "stale"),
        (10_000, LEAST_STALE_MS, "ready"),
        (10_000, LEAST_STALE_MS + 1, "stale"),
        (3_600_000, 7_200_000, "ready"),
        (3_600_000, 7_200_001, "stale"),
    ],
)
def test_tables_are_stale_after_twice_the_usual_time(gap_ms: int | None, age_ms: int, state: str) -> None:
    written = datetime.fromtimestamp((NOON_MS - age_ms) / 1_000, UTC).isoformat()
    table = {
        "name": "usage_per_minute",
        "state": "there",
        "gap_ms": gap_ms,
        "written_at": written,
        "newest_at": None,
    }
    assert fresh([table], NOON_MS)["state"] == state

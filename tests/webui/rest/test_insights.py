"""GET /insights and what is below it: questions as they arrive, answers as they are described."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.webui.conftest import PORT, Browserless
from tests.webui.fakes import FakeBroker, FakeSettings
from tests.webui.insights.full import DAY, fill
from webui.console import Console
from webui.http.app import build_app, make_console
from webui.insights.reader import Reader
from webui.rest import insights_schemas as answers
from webui.rest.insights import LEAST_STALE_MS, ROUTES, fresh

NOON_MS = int(datetime.fromisoformat(f"{DAY}T12:00").replace(tzinfo=UTC).timestamp() * 1_000)
BASE = "/api/v1/insights"
METRIC = "org.apache.kafka.producer.node.request.latency.avg"
PATHS = {
    route.path: route.path + (f"?metric={METRIC}" if route.path.endswith("client-metrics:series") else "")
    for route in ROUTES
}


def console_on(warehouse: str) -> tuple[FakeBroker, Console]:
    broker = FakeBroker()
    settings = FakeSettings(insights_warehouse=warehouse)
    return broker, make_console(broker.backend(), settings, PORT, now_ms=lambda: NOON_MS)


@pytest.fixture
async def tables(tmp_path: Path) -> AsyncIterator[Browserless]:
    """A console on a warehouse that has some of everything."""
    fill(tmp_path)
    _, console = console_on(str(tmp_path))
    yield Browserless(build_app(console).test_client(use_cookies=False))
    await console.insights.end()


class Recorded(Reader):
    """Says what it was asked, and answers with nothing."""

    def __init__(self) -> None:
        super().__init__("/somewhere")
        self.questions: list[dict[str, Any]] = []

    async def rows(self, question: Any) -> bytes:
        self.questions.append(question)
        return b"{}"

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
    answer = await tables.get(f"{BASE}/usage?cursor=99-1")
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


async def test_a_damaged_table_is_told_of_and_the_others_are_read(
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
        assert question["head"] == {"from": first, "to": last}, query
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
        ("cursor=1-2-3", "cursor"),
        ("cursor=-1-2", "cursor"),
        ("cursor=1-9999999999", "cursor"),
        ("cursor=%D9%A1-1", "cursor"),
        ("sort=name", "sort"),
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

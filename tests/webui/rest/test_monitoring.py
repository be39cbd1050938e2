"""BrokerMetrics, and nothing that changes."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from broker.controller.rows.quotas import NodeUse
from tests.webui.conftest import Browserless
from tests.webui.fake_resolving import usage
from tests.webui.fakes import FakeBroker
from tests.webui.polls import Polls, WorkClock
from tests.webui.rows import broker_metrics, connection, tasks, throttled
from webui.console import Console
from webui.rest.monitoring import OVERVIEW, TASK_PAGE, THROTTLED_PAGE, USAGE_PAGE
from webui.tables.slices import SLICE_S


async def test_the_overview_fits_its_schema(http: Browserless, broker: FakeBroker) -> None:
    broker.connection_rows = [connection("app")]
    answer = OVERVIEW.check(await (await http.get("/api/v1/overview")).get_json())
    assert answer["metrics"]["connections"] == 1 and answer["history"]["at_ms"] == []


async def test_the_overview_brings_its_last_minutes_where_asked(
    http: Browserless, broker: FakeBroker, console: Console
) -> None:
    for second in range(4):
        console.live.history.add(broker_metrics(bytes_in_total=1_000 * second), second * 1_000)
    answer = OVERVIEW.check(await (await http.get("/api/v1/overview?history_s=2")).get_json())
    assert answer["history"]["bytes_in"] == [1_000.0, 1_000.0]


@pytest.mark.parametrize("history", ["-1", "86401", "many"])
async def test_history_has_bounds(http: Browserless, history: str) -> None:
    assert (await http.get(f"/api/v1/overview?history_s={history}")).status_code == 400


async def test_throttled_channels_come_longest_wait_first(http: Browserless, broker: FakeBroker) -> None:
    broker.throttled_rows = [
        throttled("a", remaining_ms=5),
        throttled("b", remaining_ms=9),
        throttled("c", remaining_ms=7),
    ]
    page = THROTTLED_PAGE.check(await (await http.get("/api/v1/throttled-channels?limit=2")).get_json())
    assert [row["client_id"] for row in page["items"]] == ["b", "c"]
    assert (page["total"], page["unlisted"]) == (3, 0)
    # All waits are two milliseconds shorter by the time of the next page.
    broker.now_ms += 2
    broker.throttled_rows = [replace(row, remaining_ms=row.remaining_ms - 2) for row in broker.throttled_rows]
    rest = await http.get(f"/api/v1/throttled-channels?limit=2&cursor={page['next']}")
    page = THROTTLED_PAGE.check(await rest.get_json())
    assert [row["client_id"] for row in page["items"]] == ["a"] and page["next"] is None


@pytest.mark.parametrize("token", ["viewer-token", "admin-token"])
async def test_tasks_are_listed_parents_first_to_whoever_may_look(
    http: Browserless, broker: FakeBroker, token: str
) -> None:
    broker.task_rows = tasks()
    rows = TASK_PAGE.check(await (await http.get("/api/v1/tasks", token=token)).get_json())["items"]
    seen: set[str | None] = {None}
    for row in rows:
        assert row["parent"] in seen
        seen.add(row["name"])
    handlers = next(row for row in rows if row["name"] == "handlers")
    assert handlers["owns"] == [{"name": "requests", "now": 3, "capacity": 500, "peak": 212}]
    assert handlers["idle"] is None and handlers["since"] == "2027-01-15T07:58:30.000Z"


async def test_strangers_are_shown_no_tasks(http: Browserless, broker: FakeBroker) -> None:
    broker.task_rows = tasks()
    assert (await http.get("/api/v1/tasks", token=None)).status_code == 401


async def test_metrics_are_prometheus_text(http: Browserless) -> None:
    answer = await http.get("/metrics")
    assert answer.content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert (await answer.get_data()).decode().endswith("up 1\n")


async def test_health_needs_no_token_and_no_known_host(http: Browserless, broker: FakeBroker) -> None:
    for path in ("/healthz", "/readyz"):
        answer = await http.get(path, token=None, Host="10.1.2.3:8080")
        assert answer.status_code == 200, path


async def test_a_broker_that_does_not_serve_is_alive_and_not_ready(
    http: Browserless, broker: FakeBroker
) -> None:
    broker.is_ready = False
    assert (await http.get("/healthz", token=None)).status_code == 200
    answer = await http.get("/readyz", token=None)
    assert answer.status_code == 503 and answer.content_type == "application/problem+json"


async def test_clients_are_listed_by_what_they_do(http: Browserless, broker: FakeBroker) -> None:
    broker.usage_rows = [
        usage("ANONYMOUS", "quiet", 1.0),
        usage("alice", "loud", 50.0, 60.0, limited_by=("producer_byte_rate",)),
        usage("bob", "middle", 20.0, request_percentage=12.5),
    ]
    answer = USAGE_PAGE.check(await (await http.get("/api/v1/usage", token="viewer-token")).get_json())
    assert [row["client_id"] for row in answer["items"]] == ["loud", "middle", "quiet"]
    loud, middle, _ = answer["items"]
    assert (loud["bytes_in_per_s"], loud["bytes_out_per_s"], loud["limited_by"]) == (
        50.0,
        60.0,
        ["producer_byte_rate"],
    )
    assert (middle["request_percentage"], loud["request_percentage"]) == (12.5, None)
    assert loud["history"] == {
        "step_ms": 5_000,
        "bytes_in": [250] * 60,
        "bytes_out": [300] * 60,
        "requests": [50] * 60,
    }


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("filter=unlimited", ["middle", "quiet"]),
        ("filter=limited", ["loud"]),
        ("filter=idle", ["quiet"]),
        ("sort=bytes_in&order=asc", ["quiet", "middle", "loud"]),
        ("sort=request_percentage&order=desc", ["middle", "loud", "quiet"]),
        ("search=BOB", ["middle"]),
        ("limit=1", ["loud"]),
    ],
)
async def test_clients_are_searched_sorted_and_paged(
    http: Browserless, broker: FakeBroker, query: str, found: list[str]
) -> None:
    broker.usage_rows = [
        usage("ANONYMOUS", "quiet", 1.0, connections=0),
        usage("alice", "loud", 50.0, 60.0, limited_by=("producer_byte_rate",)),
        usage("bob", "middle", 20.0, request_percentage=12.5),
    ]
    answer = await (await http.get(f"/api/v1/usage?{query}")).get_json()
    assert ([row["client_id"] for row in answer["items"]], answer["of"]) == (found, 3)


async def test_whoever_reads_all_metrics_lets_others_in_between(
    http: Browserless, broker: FakeBroker, work_clock: WorkClock, polls: Polls
) -> None:
    def pieces() -> Iterator[bytes]:
        for number in range(50):
            work_clock.now += SLICE_S
            yield f'up{{n="{number}"}} 1\n'.encode() if number % 2 else b""

    broker.metrics = pieces
    polls.since()
    answer = await http.get("/metrics")
    assert len((await answer.get_data()).splitlines()) == 25
    assert polls.since() >= 50


async def test_the_use_at_each_upstream_node_is_listed_by_limit(
    http: Browserless, broker: FakeBroker
) -> None:
    nodes = {"producer_byte_rate": (NodeUse(1, 50.0, 0), NodeUse(2, 110.0, 1_000))}
    broker.usage_rows = [usage("alice", "app", 160.0, nodes=nodes), usage("bob", "app", 1.0)]
    answer = USAGE_PAGE.check(await (await http.get("/api/v1/usage", token="viewer-token")).get_json())
    alice, bob = answer["items"]
    assert alice["nodes"] == {
        "producer_byte_rate": [
            {"upstream_node": 1, "observed": 50, "wait_ms": 0},
            {"upstream_node": 2, "observed": 110, "wait_ms": 1_000},
        ]
    }
    assert "nodes" not in bob


async def test_the_clients_of_all_gateways_are_listed(http: Browserless, broker: FakeBroker) -> None:
    broker.usage_rows = [usage("bob", "app", 20.0), usage("alice", "app", 50.0)]
    broker.remote_shares.client_rows = [
        usage("bob", "app", 40.0, gateways=("g2",)),
        usage("carol", "app", 1.0, gateways=("g2",), history=tuple),
    ]
    broker.unlisted_client_count, broker.without_report = 7, ["g3"]
    answer = USAGE_PAGE.check(await (await http.get("/api/v1/usage?filter=unlimited")).get_json())
    assert (answer["total"], answer["unlisted"], answer["unheard"]) == (3, 7, ["g3"])
    rows = [(row["user"], row["bytes_in_per_s"], row["gateways"]) for row in answer["items"]]
    assert rows == [("bob", 60, ["g2"]), ("alice", 50, []), ("carol", 1, ["g2"])]
    assert answer["items"][0]["history"]["bytes_in"] == [300] * 60
    assert answer["items"][2]["history"]["bytes_in"] == []

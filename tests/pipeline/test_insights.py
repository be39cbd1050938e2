"""Spark's tables, read like the Insights page and /api/v1/insights: all columns are known to the console
with their types, and all values equal the input.
"""

import shutil
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from pipeline.gold import throttling
from tests.pipeline.conftest import Taken
from tests.pipeline.events import DAY
from tests.webui.conftest import Browserless
from tests.webui.rest.test_insights import console_on
from webui.http.app import build_app
from webui.insights import queries
from webui.insights.tables import LOST, TABLES

DAYS = f"from={DAY}&to={DAY}"
ALICE = {"user": "alice", "client_id": "a"}
RULE = {"user": "alice"}
NO_CLUSTER = {"cluster": None}
BYTES = [100 + at % 7 for at in range(89)]
"""One request per second; the first sixty belong to the first minute."""

FIRST, SECOND = sum(BYTES[:60]), sum(BYTES[60:])
NOON, NEXT = f"{DAY}T12:00:00.000Z", f"{DAY}T12:01:00.000Z"
USED = {
    "produce_bytes": FIRST + SECOND,
    "fetch_bytes": 0,
    "requests": 89,
    "errors": 0,
    "throttle_ms": 0,
    "handler_us": 890,
}
HELD = {"throttles": 2, "throttle_ms": 200, "longest_ms": 100}


def took(us: int) -> dict[str, int]:
    return {"timed": 178, "p50_us": us, "p95_us": us, "p99_us": us, "max_us": us}


def metric_row(metric: str, shape: str, points: int, last_at: str, **figures: float) -> dict[str, Any]:
    nothing = dict.fromkeys(("least", "most", "mean", "increase", "counted", "total"))
    metrics = {"metric": metric, "shape": shape, "points": points, "instances": 1, "last_at": last_at}
    return metrics | ALICE | nothing | figures


ROWS = {
    "usage": [{"user": "alice", "client_id": None, "minutes": 6} | USED],
    "usage:series": [{"at": NOON} | USED],
    "throttling": [
        {"kind": "produce", "rule": RULE, "first_at": NOON, "last_at": NEXT} | NO_CLUSTER | ALICE | HELD
    ],
    "throttling:series": [{"at": NOON} | HELD],
    "latency": [
        {"api": "Produce", "phase": "local"} | took(10),
        {"api": "Produce", "phase": "total"} | took(30),
    ],
    "latency:series": [{"at": NOON} | took(30)],
    "storms": [
        NO_CLUSTER
        | {"at": NOON, "node": 1, "listener": "PLAINTEXT", "address": "10.0.0.1"}
        | {"attempts": 80, "opened": 80, "refused": 0, "throttled": 0}
    ],
    "shared-client-ids": [
        NO_CLUSTER
        | {"day": DAY, "client_id": "a", "principals": ["alice", "bob"], "addresses": ["10.0.0.1"]}
        | {"connections": 2, "is_shared_by_principals": True}
    ],
    "throttle-compliance": [
        {"day": DAY, "software_name": "", "software_version": "", "connections": 1, "throttles": 2}
        | {"throttle_ms": 200, "waited": 0, "sent_early": 0, "early_share": None, "obeys": None}
        | ALICE
        | NO_CLUSTER
    ],
    "throttle-compliance:summary": [
        {"days": 1, "software_name": "", "software_version": "", "connections": 1, "throttles": 2}
        | {"throttle_ms": 200, "waited": 0, "sent_early": 0, "early_share": None, "obeys": None}
        | ALICE
        | NO_CLUSTER
    ],
    "throttle-compliance:series": [
        {"at": f"{DAY}T00:00:00.000Z", "waiting_ms": 0, "early_ms": 0, "unknown_ms": 200}
    ],
    "latency-by-software": [
        {"software_name": "", "software_version": "", "attribution": "unknown", "api": "Produce"}
        | took(30)
        | {"clients": 2, "days": 1, "timed": 118},
        # Its pushes tell the software of client a.
        {"software_name": "confluent-kafka-python", "software_version": "2.16.1", "attribution": "one"}
        | took(30)
        | {"api": "Produce", "clients": 1, "days": 1, "timed": 60},
    ],
    "clusters": [NO_CLUSTER | {"first_day": DAY, "last_day": DAY}],
    "client-metrics": [
        metric_row("c", "sum", 2, f"{DAY}T12:03:00.000Z", increase=4.0),
        metric_row("g", "gauge", 1, NOON, least=1.0, most=1.0, mean=1.0),
        metric_row("h", "histogram", 1, NOON, counted=1),
    ],
}


@pytest.fixture
async def ask(taken: Taken) -> AsyncIterator[Browserless]:
    _, console = console_on(str(taken.root))
    yield Browserless(build_app(console).test_client(use_cookies=False))
    await console.insights.end()


async def rows(http: Browserless, name: str) -> list[dict[str, Any]]:
    answer = await http.get(f"/api/v1/insights/{name}{'&' if '?' in name else '?'}{DAYS}")
    body = await answer.get_json()
    assert answer.status_code == 200, body
    items: list[dict[str, Any]] = body["items"]
    return items


@pytest.mark.parametrize("name", ROWS)
async def test_the_console_reads_what_was_sent(ask: Browserless, name: str) -> None:
    assert await rows(ask, name) == ROWS[name]


async def test_the_console_reads_how_much_of_a_limit_was_used(ask: Browserless) -> None:
    (row,) = await rows(ask, "utilisation")
    rates = [FIRST / 60 / 500, SECOND / 60 / 500]
    figures = {name: row.pop(name) for name in ("peak", "mean")}
    assert figures == pytest.approx({"peak": max(rates), "mean": sum(rates) / 2})
    figures = {"bound": 500.0, "minutes": 2, "minutes_nearly": 0, "minutes_at_limit": 0}
    assert row == {"key": "producer_byte_rate", "rule": RULE, "sharer": ["alice"]} | figures | NO_CLUSTER


async def test_the_console_reads_the_most_active_clients(ask: Browserless) -> None:
    def ranks(amounts: list[int]) -> list[tuple[int, str, int]]:
        totals = sorted((-sum(amounts[at::3]), "abc"[at]) for at in range(3))
        return [(rank, name, -total) for rank, (total, name) in enumerate(totals, 1)]

    for by, amounts in (("produce_bytes", BYTES), ("requests", [1] * 89)):
        found = await rows(ask, f"offenders?by={by}")
        assert [(row["rank"], row["client_id"], row["total"]) for row in found] == ranks(amounts)
        assert [row["share"] for row in found] == pytest.approx(
            [row["total"] / sum(amounts) for row in found]
        )
        assert {(row["user"], row["day"]) for row in found} == {("alice", DAY)}


async def test_the_console_reads_the_advice(ask: Browserless) -> None:
    found = {row["key"]: row for row in await rows(ask, "advice?user=alice")}
    assert set(found) == {"producer_byte_rate", "request_percentage"}
    row = found["producer_byte_rate"]
    assert (row["minutes"], row["censored_minutes"], row["day"]) == (2, 2, DAY)
    assert row["peak"] == pytest.approx(max(sum(BYTES[at : at + 10]) for at in range(80)) / 10)
    assert (row["needed"], row["recommended"], row["held_limit"], row["basis"]) == (None, None, 3, "measured")
    assert row["throttled_requests_share"] == pytest.approx(2 / 89)
    assert row["throttled_time_share"] == pytest.approx(HELD["throttle_ms"] / 120_000)
    assert row["longest_wait_ms"] == HELD["longest_ms"]
    assert row["reason"].startswith("A limit held in 2 of 2 active minutes, so the need is not known")


async def test_the_console_reads_what_was_needed_on_each_day(ask: Browserless) -> None:
    (row,) = await rows(ask, "advice:history?user=alice&key=producer_byte_rate")
    (newest,) = [each for each in await rows(ask, "advice?user=alice") if each["key"] == row["key"]]
    assert (row["days"], row["needed"], row["peak"]) == ([DAY], [newest["needed"]], [newest["peak"]])
    assert (row["growth"], row["recommended_now"], row["limit"]) == (None, None, None)


def test_a_verdict_over_days_has_the_shares_of_a_day() -> None:
    ours = queries.MIN_THROTTLES, queries.MOSTLY, queries.HARDLY
    assert ours == (throttling.MIN_THROTTLES, throttling.MOSTLY, throttling.HARDLY)


async def test_the_console_finds_every_table_and_says_how_fresh_they_are(ask: Browserless) -> None:
    body = await (await ask.get("/api/v1/insights")).get_json()
    states = {row["name"]: (row["state"], row["problem"]) for row in body["tables"]}
    assert states == dict.fromkeys(TABLES, ("there", None)) | {LOST: ("none", None)}
    assert body["newest_at"] == NEXT
    assert abs(datetime.fromisoformat(body["written_at"]).timestamp() - datetime.now(UTC).timestamp()) < 3_600


async def test_a_column_of_another_name_is_noticed(taken: Taken, tmp_path: Path) -> None:
    """These tests detect a column that the pipeline names differently."""
    shutil.copytree(taken.root / "gold", tmp_path / "gold")
    folder = tmp_path / "gold/usage_per_minute"
    table = DeltaTable(folder).to_pyarrow_table()
    renamed = table.rename_columns(["asked" if name == "requests" else name for name in table.column_names])
    write_deltalake(folder, renamed, mode="overwrite", schema_mode="overwrite", partition_by=["date"])
    _, console = console_on(str(tmp_path))
    http = Browserless(build_app(console).test_client(use_cookies=False))
    answer = await http.get(f"/api/v1/insights/usage?{DAYS}")
    await console.insights.end()
    assert answer.status_code == 502 and (await answer.get_json())["code"] == "TABLE_FOREIGN"

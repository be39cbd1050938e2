"""What the reading process makes of tables, good and bad; asked without the process around it."""

import json
import os
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.webui.insights.warehouse import SCHEMAS, at, deltalake, usage, write
from webui.insights import queries
from webui.insights.queries import ClientFilter
from webui.insights.statements import Scope, Selection, TableQuery, literal
from webui.insights.tables import OPTIONAL_OF
from webui.insights.worker import Warehouse, answer, utc
from webui.tables.cursor import write_cursor

DAYS = Scope(date(2026, 1, 1), date(2026, 1, 31))
ALL_CLIENTS = ClientFilter()
HOSTILE = ("O'Brien", "''", "'; DROP TABLE t; --", "\\'", "\\", '"', "a' OR '1'='1", "%", "\n", "名")


def cursor(version: int, offset: int) -> str:
    return write_cursor("digest", [version, offset])


def ask(
    root: Path | Warehouse, asked: TableQuery | Selection, **more: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    query = asked.query() if isinstance(asked, Selection) else asked
    server = root if isinstance(root, Warehouse) else Warehouse(root)
    question = {"ask": "rows", "table": query.table, "sql": query.sql, "version": None, "offset": 0}
    head, body = answer(
        server, question | {"limit": 100, "cursor_digest": "digest", "head": {}, "known": None} | more
    )
    assert len(body) == head.get("size", 0)
    return head, json.loads(body or b"{}")


def items(root: Path | Warehouse, query: TableQuery | Selection, **more: Any) -> list[dict[str, Any]]:
    head, body = ask(root, query, **more)
    assert head["outcome"] == "rows", head
    return list(body["items"])


def look(root: Path) -> dict[str, dict[str, Any]]:
    _, body = answer(Warehouse(root), {"ask": "look"})
    return {row["name"]: row for row in json.loads(body)}


def test_a_machine_without_time_zones_reads_tables_too(tmp_path: Path) -> None:
    """As the image is: what the extra `insights` installs has them."""
    three_minutes(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "webui.insights.worker", str(tmp_path)],
        input='{"ask":"look"}\n',
        env=os.environ | {"PYTHONTZPATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    states = {row["name"]: row for row in json.loads(done.stdout.splitlines()[1])}
    assert states["usage_per_minute"]["newest_at"] == "2026-01-03T00:00:00.000Z"


def three_minutes(root: Path) -> None:
    write(
        root,
        "usage_per_minute",
        [
            usage("2026-01-02 10:00", "alice", "a", 100, 10, 1, 0, 5, 6),
            usage("2026-01-02 10:01", "alice", "b", 200, 20, 2, 1, 0, 7),
            usage("2026-01-02 11:00", "ANONYMOUS", "c", 50, 5, 4, 0, 0, 8),
            usage("2026-01-03 00:00", "ANONYMOUS", "d", 1_000, 0, 1, 0, 0, 0),
        ],
    )


def test_a_tenant_is_a_user_and_without_a_login_a_client_id(tmp_path: Path) -> None:
    three_minutes(tmp_path)
    found = items(tmp_path, queries.usage(DAYS, ALL_CLIENTS, "tenant"))
    assert [(row["user"], row["client_id"], row["produce_bytes"], row["minutes"]) for row in found] == [
        ("ANONYMOUS", "d", 1_000, 1),
        ("alice", None, 300, 2),
        ("ANONYMOUS", "c", 50, 1),
    ]
    alice = {"fetch_bytes": 30, "requests": 3, "errors": 1, "throttle_ms": 5, "handler_us": 13}
    assert found[1].items() >= alice.items()


def test_clients_are_distinguished_where_it_is_asked_and_sorted_by_what_is_asked(tmp_path: Path) -> None:
    three_minutes(tmp_path)
    found = items(tmp_path, queries.usage(DAYS, ALL_CLIENTS, "client").query("requests"))
    assert [row["client_id"] for row in found] == ["c", "b", "d", "a"]
    assert [
        row["client_id"] for row in items(tmp_path, queries.usage(DAYS, ClientFilter("alice"), "client"))
    ] == ["b", "a"]
    assert [
        row["client_id"] for row in items(tmp_path, queries.usage(DAYS, ClientFilter(None, "c"), "client"))
    ] == ["c"]


@pytest.mark.parametrize(
    ("first", "last", "total"),
    [(1, 1, 0), (2, 2, 350), (1, 2, 350), (2, 3, 1_350), (3, 3, 1_000), (4, 31, 0)],
)
def test_both_days_are_included(tmp_path: Path, first: int, last: int, total: int) -> None:
    three_minutes(tmp_path)
    days = Scope(date(2026, 1, first), date(2026, 1, last))
    assert (
        sum(row["produce_bytes"] for row in items(tmp_path, queries.usage_series(days, ALL_CLIENTS, "day")))
        == total
    )


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("day", [("2026-01-02T00:00:00.000Z", 350), ("2026-01-03T00:00:00.000Z", 1_000)]),
        (
            "hour",
            [
                ("2026-01-02T10:00:00.000Z", 300),
                ("2026-01-02T11:00:00.000Z", 50),
                ("2026-01-03T00:00:00.000Z", 1_000),
            ],
        ),
    ],
)
def test_a_series_has_a_point_for_each_step_in_which_there_was_something(
    tmp_path: Path, step: str, expected: list[tuple[str, int]]
) -> None:
    three_minutes(tmp_path)
    found = items(tmp_path, queries.usage_series(DAYS, ALL_CLIENTS, step))
    assert [(row["at"], row["produce_bytes"]) for row in found] == expected


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_a_name_whatever_is_in_it(tmp_path: Path, name: str) -> None:
    rows = [usage("2026-01-02 10:00", name, "c", 7), usage("2026-01-02 10:00", "x", "c", 1)]
    write(tmp_path, "usage_per_minute", rows)
    (found,) = items(tmp_path, queries.usage(DAYS, ClientFilter(name), "client"))
    assert found["user"] == name and found["produce_bytes"] == 7


def test_a_literal_ends_where_it_should() -> None:
    assert [literal(text) for text in ("a", "'", "''")] == ["'a'", "''''", "''''''"]


def test_quantiles_are_those_of_all_requests(tmp_path: Path) -> None:
    """And not means of the minutes' quantiles: only the buckets count."""
    rows = [
        (*at("2026-01-02 10:00"), 1, "Produce", "total", 90, 0, 0, 0, 0, [10, 20, 40], [80, 9, 1]),
        (*at("2026-01-02 10:01"), 1, "Produce", "total", 10, 0, 0, 0, 0, [20, 30, 140], [1, 8, 1]),
        (*at("2026-01-02 11:00"), 2, "Produce", "total", 1, 0, 0, 0, 0, [7], [1]),
        (*at("2026-01-02 10:00"), 1, "Produce", "queue", 5, 0, 0, 0, 0, [1], [5]),
        (*at("2026-01-02 10:00"), 1, "ApiVersions", "total", 20, 0, 0, 0, 0, [1, 4], [10, 10]),
    ]
    write(tmp_path, "phase_quantiles_per_minute", rows)
    found = items(tmp_path, queries.latency(DAYS, None))
    names = ("api", "phase", "timed", "p50_us", "p95_us", "p99_us", "max_us")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("Produce", "queue", 5, 1, 1, 1, 1),
        ("Produce", "total", 101, 10, 30, 40, 140),
        ("ApiVersions", "total", 20, 1, 4, 4, 4),
    ]
    hours = items(tmp_path, queries.latency_series(DAYS, "Produce", "total", "hour"))
    assert [tuple(row[name] for name in names[2:]) for row in hours] == [
        (100, 10, 30, 40, 140),
        (1, 7, 7, 7, 7),
    ]


def test_a_minute_of_an_earlier_version_counts_as_its_own_quantiles(tmp_path: Path) -> None:
    rows = [
        (*at("2026-01-02 10:00"), 1, "Produce", "total", 90, 10, 20, 30, 40),
        (*at("2026-01-02 10:01"), 1, "Produce", "total", 10, 110, 120, 130, 140),
    ]
    earlier = SCHEMAS["phase_quantiles_per_minute"].replace("bucket_us BIGINTS, bucket_counts BIGINTS, ", "")
    write(tmp_path, "phase_quantiles_per_minute", rows, earlier)
    (found,) = items(tmp_path, queries.latency(DAYS, None))
    assert found == {
        "api": "Produce",
        "phase": "total",
        "timed": 100,
        "p50_us": 20,
        "p95_us": 110,
        "p99_us": 120,
        "max_us": 140,
    }


def test_quantiles_by_software_are_those_of_all_days(tmp_path: Path) -> None:
    java = ("apache-kafka-java", "4.4.0", "one", "Produce")
    rows = [
        ("2026-01-02", *java, 2, 90, 0, 0, 0, 0, [10, 20], [89, 1]),
        ("2026-01-03", *java, 5, 10, 0, 0, 0, 0, [20, 30], [1, 9]),
    ]
    write(tmp_path, "latency_by_software_per_day", rows)
    days = Scope(date(2026, 1, 2), date(2026, 1, 3))
    (found,) = items(tmp_path, queries.latency_by_software(days, None))
    assert [found[name] for name in ("timed", "p50_us", "p95_us", "max_us", "clients", "days")] == [
        100, 10, 30, 30, 5, 2,
    ]  # fmt: skip
    series = items(tmp_path, queries.latency_by_software_series(days, "Produce"))
    assert [(row["at"][:10], row["timed"], row["p99_us"]) for row in series] == [
        ("2026-01-02", 90, 20),
        ("2026-01-03", 10, 30),
    ]


def test_minutes_near_and_at_a_limit_are_counted(tmp_path: Path) -> None:
    rule, sharer = '{"client-id":null,"user":"alice"}', '["alice",null]'
    rows = [
        (*at(f"2026-01-02 10:0{minute}"), 1, "producer_byte_rate", rule, sharer, 1.0, 500.0 + minute, 1, used)
        for minute, used in enumerate((0.79, 0.8, 0.99, 1.0, 1.01))
    ]
    write(tmp_path, "quota_utilisation_per_minute", rows)
    (found,) = items(tmp_path, queries.utilisation(DAYS))
    assert found["minutes"] == 5 and found["minutes_nearly"] == 4 and found["minutes_at_limit"] == 2
    assert found["peak"] == 1.01 and found["bound"] == 504.0
    assert found["rule"] == {"client-id": None, "user": "alice"} and found["sharer"] == ["alice", None]


def test_a_metric_is_put_together_from_its_points(tmp_path: Path) -> None:
    def gauge(minute: str, instance: str, points: int, least: float, most: float, mean: float) -> Any:
        row = (instance, "a", "alice", "latency", "gauge", points, least, most, mean, None, None, None)
        return (*at(minute), *row)

    first, second = "2026-01-02 10:00", "2026-01-02 11:00"
    rows = [gauge(first, "one", 3, 1.0, 3.0, 2.0), gauge(second, "two", 1, 6.0, 6.0, 6.0)]
    counted = (*at(first), "one", "a", "alice", "sent", "sum", 2, None, None, None, 40.0, None, None)
    write(tmp_path, "client_metrics_per_minute", [*rows, counted])
    latency, sent = items(tmp_path, queries.client_metrics(DAYS, ALL_CLIENTS, None))
    assert (latency["least"], latency["most"], latency["mean"]) == (1.0, 6.0, 3.0)
    assert (latency["points"], latency["instances"], latency["increase"]) == (4, 2, None)
    assert latency["last_at"] == "2026-01-02T11:00:00.000Z"
    assert (sent["increase"], sent["mean"]) == (40.0, None)
    drawn = items(tmp_path, queries.client_metrics_series(DAYS, ALL_CLIENTS, "latency", "hour"))
    assert [point["mean"] for point in drawn] == [2.0, 6.0]


def test_a_client_that_sends_before_its_time_comes_first(tmp_path: Path) -> None:
    write(
        tmp_path,
        "throttle_compliance_per_day",
        [
            ("2026-01-02", "bob", "b", "java", "4", 1, 9, 900, 9, 0, 0.0, True),
            ("2026-01-02", "alice", "a", "librdkafka", "2", 1, 3, 300, 0, 3, 1.0, False),
        ],
    )
    found = items(tmp_path, queries.throttle_compliance(DAYS, ALL_CLIENTS))
    assert [(row["user"], row["obeys"], row["early_share"]) for row in found] == [
        ("alice", False, 1.0),
        ("bob", True, 0.0),
    ]
    assert [
        row["user"] for row in items(tmp_path, queries.throttle_compliance(DAYS, ClientFilter("bob")))
    ] == ["bob"]


def test_of_advice_the_newest_day_counts(tmp_path: Path) -> None:
    def row(day: str, user: str | None, client_id: str | None, recommended: float) -> tuple[Any, ...]:
        return (day, user, client_id, "producer_byte_rate", 60, 1.0, 2.0, recommended, "Because.")

    rows = [
        row("2026-01-02", "alice", None, 10.0),
        row("2026-01-03", "alice", None, 20.0),
        row("2026-01-02", None, "c", 30.0),
    ]
    write(tmp_path, "quota_advice", rows)
    found = items(tmp_path, queries.advice(DAYS, ALL_CLIENTS))
    assert [(row["day"], row["user"], row["client_id"], row["recommended"]) for row in found] == [
        ("2026-01-03", "alice", None, 20.0),
        ("2026-01-02", None, "c", 30.0),
    ]
    assert [row["user"] for row in items(tmp_path, queries.advice(DAYS, ClientFilter("alice")))] == ["alice"]


def test_advice_of_an_earlier_version_lacks_what_was_simulated(tmp_path: Path) -> None:
    schema = (
        "date DATE, user STRING, client_id STRING, key STRING, minutes BIGINT, needed DOUBLE, peak DOUBLE, "
        "recommended DOUBLE, throttled_minutes BIGINT, throttled_share DOUBLE, reason STRING"
    )
    row = ("2026-01-02", "alice", None, "producer_byte_rate", 60, 1.0, 2.0, 3.0, 1, 0.5, "Because.")
    write(tmp_path, "quota_advice", [row], schema)
    (found,) = items(tmp_path, queries.advice(DAYS, ALL_CLIENTS))
    assert (found["needed"], found["recommended"], found["reason"]) == (1.0, 3.0, "Because.")
    later = ("cluster", *OPTIONAL_OF["quota_advice"])
    assert [found[name] for name in later] == [None] * 7
    (history,) = items(tmp_path, queries.advice_history(DAYS, ALL_CLIENTS, None))
    assert history["recommended"] == [3.0]


def test_pages_are_of_one_version_though_the_table_goes_on(tmp_path: Path) -> None:
    write(
        tmp_path, "usage_per_minute", [usage("2026-01-02 10:00", f"u{at}", "", 100 - at) for at in range(5)]
    )
    query = queries.usage(DAYS, ALL_CLIENTS, "tenant")
    server = Warehouse(tmp_path)
    _, first = ask(server, query, limit=2)
    assert [row["user"] for row in first["items"]] == ["u0", "u1"] and first["next"] == cursor(0, 2)
    write(tmp_path, "usage_per_minute", [usage("2026-01-02 10:00", "new", "", 1_000)])
    _, second = ask(server, query, limit=2, version=0, offset=2)
    assert [row["user"] for row in second["items"]] == ["u2", "u3"] and second["next"] == cursor(0, 4)
    _, third = ask(server, query, limit=2, version=0, offset=4)
    assert [row["user"] for row in third["items"]] == ["u4"] and third["next"] is None
    assert items(server, query)[0]["user"] == "new"


def test_exactly_a_page_leads_nowhere(tmp_path: Path) -> None:
    write(tmp_path, "usage_per_minute", [usage("2026-01-02 10:00", f"u{at}", "") for at in range(3)])
    query = queries.usage(DAYS, ALL_CLIENTS, "tenant")
    assert [ask(tmp_path, query, limit=limit)[1]["next"] for limit in (2, 3, 4)] == [cursor(0, 2), None, None]


def test_rows_end_before_an_answer_grows_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webui.insights.worker.MAX_BODY", 1_000)
    write(tmp_path, "usage_per_minute", [usage("2026-01-02 10:00", f"{at}" * 400, "") for at in range(4)])
    _, body = ask(tmp_path, queries.usage(DAYS, ALL_CLIENTS, "tenant"))
    assert len(body["items"]) == 1 and body["next"] == cursor(0, 1)


def test_a_version_that_is_known_is_not_read_again(tmp_path: Path) -> None:
    three_minutes(tmp_path)
    query, server = queries.usage(DAYS, ALL_CLIENTS, "tenant"), Warehouse(tmp_path)
    stamp = ask(server, query)[0]["stamp"]
    assert ask(server, query, known=stamp)[0] == {"outcome": "same"}
    write(tmp_path, "usage_per_minute", [usage("2026-01-02 10:00", "new", "", 9)])
    assert ask(server, query, known=stamp)[0]["stamp"] == [stamp[0], stamp[1] + 1]


def test_a_table_that_was_made_anew_is_another_one(tmp_path: Path) -> None:
    three_minutes(tmp_path)
    query = queries.usage(DAYS, ALL_CLIENTS, "tenant")
    stamp = ask(tmp_path, query)[0]["stamp"]
    shutil.rmtree(tmp_path / "gold")
    three_minutes(tmp_path)
    assert ask(tmp_path, query, known=stamp)[0]["outcome"] == "rows"


def test_missing_tables_are_none_yet(tmp_path: Path) -> None:
    query = queries.usage(DAYS, ALL_CLIENTS, "tenant")
    assert ask(tmp_path / "nowhere", query)[0]["outcome"] == "none"
    (tmp_path / "gold" / "usage_per_minute").mkdir(parents=True)
    assert ask(tmp_path, query)[0]["outcome"] == "none"
    (tmp_path / "gold" / "usage_per_minute" / "_delta_log").mkdir()
    assert ask(tmp_path, query)[0]["outcome"] in ("none", "damaged")
    assert {row["state"] for row in look(tmp_path / "nowhere").values()} == {"none"}


def log_of(root: Path) -> Path:
    return root / "gold" / "usage_per_minute" / "_delta_log" / "00000000000000000000.json"


@pytest.mark.parametrize("content", [b"", b"{", b'{"add":', b"\x00\xff", b"[]", b'{"commitInfo":{}}'])
def test_a_damaged_log_is_reported_to_be_one(tmp_path: Path, content: bytes) -> None:
    three_minutes(tmp_path)
    log_of(tmp_path).write_bytes(content)
    head, _ = ask(tmp_path, queries.usage(DAYS, ALL_CLIENTS, "tenant"))
    assert head["outcome"] in ("damaged", "none") and str(tmp_path) not in head["message"]
    assert look(tmp_path)["usage_per_minute"]["state"] == head["outcome"]


def test_a_half_written_log_is_damaged(tmp_path: Path) -> None:
    three_minutes(tmp_path)
    whole = log_of(tmp_path).read_bytes()
    log_of(tmp_path).write_bytes(whole[: len(whole) // 2])
    assert ask(tmp_path, queries.usage(DAYS, ALL_CLIENTS, "tenant"))[0]["outcome"] == "damaged"


@pytest.mark.parametrize("how", ["missing", "empty", "cut", "rubbish"])
def test_a_bad_file_is_reported_to_be_one_and_another_day_can_be_read(tmp_path: Path, how: str) -> None:
    three_minutes(tmp_path)
    (file,) = (tmp_path / "gold" / "usage_per_minute" / "date=2026-01-02").glob("*.parquet")
    whole = file.read_bytes()
    if how == "missing":
        file.unlink()
    else:
        file.write_bytes({"empty": b"", "cut": whole[: len(whole) // 2], "rubbish": b"x" * len(whole)}[how])
    head, _ = ask(tmp_path, queries.usage(DAYS, ALL_CLIENTS, "tenant"))
    assert head["outcome"] == "damaged" and str(tmp_path) not in head["message"]
    third = Scope(date(2026, 1, 3), date(2026, 1, 3))
    assert len(items(tmp_path, queries.usage(third, ALL_CLIENTS, "tenant"))) == 1


def test_a_version_that_is_gone_is_reported_to_be(tmp_path: Path) -> None:
    three_minutes(tmp_path)
    query = queries.usage(DAYS, ALL_CLIENTS, "tenant")
    assert ask(tmp_path, query, version=7)[0]["outcome"] == "gone"
    assert items(tmp_path, query)


@pytest.mark.parametrize(
    ("schema", "row"),
    [
        ("date DATE, minute TIMESTAMP", at("2026-01-02 10:00")),
        ("date DATE, minute STRING", at("2026-01-02 10:00")),
    ],
)
def test_another_programs_table_is_not_read(tmp_path: Path, schema: str, row: tuple[str, str]) -> None:
    write(tmp_path, "usage_per_minute", [row], schema)
    head, _ = ask(tmp_path, queries.usage(DAYS, ALL_CLIENTS, "tenant"))
    assert head["outcome"] == "foreign" and "usage_per_minute" in head["message"]
    assert look(tmp_path)["usage_per_minute"]["state"] == "foreign"


def test_a_rule_that_is_no_json_is_another_programs(tmp_path: Path) -> None:
    row = (*at("2026-01-02 10:00"), 1, "produce", "user alice", "alice", "a", 1, 1, 1, 1.0, 1.0, 1)
    write(tmp_path, "throttling_per_minute", [row])
    assert ask(tmp_path, queries.throttling(DAYS, ALL_CLIENTS))[0]["outcome"] == "damaged"


def test_a_table_reports_its_size_and_age_from_its_log_alone(tmp_path: Path) -> None:
    three_minutes(tmp_path)
    write(tmp_path, "usage_per_minute", [usage("2026-01-02 10:05", "alice", "a")])
    for file in (tmp_path / "gold").rglob("*.parquet"):
        file.unlink()
    table = look(tmp_path)["usage_per_minute"]
    (last, before) = (
        each["timestamp"] for each in deltalake.DeltaTable(tmp_path / "gold" / "usage_per_minute").history()
    )
    assert table["state"] == "there" and table["rows"] == 5 and table["files"] == 3 and table["version"] == 1
    assert table["newest_at"] == "2026-01-03T00:00:00.000Z" and table["newest_day"] == "2026-01-03"
    assert table["written_at"] == utc(last) and table["gap_ms"] == last - before

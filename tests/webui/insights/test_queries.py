"""What a question selects: a cluster, an order, a search, and the figures that a query computes."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.webui.insights.test_worker import ALL_CLIENTS, DAYS, HOSTILE, ask, items
from tests.webui.insights.warehouse import SCHEMAS, at, usage, write
from webui.insights import queries
from webui.insights.queries import ClientFilter, Prices, throttle_compliance_summary
from webui.insights.statements import Scope, Selection
from webui.insights.tables import (
    ADVICE,
    CLIENT_METRICS,
    LATENCY_BY_SOFTWARE,
    OFFENDERS,
    THROTTLE_COMPLIANCE,
    USAGE,
)

TEN = "2026-01-02 10:00"


def of_cluster(cluster: str | None) -> Scope:
    return Scope(DAYS.first, DAYS.last, cluster)


def usage_at(cluster: str | None, user: str, client_id: str, *figures: int) -> tuple[Any, ...]:
    return (*usage(TEN, user, client_id, *figures), cluster)


def of_three_clusters(root: Path) -> None:
    rows = [usage_at("x", "alice", "a", 1), usage_at("y", "alice", "a", 10), usage_at(None, "bob", "b", 100)]
    write(root, USAGE, rows)


@pytest.mark.parametrize(("cluster", "total"), [(None, 111), ("x", 1), ("y", 10), ("", 100), ("z", 0)])
def test_a_cluster_is_selected_and_all_are_added_up(tmp_path: Path, cluster: str | None, total: int) -> None:
    of_three_clusters(tmp_path)
    found = items(tmp_path, queries.usage(of_cluster(cluster), ALL_CLIENTS, "tenant"))
    assert sum(row["produce_bytes"] for row in found) == total
    assert len({row["user"] for row in found}) == len(found)


@pytest.mark.parametrize(("cluster", "count"), [(None, 1), ("", 1), ("x", 0)])
def test_a_table_from_before_clusters_has_rows_without_one(
    tmp_path: Path, cluster: str | None, count: int
) -> None:
    older = SCHEMAS[OFFENDERS].removesuffix(", cluster STRING")
    write(tmp_path, OFFENDERS, [("2026-01-02", "alice", "a", "requests", 5, 1, 1.0)], older)
    found = items(tmp_path, queries.offenders(of_cluster(cluster), None))
    assert [row["cluster"] for row in found] == [None] * count


@pytest.mark.parametrize(("cluster", "points"), [(None, 111), ("x", 1), ("y", 10), ("", 100), ("z", 0)])
def test_metrics_of_the_clients_of_one_cluster_are_selected(
    tmp_path: Path, cluster: str | None, points: int
) -> None:
    def pushed(cluster: str | None, points: int) -> tuple[Any, ...]:
        figures = (points, 1.0, 1.0, 1.0, None, None, None)
        return (*at(TEN), "one", "a", "alice", "latency", "gauge", *figures, cluster)

    write(tmp_path, CLIENT_METRICS, [pushed("x", 1), pushed("y", 10), pushed(None, 100)])
    scope = of_cluster(cluster)
    rows = items(tmp_path, queries.client_metrics(scope, ALL_CLIENTS, None))
    assert [row["points"] for row in rows] == [points] * bool(points)
    drawn = items(tmp_path, queries.client_metrics_series(scope, ALL_CLIENTS, "latency", "hour"))
    assert [point["points"] for point in drawn] == [points] * bool(points)


def test_the_clusters_of_all_days_are_listed(tmp_path: Path) -> None:
    row = ("alice", "a", "requests", 5, 1, 1.0)
    days = [("2025-06-01", "y"), ("2026-01-02", "x"), ("2026-01-05", "x"), ("2026-01-02", None)]
    write(tmp_path, OFFENDERS, [(day, *row, cluster) for day, cluster in days])
    assert items(tmp_path, queries.clusters(DAYS)) == [
        {"cluster": "x", "first_day": "2026-01-02", "last_day": "2026-01-05"},
        {"cluster": "y", "first_day": "2025-06-01", "last_day": "2025-06-01"},
        {"cluster": None, "first_day": "2026-01-02", "last_day": "2026-01-02"},
    ]


def selections() -> list[Selection]:
    return [
        queries.usage(DAYS, ALL_CLIENTS, "tenant"),
        queries.cost(DAYS, ALL_CLIENTS, "tenant", Prices(0.1, 0.2)),
        queries.throttling(DAYS, ALL_CLIENTS),
        queries.latency(DAYS, None),
        queries.latency_by_software(DAYS, None),
        queries.utilisation(DAYS),
        queries.storms(DAYS, None),
        queries.shared_client_ids(DAYS),
        queries.offenders(DAYS, None),
        queries.clusters(DAYS),
        queries.throttle_compliance(DAYS, ALL_CLIENTS),
        throttle_compliance_summary(DAYS, ALL_CLIENTS),
        queries.client_metrics(DAYS, ALL_CLIENTS, None),
        queries.lost_records(DAYS),
        queries.advice(DAYS, ALL_CLIENTS),
        queries.advice_history(DAYS, ALL_CLIENTS, None),
    ]


def test_every_table_can_be_sorted_by_each_of_its_columns_and_searched(tmp_path: Path) -> None:
    from tests.webui.insights.full import fill

    fill(tmp_path)
    for selection in selections():
        whole = items(tmp_path, selection)
        assert whole, selection.table
        for sort in selection.sorts:
            both = [items(tmp_path, selection.query(sort, order)) for order in ("asc", "desc")]
            assert sorted(map(repr, both[0])) == sorted(map(repr, both[1])) == sorted(map(repr, whole))
            if sort != "bytes":
                rising, falling = ([row[sort] for row in rows if row[sort] is not None] for rows in both)
                assert [str(each) for each in rising] == [str(each) for each in falling[::-1]], sort
                assert [row[sort] for row in both[0]][: len(rising)] == rising, "unknown values are last"
        assert items(tmp_path, selection.query(search="no such text")) == []


def test_a_search_finds_a_part_of_a_name_in_either_case(tmp_path: Path) -> None:
    write(tmp_path, USAGE, [usage(TEN, "Ålice", "Orders-1", 7), usage(TEN, "bob", "b%_", 1)])
    selection = queries.usage(DAYS, ALL_CLIENTS, "client")
    for search, users in (
        ("ålic", ["Ålice"]),
        ("ORDERS", ["Ålice"]),
        ("b%", ["bob"]),
        ("_", ["bob"]),
        ("-2", []),
    ):
        assert [row["user"] for row in items(tmp_path, selection.query(search=search))] == users, search


@pytest.mark.parametrize("text", HOSTILE)
def test_a_search_is_a_text_whatever_is_in_it(tmp_path: Path, text: str) -> None:
    write(tmp_path, USAGE, [usage(TEN, f"<{text}>", "c", 7), usage(TEN, "x", "c", 1)])
    (found,) = items(tmp_path, queries.usage(DAYS, ALL_CLIENTS, "client").query(search=text))
    assert found["user"] == f"<{text}>"


def test_cost_is_bytes_times_the_price_of_a_gigabyte(tmp_path: Path) -> None:
    rows = [
        usage(TEN, "alice", "a", 2_000_000_000, 500_000_000),
        usage(TEN, "alice", "b", 1_000_000_000, 0),
        usage(TEN, "ANONYMOUS", "c", 0, 4_000_000_000),
        usage(TEN, "ANONYMOUS", "d", 0, 0),
    ]
    write(tmp_path, USAGE, rows)
    found = items(tmp_path, queries.cost(DAYS, ALL_CLIENTS, "tenant", Prices(0.5, 0.25)))
    assert [(row["user"], row["client_id"], row["cost"], row["share"]) for row in found] == [
        ("alice", None, 1.625, pytest.approx(1.625 / 2.625)),
        ("ANONYMOUS", "c", 1.0, pytest.approx(1 / 2.625)),
        ("ANONYMOUS", "d", 0.0, 0.0),
    ]
    assert (found[0]["produced_cost"], found[0]["fetched_cost"]) == (1.5, 0.125)
    (day,) = items(tmp_path, queries.cost_series(DAYS, ALL_CLIENTS, Prices(0.5, 0.25), "day"))
    assert day == {"at": "2026-01-02T00:00:00.000Z", "produced_cost": 1.5, "fetched_cost": 1.125}


@pytest.mark.parametrize("price", [0.0, 1e-07, 100_000.0])
def test_every_price_can_be_computed_with(tmp_path: Path, price: float) -> None:
    write(tmp_path, USAGE, [usage(TEN, "alice", "a", 3_000_000_000, 0)])
    (row,) = items(tmp_path, queries.cost(DAYS, ALL_CLIENTS, "tenant", Prices(price, 0.0)))
    assert row["cost"] == pytest.approx(3 * price) and row["share"] == (1.0 if price else None)


def complied(
    day: str, client: str, waited: int, early: int, obeys: bool | None, ms: int = 10
) -> tuple[Any, ...]:
    seen = waited + early
    share = early / seen if seen else None
    return (day, "alice", client, "librdkafka", "2.16.1", 1, seen or 1, ms, waited, early, share, obeys)


@pytest.mark.parametrize(
    ("waited", "early", "verdict"),
    [
        (0, 1, None),
        (1, 1, None),
        (2, 2, False),
        (3, 2, None),
        (7, 1, True),
        (6, 1, None),
        (2, 0, True),
        (1, 0, None),
        (0, 0, None),
    ],
)
def test_the_verdict_over_days_is_that_of_a_day_from_the_sums(
    tmp_path: Path, waited: int, early: int, verdict: bool | None
) -> None:
    rows = [complied("2026-01-02", "a", waited, 0, None), complied("2026-01-03", "a", 0, early, None)]
    write(tmp_path, THROTTLE_COMPLIANCE, rows)
    (row,) = items(tmp_path, throttle_compliance_summary(DAYS, ALL_CLIENTS))
    assert (row["days"], row["waited"], row["sent_early"], row["obeys"]) == (2, waited, early, verdict)
    assert row["early_share"] == (early / (waited + early) if waited + early else None)


def test_throttle_time_is_divided_by_the_verdict_of_the_day(tmp_path: Path) -> None:
    rows = [
        complied("2026-01-02", "a", 9, 0, True, 1),
        complied("2026-01-02", "b", 0, 9, False, 20),
        complied("2026-01-02", "c", 0, 0, None, 300),
        complied("2026-01-03", "a", 9, 0, True, 4_000),
    ]
    write(tmp_path, THROTTLE_COMPLIANCE, rows)
    assert items(tmp_path, queries.throttle_compliance_series(DAYS, ALL_CLIENTS)) == [
        {"at": "2026-01-02T00:00:00.000Z", "waiting_ms": 1, "early_ms": 20, "unknown_ms": 300},
        {"at": "2026-01-03T00:00:00.000Z", "waiting_ms": 4_000, "early_ms": 0, "unknown_ms": 0},
    ]


def advised(day: str, user: str, needed: float, cluster: str | None = None) -> tuple[Any, ...]:
    row = (day, user, None, "producer_byte_rate", 60, needed, 2 * needed, 1.25 * needed, "why")
    return (*row, 0, None, "simulated", 0.1, 0.1, 5, cluster)


def test_the_needs_of_an_entity_are_lists_by_day(tmp_path: Path) -> None:
    rows = [
        advised("2026-01-03", "alice", 30.0),
        advised("2026-01-02", "alice", 20.0),
        advised("2026-01-02", "bob", 0.0),
    ]
    write(tmp_path, ADVICE, rows)
    alice, bob = items(tmp_path, queries.advice_history(DAYS, ALL_CLIENTS, None))
    assert (alice["user"], alice["days"]) == ("alice", ["2026-01-02", "2026-01-03"])
    assert (alice["needed"], alice["peak"], alice["recommended"]) == ([20, 30], [40, 60], [25, 37.5])
    assert (alice["oldest"], alice["newest"], alice["growth"], alice["recommended_now"]) == (
        20,
        30,
        1.5,
        37.5,
    )
    assert bob["growth"] is None
    asked = queries.advice_history(DAYS, ClientFilter("bob"), "producer_byte_rate")
    assert [row["user"] for row in items(tmp_path, asked)] == ["bob"]
    assert items(tmp_path, queries.advice_history(DAYS, ALL_CLIENTS, "request_percentage")) == []


def test_advice_of_two_clusters_is_of_two_entities(tmp_path: Path) -> None:
    rows = [advised("2026-01-03", "alice", 30.0, "x"), advised("2026-01-02", "alice", 20.0, "y")]
    write(tmp_path, ADVICE, rows)
    newest = items(tmp_path, queries.advice(DAYS, ALL_CLIENTS))
    assert [(row["cluster"], row["needed"]) for row in newest] == [("x", 30), ("y", 20)]
    history = items(tmp_path, queries.advice_history(DAYS, ALL_CLIENTS, None))
    assert [(row["cluster"], row["needed"]) for row in history] == [("x", [30]), ("y", [20])]


def took(day: str, version: str, timed: int, p99: int, attribution: str = "one") -> tuple[Any, ...]:
    return (day, "librdkafka", version, attribution, "Produce", 3, timed, 10, 20, p99, p99)


def test_latency_by_version_is_that_of_the_versions_with_the_most_requests(tmp_path: Path) -> None:
    rows = [took("2026-01-02", f"2.{each}.0", 100 * (9 - each), each) for each in range(6)]
    rows += [took("2026-01-03", "2.0.0", 1, 99), took("2026-01-02", "", 10_000, 5, "several")]
    write(tmp_path, LATENCY_BY_SOFTWARE, rows)
    listed = items(tmp_path, queries.latency_by_software(DAYS, "Produce"))
    assert [row["software_version"] for row in listed] == ["", *(f"2.{each}.0" for each in range(6))]
    assert (listed[1]["timed"], listed[1]["max_us"], listed[1]["days"]) == (901, 99, 2)
    drawn = items(tmp_path, queries.latency_by_software_series(DAYS, None))
    assert [(row["at"][:10], row["software_version"]) for row in drawn] == [
        *(("2026-01-02", f"2.{each}.0") for each in range(queries.MAX_VERSIONS)),
        ("2026-01-03", "2.0.0"),
    ]
    assert items(tmp_path, queries.latency_by_software_series(DAYS, "Fetch")) == []


def test_a_page_goes_on_where_the_one_before_ended_in_every_order(tmp_path: Path) -> None:
    write(tmp_path, USAGE, [usage(TEN, f"user {each}", "c", 5) for each in range(9)])
    query = queries.usage(Scope(date(2026, 1, 1), date(2026, 1, 2)), ALL_CLIENTS, "client").query(
        "requests", "asc"
    )
    pages = [ask(tmp_path, query, limit=4, offset=offset)[1]["items"] for offset in (0, 4, 8)]
    assert [row["user"] for page in pages for row in page] == [f"user {each}" for each in range(9)]

"""From records to tables: repeated, late, killed half way, and from files."""

import json

import pytest

from pipeline import bronze, silver, sources
from pipeline.formats import CONNECTIONS, QUOTA_CHANGES, REQUESTS, THROTTLES
from pipeline.gold import advice, client_metrics, people, usage
from pipeline.maintain import ALL, kept_aside, maintain
from pipeline.otlp.points import CUMULATIVE
from pipeline.run import DUE, Pipeline
from pipeline.tables import Warehouse
from tests.pipeline.events import (
    NOON_MS,
    connection,
    quota_change,
    raw,
    record,
    request,
    rows_of,
    throttle,
)
from tests.pipeline.pushes import counter, distribution, gauge, histogram, number, payload, push

PHASES = {"local": [[10, 2]], "total": [[30, 2]]}


def some_of_everything():
    """Records of each topic, and five of which something is kept aside."""
    requests = [request(at, bytes_in=100, timed=2, phases=PHASES) for at in range(1, 90)]
    return [
        *(record(REQUESTS, at, each, each["time_ms"]) for at, each in enumerate(requests)),
        record(REQUESTS, 500, b"not json"),
        record(REQUESTS, 501, request(0) | {"v": 2}),
        record("__weir_tomorrow", 0, b"?"),
        record(THROTTLES, 0, throttle(1)),
        record(QUOTA_CHANGES, 0, quota_change(-1, 1, entity={"user": "alice"}, new=500.0)),
        record(CONNECTIONS, 0, connection(1, count=80)),
        record(CONNECTIONS, 1, connection(2, event="closed", client_id="a", principal="alice")),
        record(CONNECTIONS, 2, connection(2, event="closed", client_id="a", principal="bob")),
        push(0, payload(gauge("g", number(1, 1.0), number(61, float("nan"))))),
        push(1, payload(histogram("h", distribution(1, [1])))),
        push(4, payload(counter("c", number(61, 5), temporality=CUMULATIVE))),
        push(2, b"?"),
        push(3, payload(counter("c", number(181, 9), temporality=CUMULATIVE)), 180),
    ]


def contents(warehouse):
    """Every table's rows, in an order of their own."""
    return {
        table.name: sorted(
            json.dumps(row.asDict(recursive=True), default=str) for row in _rows(warehouse, table)
        )
        for table in ALL
        if warehouse.exists(table)
    }


def _rows(warehouse, table):
    return warehouse.read(table).collect()


def test_a_batch_that_is_repeated_and_the_same_records_from_a_file_give_the_same_tables(
    spark, warehouse, tmp_path
):
    records = some_of_everything()
    policy = advice.Policy(least_minutes=2)
    stream = Pipeline(warehouse, policy)
    stream.take(raw(spark, records), 0)
    stream.make_days()
    once = contents(warehouse)
    assert set(once) == {table.name for table in ALL}
    assert len(once[bronze.EVENTS.name]) == len(records)
    assert list(kept_aside(warehouse)) == [
        ("__weir_client_telemetry", "Value is not a number", 1),
        ("__weir_client_telemetry", "not OTLP metrics", 1),
        ("__weir_requests", "not JSON of this format", 1),
        ("__weir_requests", "unknown version", 1),
        ("__weir_tomorrow", "unknown topic", 1),
    ]

    stream.take(raw(spark, records), 0)
    stream.make_days()
    assert contents(warehouse) == once

    path = str(tmp_path / "files")
    raw(spark, records).write.parquet(path)
    files = Pipeline(Warehouse(spark, str(tmp_path / "from-files")), policy)
    # What overlaps is there once.
    files.add(raw(spark, records[40:60]))
    files.add(sources.files(spark, path))
    files.make_days()
    assert contents(files.warehouse) == once


def test_a_late_event_changes_the_minute_to_which_it_belongs_and_no_other(spark, warehouse):
    pipeline = Pipeline(warehouse)
    first = [request(1, bytes_in=1), request(61, bytes_in=10), request(121, bytes_in=100)]
    pipeline.take(raw(spark, [record(REQUESTS, at, each) for at, each in enumerate(first)]), 0)
    pipeline.take(raw(spark, [record(REQUESTS, 3, request(62, bytes_in=5), NOON_MS + 3_600_000)]), 1)
    found = rows_of(warehouse.read(usage.TABLE), "minute", "produce_bytes")
    assert found == [("12:00", 1), ("12:01", 15), ("12:02", 100)]


def test_a_late_total_changes_its_minute_and_that_of_the_next_one(spark, warehouse):
    def told(offset, second, value, name="c"):
        metric = counter(name, number(second, value, start=0), temporality=CUMULATIVE)
        return push(offset, payload(metric), second)

    def found():
        return rows_of(warehouse.read(client_metrics.TABLE), "metric", "minute", "increase")

    pipeline = Pipeline(warehouse)
    pipeline.take(raw(spark, [told(0, 1, 10), told(1, 301, 40), told(2, 301, 7, "other")]), 0)
    assert found() == [("c", "12:00", 10.0), ("c", "12:05", 30.0), ("other", "12:05", 7.0)]
    pipeline.take(raw(spark, [told(3, 121, 15)]), 1)
    assert found() == [
        *(("c", "12:00", 10.0), ("c", "12:02", 5.0), ("c", "12:05", 25.0)),
        ("other", "12:05", 7.0),
    ]


def test_a_batch_that_died_on_its_way_is_finished_by_its_repetition(spark, warehouse):
    records = [record(REQUESTS, at, request(at + 1, bytes_in=1)) for at in range(3)]
    with pytest.raises(_Death):
        Pipeline(_Dying(spark, warehouse.root, dies_at=usage.TABLE)).take(raw(spark, records), 0)
    Pipeline(warehouse).take(raw(spark, records), 0)
    assert [warehouse.read(table).count() for table in (bronze.EVENTS, silver.TABLES[REQUESTS])] == [3, 3]
    assert rows_of(warehouse.read(usage.TABLE), "produce_bytes", "requests") == [(3, 3)]


def test_days_that_a_process_still_owed_when_it_died_are_made_by_the_next(spark, warehouse):
    Pipeline(warehouse).take(raw(spark, [record(REQUESTS, 0, request(1, bytes_in=1))]), 0)
    assert not warehouse.exists(people.OFFENDERS)
    Pipeline(warehouse).make_days()
    assert warehouse.read(people.OFFENDERS).count() > 0
    assert warehouse.noted(DUE) == []


def test_maintenance_keeps_every_row(spark, warehouse):
    pipeline = Pipeline(warehouse)
    for batch in range(2):
        pipeline.take(raw(spark, [record(THROTTLES, batch, throttle(1))]), batch)
    before = contents(warehouse)
    done = {table.name: (removed, files) for table, removed, files in maintain(warehouse)}
    assert done[bronze.EVENTS.name] == (2, 1)
    assert contents(warehouse) == before


class _Death(Exception):
    """What a kill would be."""


class _Dying(Warehouse):
    """Ends where it should write one table."""

    def __init__(self, spark, root, dies_at):
        super().__init__(spark, root)
        self.dies_at = dies_at

    def replace(self, table, rows, where):
        if table == self.dies_at:
            raise _Death
        super().replace(table, rows, where)

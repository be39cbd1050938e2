"""What maintenance does, when, and that it does it once; the steps run on tables with rows of four days."""

import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from delta.exceptions import ConcurrentAppendException
from delta.tables import DeltaTable
from pyspark.sql import functions as F

from pipeline import conflicts, maintain, schedule, silver
from pipeline.batches import Batches
from pipeline.formats import REQUESTS
from pipeline.gold.usage import USAGE
from pipeline.ledger import LEDGER, REMOVING, Note, addable, first_addable, left_out, note, notes
from pipeline.maintain import STATISTICS, is_clustered
from pipeline.retention import Retention
from pipeline.schedule import CLUSTERED, COMMENTED, COMPACTED, REMOVED, VACUUMED, Maintenance, Schedule
from pipeline.sources import EVENTS, dated
from pipeline.tables import Warehouse
from tests.pipeline.events import raw, record

TODAY = date(2026, 3, 31)
NOON = datetime(2026, 3, 31, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAYS = [TODAY - timedelta(days=days) for days in (9, 8, 7, 0)]


def used(spark, day, client):
    return spark.createDataFrame(
        [(day, datetime(day.year, day.month, day.day, tzinfo=UTC), "alice", client, 1)],
        "date date, minute timestamp, principal string, client_id string, requests bigint",
    )


@pytest.fixture(scope="module")
def as_written(spark, tmp_path_factory):
    """Two files for each day in gold, and a record for each in bronze."""
    warehouse = Warehouse(spark, str(tmp_path_factory.mktemp("as-written")))
    for day in DAYS:
        for client in ("a", "b"):
            warehouse.append_once(USAGE, used(spark, day, client), f"test-{day}-{client}", 0)
        at_ms = int(datetime(day.year, day.month, day.day, 12, tzinfo=UTC).timestamp() * 1000)
        records = raw(spark, [record("t", day.day, b"", at_ms)])
        warehouse.append_once(EVENTS, dated(records), f"test-{day}", 0)
    return warehouse.root


@pytest.fixture
def used_for_days(as_written, spark, tmp_path):
    shutil.copytree(as_written, tmp_path / "copy")
    return Warehouse(spark, str(tmp_path / "copy"))


def days_of(warehouse, table):
    return sorted({row["date"] for row in warehouse.read(table).select("date").collect()})


def files_of(warehouse, table):
    return DeltaTable.forPath(warehouse.spark, warehouse.path(table)).detail().first()["numFiles"]


def operations(warehouse, table):
    history = DeltaTable.forPath(warehouse.spark, warehouse.path(table)).history()
    return [row["operation"] for row in history.orderBy("version").collect()]


def test_all_that_is_due_is_done_once_and_again_when_it_is_due_again(used_for_days):
    warehouse, now = used_for_days, NOON
    maintenance = Maintenance(warehouse, Retention(bronze=7, gold=8), clock=lambda: now)
    lines = list(maintenance.due(HOUR))
    assert days_of(warehouse, EVENTS) == DAYS[2:] and days_of(warehouse, USAGE) == DAYS[1:]
    assert files_of(warehouse, USAGE) == 3
    assert f"gold.usage_per_minute clustered up to {TODAY - timedelta(days=2)}" in lines
    done = operations(warehouse, USAGE)
    assert [done.count(each) for each in ("DELETE", "OPTIMIZE", "VACUUM END")] == [1, 2, 1]
    known = notes(warehouse)
    assert {task for task, _ in known} == {REMOVING, REMOVED, CLUSTERED, COMPACTED, VACUUMED, COMMENTED}

    # A restart is a new object: it knows from the ledger that nothing is due.
    assert list(Maintenance(warehouse, Retention(bronze=7, gold=8), clock=lambda: now).due(HOUR)) == []
    assert operations(warehouse, USAGE) == done

    # An hour later only small files are put together.
    warehouse.append_once(USAGE, used(warehouse.spark, TODAY, "c"), "later", 0)
    now += HOUR
    assert list(maintenance.due(HOUR)) == ["2 files compacted"]
    # Nothing is, a moment before the next hour is over.
    warehouse.append_once(USAGE, used(warehouse.spark, TODAY, "d"), "later still", 0)
    now += HOUR - timedelta(seconds=1)
    assert list(maintenance.due(HOUR)) == []

    # A day later one more day is beyond its retention, and one more is closed.
    now = NOON + timedelta(days=1)
    list(maintenance.due(HOUR))
    assert days_of(warehouse, EVENTS) == DAYS[3:] and days_of(warehouse, USAGE) == DAYS[2:]
    assert notes(warehouse)[CLUSTERED, USAGE.path].day == TODAY - timedelta(days=1)


class Counted(Batches):
    """Says that no batch runs, and counts how often it was asked."""

    def __init__(self):
        super().__init__()
        self.waits = 0

    def wait(self):
        self.waits += 1
        return super().wait()


def test_each_step_of_each_table_waits_for_the_batch_of_the_stream(used_for_days):
    batches = Counted()
    list(Maintenance(used_for_days, clock=lambda: NOON, batches=batches).due(HOUR))
    # Bronze and usage are removed from, compacted, vacuumed and commented, and so is the ledger; usage is
    # clustered too.
    assert batches.waits == 4 * 3 + 1


def test_a_table_that_fails_stops_no_other_and_stays_due(used_for_days):
    log = Path(used_for_days.path(EVENTS)) / "_delta_log"
    newest = max(int(each.stem) for each in log.glob("[0-9]*.json"))
    bad = log / f"{newest + 1:020}.json"
    bad.write_text('{"add":')
    maintenance = Maintenance(used_for_days, Retention(bronze=7, gold=8), clock=lambda: NOON)
    lines = list(maintenance.due(HOUR))
    assert maintenance.failed == {EVENTS.name}
    assert [line.partition(":")[0] for line in lines if EVENTS.name in line] == ["Warning"] * 4
    assert days_of(used_for_days, USAGE) == DAYS[1:] and files_of(used_for_days, USAGE) == 3
    bad.unlink()
    list(maintenance.due(HOUR))
    assert days_of(used_for_days, EVENTS) == DAYS[2:]


def test_without_retention_all_rows_stay(used_for_days):
    maintenance = Maintenance(used_for_days, Retention(-1, -1, 0), clock=lambda: NOON)
    list(maintenance.remove(TODAY))
    assert days_of(used_for_days, EVENTS) == days_of(used_for_days, USAGE) == DAYS
    assert left_out(used_for_days, raw(used_for_days.spark, [record("t", 1, b"", 0)])) == (0, None)


def test_a_clustering_whose_process_was_killed_before_its_note_is_not_repeated(used_for_days):
    last = TODAY - schedule.CLOSED_AFTER
    maintain.cluster(used_for_days, USAGE, None, last)
    assert is_clustered(used_for_days, USAGE, last)
    assert not is_clustered(used_for_days, USAGE, last + timedelta(days=1))
    done = operations(used_for_days, USAGE)
    list(Maintenance(used_for_days, clock=lambda: NOON).cluster(TODAY, notes(used_for_days)))
    assert operations(used_for_days, USAGE) == done
    assert notes(used_for_days)[CLUSTERED, USAGE.path].day == last


def test_the_log_keeps_the_extremes_of_the_columns_by_which_a_table_is_clustered(taken, spark, tmp_path):
    shutil.copytree(taken.root, tmp_path / "copy")
    warehouse, table = Warehouse(spark, str(tmp_path / "copy")), silver.TABLES[REQUESTS]
    rows = sorted(map(repr, warehouse.read(table).collect()))
    maintain.cluster(warehouse, table, None, TODAY)
    detail = DeltaTable.forPath(spark, warehouse.path(table)).detail().first()
    assert detail["properties"][STATISTICS].split(",") == ["time", "principal", "client_id"]
    assert sorted(map(repr, warehouse.read(table).collect())) == rows


def test_records_of_days_that_were_removed_are_not_added_again(used_for_days):
    list(Maintenance(used_for_days, Retention(bronze=7), clock=lambda: NOON).remove(TODAY))
    spark = used_for_days.spark
    times = [datetime(2026, 3, day, 12, tzinfo=UTC) for day in (23, 24, 25)]
    records = raw(spark, [record("t", 1, b"", int(at.timestamp() * 1000)) for at in times])
    kept = addable(used_for_days, dated(records)).select("date").collect()
    assert [row["date"].day for row in kept] == [24, 25]
    assert left_out(used_for_days, records) == (1, date(2026, 3, 24))


@pytest.mark.parametrize(
    ("bronze", "silver", "first"),
    [
        (None, None, None),
        (24, None, 24),
        (24, 1, 24),
        (24, 23, 24),
        (24, 24, 25),
        (None, 1, 2),
    ],
)
def test_a_record_must_not_have_an_event_of_a_day_that_silver_has_lost(bronze, silver, first):
    days = {"bronze": bronze, "silver": silver}
    known = {
        (REMOVING, layer): Note(NOON, None if day is None else date(2026, 3, day))
        for layer, day in days.items()
    }
    assert first_addable(known) == (None if first is None else date(2026, 3, first))


def test_a_table_that_another_process_writes_stays_due(used_for_days, monkeypatch):
    def conflict(_warehouse, table):
        if table is USAGE:
            raise ConcurrentAppendException("another process was faster")
        return 0

    monkeypatch.setattr(maintain, "compact", conflict)
    note(used_for_days, REMOVED, "all", NOON, TODAY)
    note(used_for_days, VACUUMED, "all", NOON, TODAY)
    maintenance = Maintenance(used_for_days, clock=lambda: NOON)
    assert "gold.usage_per_minute is written by another process; it is compacted later" in list(
        maintenance.due(HOUR)
    )
    assert (COMPACTED, "all") not in notes(used_for_days)


@pytest.mark.parametrize("conflicting", [0, conflicts.TRIES - 1, conflicts.TRIES])
def test_a_write_is_repeated_until_no_other_is_in_its_way(conflicting):
    tries = []

    def write():
        tries.append(None)
        if len(tries) <= conflicting:
            raise ConcurrentAppendException("another process was faster")

    if conflicting < conflicts.TRIES:
        conflicts.repeated(write)
        assert len(tries) == conflicting + 1
    else:
        with pytest.raises(ConcurrentAppendException):
            conflicts.repeated(write)
        assert len(tries) == conflicts.TRIES


def test_a_replacement_comes_through_beside_a_compaction(used_for_days, tmp_path):
    """Compaction commits while the rows of the replacement are computed: its first try fails."""
    warehouse, started, go = used_for_days, tmp_path / "started", tmp_path / "go"

    def held(client):
        started.touch()
        while not go.exists():
            time.sleep(0.01)
        return client

    rows = used(warehouse.spark, TODAY, "new").withColumn("client_id", F.udf(held, "string")("client_id"))
    where = f"date = DATE '{TODAY}'"
    with ThreadPoolExecutor(1) as pool:
        replaced = pool.submit(conflicts.repeated, lambda: warehouse.replace(USAGE, rows, where))
        while not started.exists():
            assert not replaced.done(), replaced.exception()
            time.sleep(0.01)
        assert maintain.compact(warehouse, USAGE)
        go.touch()
        replaced.result(60)
    assert [row["client_id"] for row in warehouse.read(USAGE).where(where).collect()] == ["new"]
    assert operations(warehouse, USAGE)[-2:] == ["OPTIMIZE", "WRITE"]


def test_the_schedule_goes_on_after_an_error_and_ends_with_its_block():
    rounds, lines, twice = [], [], threading.Event()

    def due(every):
        rounds.append(every)
        if len(rounds) == 1:
            raise OSError("no space")
        yield "3 files compacted"
        twice.set()

    with Schedule(due, timedelta(milliseconds=1), lines.append, first_s=0):
        assert twice.wait(30)
    assert lines[:2] == [
        "maintenance failed and is tried again: no space",
        "maintenance: 3 files compacted",
    ]


def test_the_ledger_is_kept_small_too(used_for_days):
    now = NOON
    maintenance = Maintenance(used_for_days, clock=lambda: now)
    list(maintenance.due(HOUR))
    now += HOUR
    list(maintenance.due(HOUR))
    assert files_of(used_for_days, LEDGER) <= 3

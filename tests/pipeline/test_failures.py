"""A table that fails stops neither the others nor the next batch, and catches up when it works again."""

import shutil
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from pipeline import silver
from pipeline.failures import FAILED, Failures, Version
from pipeline.formats import REQUESTS, THROTTLES
from pipeline.gold import (
    advice,
    client_metrics,
    clients,
    connections,
    latency,
    limits,
    software,
    throttling,
    usage,
)
from pipeline.listing import of_folder
from pipeline.loss import LOST, POSITIONS
from pipeline.run import LOSS, Pipeline
from pipeline.tables import Table, Warehouse
from tests.pipeline.events import Row, raw, record, request, rows_of
from tests.pipeline.everything import contents, some_of_everything
from tests.pipeline.test_days import due_days

POLICY: Final = advice.Policy(least_minutes=2)
BATCHES: Final = 3

DAMAGED: Final = (
    usage.USAGE,
    client_metrics.TABLE,
    silver.TABLES[THROTTLES],
    silver.QUARANTINE,
    POSITIONS,
    connections.SHARED_CLIENT_IDS,
)
"""One of each kind: gold by the minute, gold of pushes, silver of a topic, silver of all topics, the state of
a step, and a table of days.
"""

DEPENDING: Final = (
    LOST,
    clients.THROTTLED_CONNECTIONS,
    throttling.THROTTLING,
    throttling.COMPLIANCE,
    software.TABLE,
    limits.UTILISATION,
    usage.OFFENDERS,
    advice.TABLE,
)
"""They are made from those."""


def batches() -> list[list[Row]]:
    """Return records of every kind in each batch, whose minutes overlap."""
    by_topic: dict[str, list[Row]] = {}
    for row in some_of_everything():
        by_topic.setdefault(row[0], []).append(row)
    return [[row for rows in by_topic.values() for row in rows[number::BATCHES]] for number in range(BATCHES)]


class Damaged:
    """Tables whose log has a next version that cannot be read, as after a full disk."""

    def __init__(self, root: Path, tables: tuple[Table, ...]) -> None:
        self._bad = []
        for table in tables:
            log = root / table.path / "_delta_log"
            newest = max(int(each.stem) for each in log.glob("[0-9]*.json"))
            self._bad.append(log / f"{newest + 1:020}.json")
        for each in self._bad:
            each.write_text('{"add":')

    def mend(self) -> None:
        for each in self._bad:
            each.unlink()


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def start(spark, tmp_path, told):
    """Return a function that starts a pipeline on the warehouse, as another process does."""

    def start() -> Pipeline:
        warehouse = Warehouse(spark, str(tmp_path / "warehouse"))
        return Pipeline(warehouse, POLICY, failures=Failures(told.append))

    return start


def test_damaged_tables_stop_no_others_and_catch_up_when_they_are_mended(spark, tmp_path, told, start):
    frames = [raw(spark, rows) for rows in batches()]
    undisturbed, root = tmp_path / "undisturbed", tmp_path / "warehouse"
    pipeline = Pipeline(Warehouse(spark, str(undisturbed)), POLICY)
    for batch, frame in enumerate(frames):
        pipeline.take(frame, batch)
    by_minute = contents(undisturbed)
    pipeline.make_days()
    whole = contents(undisturbed)

    disturbed = start()
    disturbed.take(frames[0], 0)
    disturbed.make_days()
    assert told == [] and disturbed.failures.tables == []
    damage = Damaged(root, DAMAGED)
    disturbed.take(frames[1], 1)
    disturbed.take(frames[2], 2)
    disturbed.make_days()
    lacking = {table.name for table in DAMAGED} - {POSITIONS.name} | {LOSS}
    assert lacking <= set(disturbed.failures.tables) <= lacking | {table.name for table in DEPENDING}
    assert all(any(f"Warning: {name} failed: " in line for line in told) for name in lacking)
    assert not any("\n" in line for line in told)
    assert due_days(disturbed.warehouse) == ["2025-11-21"]
    damage.mend()
    good = by_minute.keys() - {table.path for table in (*DAMAGED, *DEPENDING)}
    assert {name: contents(root)[name] for name in good} == {name: by_minute[name] for name in good}

    told.clear()
    later = start()
    later.make_days()
    assert told == [] and later.failures.tables == []
    assert contents(root) == whole
    assert later.warehouse.read(FAILED).count() == 0 and due_days(later.warehouse) == []


def of_minutes(batch: int) -> list[Row]:
    """Return two requests: one of the minute that all batches have, and one of a minute of this batch."""
    return [record(REQUESTS, 2 * batch + at, request(1 + 60 * at * batch)) for at in range(2)]


def used(pipeline: Pipeline) -> list[tuple[str, int]]:
    return rows_of(pipeline.warehouse.read(usage.USAGE), "minute", "requests")


ALL_USED: Final = [("12:00", 4), ("12:01", 1), ("12:02", 1)]


@pytest.mark.parametrize("table", [silver.TABLES[REQUESTS], usage.USAGE], ids=lambda table: table.name)
def test_the_next_batch_makes_up_what_earlier_ones_could_not(spark, tmp_path, told, start, table):
    frames = [raw(spark, of_minutes(batch)) for batch in range(4)]
    pipeline = start()
    pipeline.take(frames[0], 0)
    damage = Damaged(tmp_path / "warehouse", (table,))
    for batch in (1, 2):
        pipeline.take(frames[batch], batch)
        # Once for each batch: what waits behind it is not tried.
        assert len(told) == batch and f"Warning: {table.name} failed: " in told[-1]
        assert pipeline.failures.tables == [table.name]
    damage.mend()
    assert of_folder(tmp_path / "warehouse").failed == [table.name]
    pipeline.take(frames[3], 3)
    assert len(told) == 2 and pipeline.failures.tables == []
    assert of_folder(tmp_path / "warehouse").failed == []
    assert used(pipeline) == [("12:00", 5), ("12:01", 1), ("12:02", 1), ("12:03", 1)]
    assert pipeline.warehouse.read(silver.TABLES[REQUESTS]).count() == 8
    assert pipeline.warehouse.read(latency.TABLE).count() == 0


def test_a_batch_that_is_repeated_makes_up_what_it_could_not_write(spark, tmp_path, told, start):
    """After a kill the stream repeats its batch; a failed table must not have a later one before."""
    pipeline = start()
    pipeline.take(raw(spark, of_minutes(0)), 0)
    damage = Damaged(tmp_path / "warehouse", (silver.TABLES[REQUESTS],))
    pipeline.take(raw(spark, of_minutes(1)), 1)
    damage.mend()
    repeating = start()
    repeating.take(raw(spark, of_minutes(1)), 1)
    repeating.take(raw(spark, of_minutes(2)), 2)
    assert repeating.failures.tables == [] and used(repeating) == ALL_USED


def test_a_folder_that_cannot_be_made_is_made_later_from_all_of_silver(spark, tmp_path, told, start):
    in_the_way = tmp_path / "warehouse" / usage.USAGE.path
    in_the_way.parent.mkdir(parents=True)
    in_the_way.write_text("")
    pipeline = start()
    for batch in range(BATCHES):
        pipeline.take(raw(spark, of_minutes(batch)), batch)
        assert len(told) == batch + 1
    assert pipeline.failures.tables == [usage.USAGE.name]
    in_the_way.unlink()
    pipeline.make_days()
    assert pipeline.failures.tables == [] and used(pipeline) == ALL_USED


def test_a_table_that_is_removed_because_it_failed_is_made_again_from_silver(spark, tmp_path, start):
    pipeline = start()
    pipeline.take(raw(spark, of_minutes(0)), 0)
    Damaged(tmp_path / "warehouse", (usage.USAGE,))
    for batch in (1, 2):
        pipeline.take(raw(spark, of_minutes(batch)), batch)
    shutil.rmtree(tmp_path / "warehouse" / usage.USAGE.path)
    # As in another process.
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    later = start()
    later.make_days()
    assert later.failures.tables == [] and used(later) == ALL_USED


def test_without_anybody_to_tell_an_error_ends_the_batch(spark, warehouse):
    root = Path(warehouse.root)
    (root / "gold").mkdir(parents=True)
    (root / usage.USAGE.path).write_text("")
    with pytest.raises(Exception, match="usage_per_minute"):
        Pipeline(warehouse).take(raw(spark, of_minutes(0)), 0)
    assert not warehouse.exists(FAILED)


def test_a_version_is_blocked_by_an_earlier_one_of_its_table_step_and_writer(warehouse):
    failures = Failures([].append)
    failures.note_version(warehouse, "t", "step", Version("w", 5, 50), OSError("full"))
    assert not failures.is_blocked("t", "step", Version("w", 5, 50))
    assert failures.is_blocked("t", "step", Version("w", 6, 51))
    for table, step, writer in (("u", "step", "w"), ("t", "other", "w"), ("t", "step", "v")):
        assert not failures.is_blocked(table, step, Version(writer, 6, 51))
    failures.note_version(warehouse, "t", "step", Version("w", 6, 51), None)
    again = Failures([].append)
    again.load(warehouse)
    assert again.versions() == [("step", Version("w", 5, 50)), ("step", Version("w", 6, 51))]
    again.version_made(warehouse, {"t"}, "step", Version("w", 5, 50))
    assert again.versions() == [("step", Version("w", 6, 51))]
    assert not again.is_blocked("t", "step", Version("w", 6, 51))

"""Days that are due, and the job that makes them beside a stream."""

import threading
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from pipeline.days import DUE, SLOT, DayJob, Days
from pipeline.formats import REQUESTS
from pipeline.gold.seconds import SECONDS, usage_seconds
from pipeline.run import Pipeline
from pipeline.silver import TABLES
from pipeline.tables import Warehouse
from pipeline.times import Minutes
from tests.pipeline.events import DAY, NOON_MS, raw, record, request

NOON = NOON_MS // 60_000
WITHIN_S = 60


class ScriptedDays(Days):
    """Days whose making is told to the test, and may fail."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.is_made = threading.Event()
        self.error = error

    def make(self, _warehouse: Any) -> None:
        self.is_made.set()
        if self.error is not None:
            raise self.error


class NoWarehouse:
    """A warehouse of which nothing is asked but another one."""

    def beside(self) -> "NoWarehouse":
        return self


def job_of(days: Days) -> DayJob:
    warehouse: Any = NoWarehouse()
    return DayJob(days, warehouse, every_s=0)


def due_days(warehouse: Warehouse) -> list[str]:
    """Return the days that are noted."""
    notes = warehouse.read(DUE).collect() if warehouse.exists(DUE) else []
    return sorted({row["day"] for row in notes})


def test_days_are_made_beside_a_stream_until_it_ends():
    days = ScriptedDays()
    with job_of(days) as job:
        assert days.is_made.wait(WITHIN_S)
        job.check()
    assert all(thread.name != "days" for thread in threading.enumerate())


def test_an_error_of_the_days_is_raised_in_the_stream():
    days = ScriptedDays(ValueError("no day"))
    with job_of(days) as job:
        assert days.is_made.wait(WITHIN_S)
    with pytest.raises(ValueError, match="no day"):
        job.check()


def test_a_day_that_changes_while_it_is_made_is_made_again(spark, warehouse, monkeypatch):
    days, made = Days(), []

    def steps_of(day, minutes, _policy):
        made.append((day, minutes.runs))
        if len(made) == 1:
            days.note(warehouse, [NOON + SLOT])
        return {}

    monkeypatch.setattr("pipeline.days._steps_of", steps_of)
    days.note(warehouse, [NOON])
    days.note(warehouse, [NOON + SLOT - 1])
    assert warehouse.read(DUE).count() == 1
    for due in ([DAY], []):
        days.make(warehouse)
        assert due_days(warehouse) == due
    days.make(warehouse)
    assert made == [
        (DAY, ((NOON, NOON + SLOT - 1),)),
        (DAY, ((NOON + SLOT, NOON + 2 * SLOT - 1),)),
    ]


def test_a_note_of_an_earlier_version_is_for_all_of_its_day(spark, warehouse, monkeypatch):
    made = []
    monkeypatch.setattr(
        "pipeline.days._steps_of", lambda day, minutes, _policy: made.append((day, minutes)) or {}
    )
    warehouse.append(DUE, spark.createDataFrame([(DAY, "n")], "day string, note string"))
    days = Days()
    days.make(warehouse)
    assert made == [(DAY, Minutes.of_day(DAY))] and due_days(warehouse) == []
    days.note(warehouse, [NOON])
    assert [(row["day"], row["slot"]) for row in warehouse.read(DUE).collect()] == [(DAY, NOON // SLOT)]


def test_seconds_are_made_with_the_days_of_changed_minutes_only(spark, warehouse):
    pipeline = Pipeline(warehouse)

    def taken(*at_s):
        """Return the seconds after requests at these times, and those that all of silver makes."""
        first = len(sent)
        sent.extend(at_s)
        rows = [request(at, bytes_in=at) for at in at_s]
        batch = [record(REQUESTS, first + at, each, each["time_ms"]) for at, each in enumerate(rows)]
        pipeline.take(raw(spark, batch), first)
        before = warehouse.newest_version(SECONDS)
        pipeline.make_days()
        assert warehouse.newest_version(SECONDS) == before + 1
        whole = usage_seconds(warehouse.read(TABLES[REQUESTS]))
        return sorted(map(repr, warehouse.read(SECONDS).collect())), sorted(map(repr, whole.collect()))

    sent: list[int] = []
    # The last is late, and one is of a second that is there already.
    for at_s in ((1, 2), (2, 3_600), (90,)):
        found, whole = taken(*at_s)
        assert found == whole
    # A slot that has not changed is left alone.
    warehouse.delete(SECONDS, "minute >= TIMESTAMP '2025-11-21 13:00:00' - INTERVAL 1 MINUTE")
    found, whole = taken(95)
    assert len(found) == len(whole) - 1


def test_a_changed_limit_is_due_until_midnight(spark, warehouse):
    days, midnight = Days(), NOON + 720
    days.note(warehouse, [midnight - 1], until_midnight=True)
    assert [row["slot"] for row in warehouse.read(DUE).collect()] == [midnight // SLOT - 1]
    days.note(warehouse, [midnight - 2 * SLOT], until_midnight=True)
    assert sorted(row["slot"] for row in warehouse.read(DUE).collect()) == [
        midnight // SLOT - 2,
        midnight // SLOT - 1,
    ]

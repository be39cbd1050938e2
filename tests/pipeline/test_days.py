"""Days that are due, and the job that makes them beside a stream."""

import threading
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from pipeline.days import DUE, DayJob, Days
from pipeline.tables import Warehouse

DAY = "2025-11-21"
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

    def make_day(together, day, *_):
        made.append(day)
        if len(made) == 1:
            days.note(together.warehouse, [day])
        return True

    monkeypatch.setattr("pipeline.days._make_day", make_day)
    days.note(warehouse, [DAY])
    days.note(warehouse, [DAY])
    for due in ([DAY], []):
        days.make(warehouse)
        assert due_days(warehouse) == due
    days.make(warehouse)
    assert made == [DAY, DAY]

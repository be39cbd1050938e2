"""The advice of a day: when it is made, and of what."""

from datetime import date, timedelta

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from deltalake import DeltaTable

from pipeline import advice_of_day
from pipeline.formats import REQUESTS
from pipeline.gold import advice, seconds
from pipeline.gold.advice import Policy
from pipeline.run import Pipeline
from pipeline.silver import TABLES
from pipeline.times import Minutes
from tests.pipeline.events import DAY, NOON_MS, raw, record, request, rows_of
from tests.pipeline.everything import rows_of_table

POLICY = Policy(least_minutes=1)
TODAY = date.fromisoformat(DAY)
TOMORROW = date(2025, 11, 22)


def taking(spark, warehouse):
    """Return a function that takes one request for each of these minutes, counted from noon."""
    pipeline, taken = Pipeline(warehouse, POLICY), []

    def take(*minutes):
        events = [request(60 * at + 1, bytes_in=600) for at in minutes]
        rows = [record(REQUESTS, len(taken) + at, each, each["time_ms"]) for at, each in enumerate(events)]
        taken.extend(rows)
        pipeline.take(raw(spark, rows), len(taken))
        noon = NOON_MS // 60_000
        advice_of_day.make_seconds(warehouse, Minutes.of(noon + at for at in minutes))

    return take


def minutes(warehouse):
    """Return the day, the active minutes and the last minute of each row for bytes."""
    rows = warehouse.read(advice.TABLE).where("key = 'producer_byte_rate'").orderBy("date")
    return [(f"{row['date']}"[5:], row["minutes"], f"{row['until']:%H:%M}") for row in rows.collect()]


def test_of_the_present_day_advice_is_made_once_an_hour(spark, warehouse):
    take = taking(spark, warehouse)
    for added, today, found in [
        ((0,), TODAY, ("11-21", 1, "12:00")),
        ((59,), TODAY, ("11-21", 1, "12:00")),
        ((60,), TODAY, ("11-21", 3, "13:00")),
        ((61,), TODAY, ("11-21", 3, "13:00")),
        # The day is over.
        ((62,), TOMORROW, ("11-21", 5, "13:02")),
        # A minute that came late.
        ((1,), TOMORROW, ("11-21", 6, "13:02")),
    ]:
        take(*added)
        advice_of_day.make(warehouse, DAY, POLICY, today)
        assert minutes(warehouse) == [found]


@pytest.mark.parametrize(("rows", "hours"), [(0, 1), (2_999, 1), (3_000, 1), (3_003, 1.001), (30_000, 10)])
def test_of_many_names_advice_is_made_less_often(rows, hours):
    assert advice_of_day.every(rows) == timedelta(hours=hours)


def test_advice_waits_for_as_much_as_its_rows_take(spark, warehouse, monkeypatch):
    # The name has one row, as much as two hours may have.
    monkeypatch.setattr(advice_of_day, "ROWS_AN_HOUR", 0.5)
    take = taking(spark, warehouse)
    for at, found in [(0, "12:00"), (119, "12:00"), (120, "14:00")]:
        take(at)
        advice_of_day.make(warehouse, DAY, POLICY, TODAY)
        assert minutes(warehouse)[0][2] == found


def test_the_day_before_is_made_again_if_it_lacks_its_last_minutes(spark, warehouse):
    take = taking(spark, warehouse)
    take(0)
    advice_of_day.make(warehouse, DAY, POLICY, TODAY)
    take(30)
    advice_of_day.make(warehouse, DAY, POLICY, TODAY)
    take(1_440)
    advice_of_day.make(warehouse, f"{TOMORROW}", POLICY, TOMORROW)
    assert minutes(warehouse) == [("11-21", 2, "12:30"), ("11-22", 1, "12:00")]
    version = DeltaTable(warehouse.path(advice.TABLE)).version()
    advice_of_day.make(warehouse, f"{TOMORROW}", POLICY, TOMORROW)
    assert DeltaTable(warehouse.path(advice.TABLE)).version() == version


def test_seconds_that_an_earlier_version_did_not_make_are_made_from_silver(spark, warehouse):
    take = taking(spark, warehouse)
    take(0, 1, 719)
    before = rows_of_table(DeltaTable(warehouse.path(seconds.SECONDS)))
    # The version that makes seconds began with the last minute.
    warehouse.delete(seconds.SECONDS, "minute < TIMESTAMP '2025-11-21 23:00:00'")
    advice_of_day.make(warehouse, DAY, POLICY, TOMORROW)
    assert rows_of_table(DeltaTable(warehouse.path(seconds.SECONDS))) == before
    assert minutes(warehouse) == [("11-21", 3, "23:59")]


def test_a_day_whose_events_are_gone_keeps_its_advice(spark, warehouse):
    take = taking(spark, warehouse)
    take(0, 1)
    advice_of_day.make(warehouse, DAY, POLICY, TOMORROW)
    for table in (seconds.SECONDS, TABLES[REQUESTS]):
        warehouse.delete(table, f"date = DATE '{DAY}'")
    advice_of_day.make(warehouse, DAY, POLICY, TOMORROW)
    assert rows_of(warehouse.read(advice.TABLE), "key", "minutes") == [("producer_byte_rate", 2)]


def test_a_warehouse_without_requests_has_no_advice(warehouse):
    advice_of_day.make(warehouse, DAY, POLICY, TOMORROW)
    assert not warehouse.exists(advice.TABLE)

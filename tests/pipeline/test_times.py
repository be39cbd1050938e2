"""Sets of minutes, and their conditions."""

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from pyspark.sql import functions as F

from pipeline.times import DAY_US, MINUTE_US, MINUTES_OF_A_DAY, Minutes, day_of, days_of, minute_of, number_of

NOON = 29_395_440
"""2025-11-21 12:00."""


def test_distant_minutes_are_runs_of_their_own():
    assert Minutes.of([]).runs == () and not Minutes.of([])
    assert Minutes.of([NOON]).runs == ((NOON, NOON),)
    changed = {NOON, NOON + 1, NOON + 3, NOON + 500}
    assert Minutes.of(changed).runs == ((NOON, NOON + 1), (NOON + 3, NOON + 3), (NOON + 500, NOON + 500))
    assert set(Minutes.of(changed)) == changed


@pytest.mark.parametrize(
    ("max_runs", "runs"),
    [
        (1, ((0, 19),)),
        (2, ((0, 5), (19, 19))),
        (3, ((0, 1), (5, 5), (19, 19))),
        (4, ((0, 1), (5, 5), (19, 19))),
    ],
)
def test_the_nearest_runs_are_joined_where_there_are_too_many(max_runs, runs):
    assert Minutes.of([0, 1, 5, 19], max_runs).runs == runs


def test_an_event_at_midnight_belongs_to_the_day_before():
    midnight = (NOON // MINUTES_OF_A_DAY + 1) * MINUTES_OF_A_DAY
    last = Minutes.of([midnight - 1])
    assert days_of(last) == ["2025-11-21"]
    assert last.of_rows() == (
        "date IN (DATE '2025-11-21') AND ((minute >= TIMESTAMP '2025-11-21 23:59:00' "
        "AND minute <= TIMESTAMP '2025-11-21 23:59:00'))"
    )
    assert last.of_events() == (
        "date IN (DATE '2025-11-21', DATE '2025-11-22') AND ((time > TIMESTAMP '2025-11-21 23:59:00' "
        "AND time <= TIMESTAMP '2025-11-22 00:00:00'))"
    )


@pytest.mark.parametrize("day", [-25_567, -1, 0, 1, 20_413])
def test_minutes_and_days_of_times_are_exact(spark, day):
    """Before 1970 too. The minute of an event ends with its time."""
    begin = day * DAY_US
    at = [begin - 1, begin, begin + 1, begin + 1_000, begin + 1_001, begin + MINUTE_US, begin + DAY_US - 1]
    time = F.timestamp_micros("us")
    found = spark.createDataFrame([(us,) for us in at], "us bigint").select(
        "us",
        F.unix_date(day_of(time)).alias("day"),
        F.unix_micros(minute_of(time)).alias("minute_us"),
        number_of(minute_of(time)).alias("number"),
        F.unix_date(F.to_date(time)).alias("day_by_spark"),
        F.unix_micros(F.date_trunc("minute", time - F.expr("INTERVAL 1 MILLISECOND"))).alias("by_spark_us"),
    )
    for row in found.collect():
        assert row["day"] == row["us"] // DAY_US == row["day_by_spark"]
        assert row["number"] == (row["us"] - 1_000) // MINUTE_US
        assert row["minute_us"] == row["number"] * MINUTE_US == row["by_spark_us"]

"""Stretches of minutes and days."""

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from pipeline.times import days, stretches


@pytest.mark.parametrize(
    ("minutes", "found"),
    [
        ([], []),
        (["12:00"], [("12:00", "12:00")]),
        (["12:01", "12:00", "13:01"], [("12:00", "13:01")]),
        (["12:00", "13:01"], [("12:00", "12:00"), ("13:01", "13:01")]),
        (["12:00", "13:00"], [("12:00", "13:00")]),
        (["08:00", "08:01", "12:00"], [("08:00", "08:01"), ("12:00", "12:00")]),
    ],
)
def test_minutes_an_hour_apart_are_made_together_and_those_beyond_alone(minutes, found):
    day = "2025-11-21"
    assert list(stretches(f"{day} {each}:00" for each in minutes)) == [
        (f"{day} {first}:00", f"{day} {last}:00") for first, last in found
    ]


def test_days_are_counted_with_both_ends():
    assert days("2025-12-31 23:59:00", "2026-01-01 00:00:00") == {"2025-12-31", "2026-01-01"}
    assert days("2026-01-01 00:00:00", "2026-01-01 23:59:00") == {"2026-01-01"}

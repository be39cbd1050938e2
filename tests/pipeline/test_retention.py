"""How long rows are kept: whole days, by layer."""

from datetime import date

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from pipeline import silver
from pipeline.formats import QUOTA_CHANGES, REQUESTS
from pipeline.gold import usage
from pipeline.gold.seconds import SECONDS
from pipeline.loss import POSITIONS
from pipeline.retention import Retention
from pipeline.sources import EVENTS

TODAY = date(2026, 3, 31)


def test_each_layer_has_its_days():
    keeps = Retention()
    assert keeps.first_kept(EVENTS, TODAY) == date(2026, 3, 24)
    assert keeps.first_kept(silver.TABLES[REQUESTS], TODAY) == date(2026, 3, 1)
    assert keeps.first_kept(usage.USAGE, TODAY) == date(2025, 2, 24)


@pytest.mark.parametrize(("days", "first"), [(-1, None), (0, None), (1, date(2026, 3, 30))])
def test_no_days_and_less_are_for_ever(days, first):
    assert Retention(bronze=days).first_kept(EVENTS, TODAY) == first


def test_quota_rules_are_kept_as_long_as_the_minutes_that_need_them():
    keeps = Retention(silver=1, gold=10)
    for table in (silver.TABLES[QUOTA_CHANGES], silver.SNAPSHOTS):
        assert keeps.first_kept(table, TODAY) == keeps.first_kept(usage.USAGE, TODAY)


def test_seconds_are_kept_as_long_as_events():
    keeps = Retention(silver=1, gold=10)
    assert keeps.first_kept(SECONDS, TODAY) == keeps.first_kept(silver.TABLES[REQUESTS], TODAY)


def test_a_table_without_days_is_kept():
    assert Retention().first_kept(POSITIONS, TODAY) is None

"""Cumulative values that come in several batches: gold is what all of them together give."""

from datetime import timedelta

import pytest

from pipeline.failures import Failures
from pipeline.gold.client_metrics import LOOK_BACK, TABLE, client_metrics_per_minute
from pipeline.otlp import tables, totals
from pipeline.otlp.points import CUMULATIVE
from pipeline.otlp.totals import KEPT, LAST_TOTALS, Known
from tests.pipeline.events import raw, rows_of
from tests.pipeline.pushes import counter, distribution, histogram, number, payload, push

COLUMNS = ("metric", "minute", "increase", "last", "points", "count", "sum", "bucket_counts")
DAY = int(LOOK_BACK / timedelta(minutes=1))


def outputs(name, *minutes, second=1):
    """Return a counter whose total is the square of the minute, from the minute 0 on."""
    points = [number(60 * minute + second, minute**2 + second, start=0) for minute in minutes]
    return counter(name, *points, temporality=CUMULATIVE)


def durations(name, *minutes):
    points = [
        distribution(60 * each + 2, [each, 2 * each], [5.0], start=0, sum=each * 1.0) for each in minutes
    ]
    return histogram(name, *points, temporality=CUMULATIVE)


class Batches:
    """Takes pushes into a warehouse, batch by batch, and knows which of them had to search silver."""

    def __init__(self, spark, warehouse, monkeypatch):
        self.spark, self.warehouse = spark, warehouse
        self.number = 0
        self.searched = []
        search = tables._make_from_silver

        def noted(*arguments):
            self.searched.append(self.number)
            search(*arguments)

        monkeypatch.setattr(tables, "_make_from_silver", noted)

    def take(self, *metrics, number=None, second=120):
        batch = self.number if number is None else number

        def write(warehouse, table, rows, part):
            return warehouse.append_once(table, rows, f"test:{part}", batch) is not None

        rows = raw(self.spark, [push(batch, payload(*metrics), second)])
        tables.take(self.warehouse, rows, write, Failures())
        self.number += 1

    def gold(self):
        return rows_of(self.warehouse.read(TABLE), *COLUMNS)

    def expected(self):
        there = {kind: table for kind, table in tables.TABLES.items() if self.warehouse.exists(table)}
        points = {kind: self.warehouse.read(table) for kind, table in there.items()}
        return rows_of(client_metrics_per_minute(points), *COLUMNS)


@pytest.fixture
def batches(spark, warehouse, monkeypatch):
    return Batches(spark, warehouse, monkeypatch)


def test_in_whatever_order_totals_come_gold_is_what_all_of_them_give(batches):
    batches.take(outputs("c", 0, 2, 3, 4, 5, 6), durations("h", 0, 3))
    batches.take(outputs("c", 6, 7, second=30), durations("h", 7))
    # Later than the next total; of the last two minutes at once with a new one.
    batches.take(outputs("c", 5, 8, second=40), durations("h", 5))
    assert batches.gold() == batches.expected()
    # The only totals before it are no longer kept.
    batches.take(outputs("c", 1))
    assert batches.gold() == batches.expected()
    # Another client's clock is ahead by more minutes than are kept.
    batches.take(outputs("ahead", *range(40, 41 + KEPT)), outputs("c", 9))
    batches.take(outputs("ahead", 47), outputs("c", 10))
    assert batches.gold() == batches.expected()
    assert batches.searched == [0, 3]


def test_what_came_before_is_not_searched_for(batches):
    batches.take(outputs("c", *range(7)), durations("h", 1, 2))
    for kind in ("sum", "histogram"):
        batches.warehouse.delete(tables.TABLES[kind], "true")
    batches.take(outputs("c", 7), durations("h", 8))
    # After a kill the batch is repeated, and finds its own totals.
    before = batches.gold()
    batches.take(outputs("c", 7), durations("h", 8), number=1)
    assert batches.gold() == before
    assert [row for row in before if row[1] in ("12:07", "12:08")] == [
        ("c", "12:07", 13.0, 50.0, 1, None, None, None),
        ("h", "12:08", None, None, 1, 18, 6.0, [6, 12]),
    ]
    assert batches.searched == [0]
    kept = batches.warehouse.read(LAST_TOTALS)
    assert rows_of(kept.selectExpr("metric", "size(totals) AS kept"), "metric", "kept") == [
        ("c", KEPT),
        ("h", 3),
    ]


def test_the_table_is_made_from_a_warehouse_of_before_it(batches):
    batches.take(outputs("c", 0, 1))
    batches.warehouse.overwrite(LAST_TOTALS, batches.warehouse.read(LAST_TOTALS).limit(0))
    batches.take(outputs("c", 2))
    assert batches.gold() == batches.expected()
    assert batches.searched == [0, 1]
    kept = batches.warehouse.read(LAST_TOTALS).selectExpr("size(totals) AS kept")
    assert rows_of(kept, "kept") == [(3,)]


def test_series_that_have_ended_are_removed(batches):
    batches.take(outputs("ended", 0))
    batches.take(outputs("there", 2 * DAY), second=2 * DAY * 60)
    totals.remove_ended(batches.warehouse)
    assert batches.warehouse.read(LAST_TOTALS).count() == 2
    batches.take(outputs("there", 2 * DAY + 1), second=2 * DAY * 60)
    totals.remove_ended(batches.warehouse)
    assert rows_of(batches.warehouse.read(LAST_TOTALS), "metric") == [("there",)]


@pytest.mark.parametrize(("first", "is_covered"), [(49, False), (50, False), (51, True)])
def test_a_minute_after_the_oldest_that_is_kept_is_covered(first, is_covered):
    assert Known(newest=60, oldest_kept=50).covers(first) is is_covered
    assert Known(newest=60, oldest_kept=None).covers(first)


@pytest.mark.parametrize(("first", "is_near"), [(-1, False), (0, True), (1, True)])
def test_a_minute_that_is_a_day_before_the_newest_is_still_near(first, is_near):
    known = Known(newest=DAY, oldest_kept=None)
    assert known.is_near(first) is is_near and known.covers(first) is is_near

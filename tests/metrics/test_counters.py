"""Counter, Gauge, Histogram."""

from math import isnan

import pytest

from broker.metrics.counters import LATENCY_MS, SIZE_BYTES, Counter, Gauge, Histogram

START = 1_700_000_000_000


def test_counters_and_gauges_begin_at_zero_and_are_plain_numbers():
    counter, gauge = Counter(), Gauge()
    counter.value += 3
    gauge.value = -2
    assert (counter.value, gauge.value) == (3, -2)


def test_an_upper_bound_belongs_to_its_bucket():
    histogram = Histogram(bounds=(1.0, 10.0))
    for value in (0.99, 1.0, 1.01, 10.0, 10.01):
        histogram.record(value)
    assert histogram.counts == [2, 2, 1]
    assert histogram.count == 5
    assert histogram.total == pytest.approx(23.01)


def test_a_quantile_is_linear_within_its_bucket():
    histogram = Histogram(bounds=(10.0, 20.0, 40.0))
    for value in (5, 15, 15, 30):
        histogram.record(value)
    assert histogram.quantile(0.25) == 10
    assert histogram.quantile(0.5) == 15
    assert histogram.quantile(0.75) == 20
    assert histogram.quantile(1.0) == 40


def test_beyond_the_last_bound_only_that_bound_is_known():
    histogram = Histogram(bounds=(10.0,))
    histogram.record(1_000_000)
    assert histogram.quantile(0.5) == 10


def test_an_empty_histogram_has_no_quantile():
    assert isnan(Histogram().quantile(0.5))
    assert isnan(Histogram().recent_quantiles((0.5,), START)[0])


def test_recent_quantiles_forget_after_five_minutes():
    histogram = Histogram(bounds=(10.0, 20.0))
    assert isnan(histogram.recent_quantiles((0.5,), START)[0])
    histogram.record(5)
    for minute in range(1, 6):
        assert histogram.recent_quantiles((1.0,), START + minute * 60_000) == [10]
    histogram.record(15)
    assert histogram.recent_quantiles((0.0, 1.0), START + 359_999) == [0, 20]
    assert histogram.recent_quantiles((0.0, 1.0), START + 360_000) == [10, 20]


def test_who_asks_seldom_is_told_of_everything_since():
    histogram = Histogram(bounds=(10.0, 20.0))
    histogram.recent_quantiles((0.5,), START)
    histogram.record(5)
    assert histogram.recent_quantiles((1.0,), START + 86_400_000) == [10]


def test_the_ready_made_bounds_ascend():
    for bounds in (LATENCY_MS, SIZE_BYTES):
        assert list(bounds) == sorted(set(bounds))

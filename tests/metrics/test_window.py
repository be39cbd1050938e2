"""SampledStat: when a sample is full, when it expires, and the subclasses' results."""

from math import isnan

import pytest

from broker.metrics.rate import Avg, Max, SampledStat, Window

START = 1_700_000_000_000
TWO_SECONDS = Window(samples=2, window_ms=1_000)


def live_samples(stat: SampledStat) -> int:
    """The number of samples with at least one event."""
    return sum(1 for count in stat._counts if count)


def test_a_sample_is_full_after_exactly_one_window():
    for gap_ms, samples in ((999, 1), (1_000, 2), (1_001, 2)):
        stat = SampledStat(TWO_SECONDS)
        stat.record(1, START)
        stat.record(1, START + gap_ms)
        assert live_samples(stat) == samples, gap_ms


def test_a_sample_is_forgotten_when_its_last_event_is_exactly_all_windows_ago():
    for age_ms, total in ((1_999, 1.0), (2_000, 0.0), (2_001, 0.0)):
        stat = SampledStat(TWO_SECONDS)
        stat.record(1, START)
        assert stat.measure(START + age_ms) == total, age_ms


def test_age_counts_from_the_last_event_and_not_from_the_beginning_of_the_sample():
    stat = SampledStat(TWO_SECONDS)
    stat.record(1, START)
    stat.record(1, START + 900)
    assert stat.measure(START + 2_899) == 2
    assert stat.measure(START + 2_900) == 0


@pytest.mark.parametrize(("gap_ms", "live"), [(2_500, 0), (1_500, 1)])
def test_a_sample_outside_the_monitored_window_is_purged_and_one_that_overlaps_it_is_kept(gap_ms, live):
    stat = SampledStat(TWO_SECONDS)
    stat.record(1, START)
    stat.measure(START + gap_ms)
    assert live_samples(stat) == live


def test_one_sample_more_than_asked_for_is_kept_for_the_overlap():
    stat = SampledStat(TWO_SECONDS)
    for at_ms in (0, 999, 1_100, 2_099, 2_200):
        stat.record(1, START + at_ms)
    assert stat.measure(START + 2_200) == 5
    assert live_samples(stat) == 3


def test_the_ring_reuses_its_oldest_sample():
    stat = SampledStat(TWO_SECONDS)
    for second in range(4):
        stat.record(10**second, START + second * 1_000)
    assert stat.measure(START + 3_000) == 1_100
    assert stat.oldest_start(START + 3_000) == START + 2_000


def test_taking_back_what_was_recorded_leaves_the_sum_of_the_rest():
    stat = SampledStat(TWO_SECONDS)
    stat.record(70, START)
    stat.record(30, START + 10)
    stat.record(-30, START + 20)
    assert stat.measure(START + 20) == 70


def test_a_clock_that_steps_back_neither_loses_nor_keeps_a_sample_too_long():
    stat = SampledStat(TWO_SECONDS)
    stat.record(5, START)
    stat.record(7, START - 500)
    assert stat.measure(START + 1_499) == 12
    assert stat.measure(START + 1_500) == 0


@pytest.mark.parametrize("kind", [Max, Avg])
def test_nothing_to_see_is_not_a_number(kind: type[SampledStat]):
    stat = kind(TWO_SECONDS)
    assert isnan(stat.measure(START))
    assert stat.measure_or_zero(START) == 0.0
    stat.record(1, START)
    assert stat.measure(START + 1_999) == 1
    assert isnan(stat.measure(START + 2_000))


def test_nothing_to_add_up_is_zero():
    stat = SampledStat(TWO_SECONDS)
    stat.record(50, START)
    assert stat.measure(START + 2_000) == 0


def test_extremes_and_mean_look_over_all_samples():
    stats = Max(TWO_SECONDS), Avg(TWO_SECONDS)
    for stat in stats:
        for second, value in enumerate((5.0, -1.0, 2.0)):
            stat.record(value, START + second * 1_000)
    # The first event is exactly two windows old.
    assert [stat.measure(START + 2_000) for stat in stats] == [2.0, 0.5]


def test_the_recent_windows_are_summed_since_the_first_of_them_began():
    stat = SampledStat(Window(samples=11, window_ms=1_000))
    for second in range(5):
        stat.record(10, START + second * 1_000)
        stat.record(1, START + second * 1_000 + 500)
    now_ms = START + 4_500
    assert stat.recent(now_ms, 3) == (33.0, 6, 2_500)
    assert stat.recent(now_ms + 499, 3) == (33.0, 6, 2_999)
    # A window that began three windows ago is no longer one of them.
    assert stat.recent(now_ms + 500, 3) == (22.0, 4, 2_000)
    assert stat.measure(now_ms) == 55


def test_the_recent_windows_last_at_least_one_window():
    stat = SampledStat(TWO_SECONDS)
    assert stat.recent(START, 3) == (0.0, 0, 1_000)
    stat.record(7, START)
    for age_ms, elapsed_ms in ((999, 1_000), (1_000, 1_000), (1_001, 1_001)):
        assert stat.recent(START + age_ms, 3) == (7.0, 1, elapsed_ms)

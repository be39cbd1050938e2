"""Buckets that grow with the value: the exact error of quantiles."""

import random

import pytest

from broker.metrics.histogram import (
    BUCKET_OF,
    BUCKETS,
    LINEAR,
    RECENT_MS,
    SNAPSHOT_EVERY_MS,
    RecentHistogram,
    bucket_of,
    merged,
    no_counts,
    quantiles,
    top_of,
)


def counts_of(*values: int) -> list[int]:
    counts = no_counts()
    for value in values:
        counts[bucket_of(value)] += 1
    return counts


def test_buckets_follow_each_other_without_a_gap() -> None:
    assert [bucket_of(n) for n in range(16)] == list(range(16))
    for bucket in range(BUCKETS - 1):
        assert bucket_of(top_of(bucket)) == bucket
        assert bucket_of(top_of(bucket) + 1) == bucket + 1


def test_the_table_is_the_function() -> None:
    assert len(BUCKET_OF) == LINEAR
    assert all(BUCKET_OF[n] == bucket_of(n) for n in range(LINEAR))


@pytest.mark.parametrize("n", [2**40 - 1, 2**40, 2**40 + 1, 2**70])
def test_values_of_more_than_forty_bits_are_in_the_last_bucket(n: int) -> None:
    assert bucket_of(n) == BUCKETS - 1


def test_a_quantile_is_never_below_the_true_one_and_less_than_an_eighth_above() -> None:
    chance = random.Random(7)
    for _ in range(200):
        values = sorted(int(chance.lognormvariate(8, 3)) for _ in range(chance.randrange(1, 300)))
        counts = counts_of(*values)
        for q in (0.01, 0.5, 0.75, 0.99, 1.0):
            true = next(v for i, v in enumerate(values, 1) if i >= q * len(values))
            (shown,) = quantiles(counts, (q,)) or ()
            assert true <= shown < max(true, 1) * 9 / 8
            assert true >= 16 or shown == true


def test_the_bound_of_an_eighth_is_nearly_reached() -> None:
    assert quantiles(counts_of(8 << 20), (0.5,)) == [(9 << 20) - 1]


@pytest.mark.parametrize(("q", "shown"), [(0.49, 1), (0.5, 1), (0.51, 3), (1.0, 3)])
def test_a_quantile_is_the_value_that_the_share_does_not_exceed(q: float, shown: int) -> None:
    assert quantiles(counts_of(1, 3), (q,)) == [shown]


def test_nothing_has_no_quantile() -> None:
    assert quantiles(no_counts(), (0.5,)) is None


def test_merged_is_as_if_recorded_together() -> None:
    assert merged([counts_of(1, 2), counts_of(2, 700)]) == counts_of(1, 2, 2, 700)
    assert merged([]) == no_counts()


def test_recent_forgets_what_is_five_minutes_old() -> None:
    recent = RecentHistogram()
    counts = counts_of(5)
    assert recent.of(counts, 0) == counts_of(5)
    counts[bucket_of(9)] += 1
    assert recent.of(counts, RECENT_MS - 1) == counts_of(5, 9)
    assert recent.of(counts, 2 * RECENT_MS - 2) == counts_of(5, 9)
    counts[bucket_of(11)] += 1
    assert recent.of(counts, 2 * RECENT_MS - 1) == counts_of(11)


@pytest.mark.parametrize(("later", "remembered"), [(-1, 1), (0, 2)])
def test_a_look_is_remembered_once_a_minute(later: int, remembered: int) -> None:
    recent = RecentHistogram()
    recent.of(no_counts(), 0)
    recent.of(no_counts(), SNAPSHOT_EVERY_MS + later)
    assert len(recent._snapshots) == remembered

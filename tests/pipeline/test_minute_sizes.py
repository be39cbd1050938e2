"""Estimates of how many events the minutes of a batch have."""

from pipeline.minute_sizes import MinuteSizes


def test_a_first_batch_has_its_own_events():
    assert MinuteSizes().after({1, 2}, 100) == 100


def test_minutes_shared_with_the_last_batch_have_their_part_of_its_events():
    sizes = MinuteSizes()
    sizes.after({1, 2, 3, 4, 5, 6}, 999_999)
    assert sizes.after({6, 7}, 615) == 166_666 + 615


def test_events_of_one_minute_add_up_over_batches():
    sizes = MinuteSizes()
    assert [sizes.after({1}, 100) for _ in range(4)] == [100, 200, 300, 400]


def test_batches_of_other_minutes_are_forgotten():
    sizes = MinuteSizes()
    sizes.after({1}, 1_000_000)
    assert sizes.after({2}, 100) == 100
    assert sizes.after({1}, 100) == 100


def test_a_minute_that_comes_with_every_batch_does_not_let_the_estimate_grow_for_ever():
    sizes = MinuteSizes()
    reported = [sizes.after({0, at}, 100) for at in range(1, 1000)]
    assert max(reported) < 200


def test_a_batch_without_events_has_none():
    sizes = MinuteSizes()
    sizes.after({1}, 5)
    assert sizes.after(set(), 0) == 0
    assert sizes.after({1}, 7) == 7

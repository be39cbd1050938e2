"""The ratio of paired measurements, and its standard error."""

import pytest

from benchmarks.paired import ratio


def test_the_median_of_the_pairs_is_not_the_ratio_of_the_medians() -> None:
    """The machine was four times as fast for the last two pairs; each pair has the same ratio."""
    assert ratio([100, 100, 400, 400], [97, 97, 388, 388]) == (0.97, 0.0)


def test_the_error_falls_with_the_root_of_the_number_of_pairs() -> None:
    few = ratio([1.0] * 4, [0.9, 1.0, 1.0, 1.1])
    many = ratio([1.0] * 400, [0.9, 1.0, 1.0, 1.1] * 100)
    assert few.median == many.median == 1.0
    assert few.error / many.error == pytest.approx(10, rel=0.3)


def test_a_rate_and_a_rate_that_is_missing_are_no_pair() -> None:
    with pytest.raises(ValueError, match="shorter"):
        ratio([1.0, 2.0], [1.0])

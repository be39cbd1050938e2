"""The ratio of paired measurements over several starts, and its standard error."""

import statistics

import pytest

from benchmarks.paired import ratio


def test_each_start_counts_once_by_the_median_of_its_pairs() -> None:
    assert ratio([[0.97, 0.97, 4.0], [0.97], [0.97, 0.1, 0.97]]) == (0.97, 0.0)


def test_the_error_falls_with_the_root_of_the_number_of_starts() -> None:
    starts = [[0.9], [1.0], [1.0], [1.1]]
    few, many = ratio(starts), ratio(starts * 100)
    assert few.median == many.median == 1.0
    assert few.error / many.error == pytest.approx(10, rel=0.3)


def test_one_start_has_no_error_to_report() -> None:
    with pytest.raises(statistics.StatisticsError, match="two data points"):
        ratio([[1.0, 2.0]])

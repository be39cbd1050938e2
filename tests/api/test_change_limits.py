"""Requests that change many resources: the entries and outcomes of a finished command are freed in slices."""

import gc
from itertools import pairwise

import pytest

from broker.api.requests.change_limits import FREED_AT_ONCE, results_of
from broker.common.slices import SLICE


class Part:
    """An entry of a command, or its outcome."""

    def __init__(self, number: int) -> None:
        self.number = number


def alive() -> int:
    return sum(type(each) is Part for each in gc.get_objects())


@pytest.mark.parametrize(
    "count",
    [0, 1, FREED_AT_ONCE - 1, FREED_AT_ONCE, FREED_AT_ONCE + 1, SLICE - 1, SLICE, SLICE + 1, 4 * SLICE],
)
def test_entries_and_outcomes_are_freed_a_few_at_a_time(count: int) -> None:
    entries, outcomes = list(map(Part, range(count))), list(map(Part, range(count)))
    work = results_of(lambda part: part.number, outcomes, entries)
    left = [alive()]
    assert left == [2 * count]
    while True:
        try:
            next(work)
        except StopIteration as end:
            results = end.value
            break
        left.append(alive())
    del work
    left.append(alive())
    assert results == list(range(count)) and entries == outcomes == []
    assert left[-1] == 0
    freed = [before - after for before, after in pairwise(left)]
    assert max(freed) <= SLICE + FREED_AT_ONCE


def test_without_entries_or_outcomes_there_is_no_pause() -> None:
    assert list(results_of(repr, [], [])) == []

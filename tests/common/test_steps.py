"""The largest items, sorted ones, and freed objects, with pauses."""

from collections.abc import Callable, Generator, Iterable
from heapq import nlargest
from random import Random
from typing import Any, TypeVar

import pytest

from broker.common.steps import (
    FREED_AT_ONCE,
    MEASURED_AT_ONCE,
    MERGED_AT_ONCE,
    PIECE,
    Pace,
    freed,
    nlargest_in_steps,
    sorted_in_steps,
)

T = TypeVar("T")


def run(steps: Generator[None, None, list[T]]) -> tuple[list[T], int]:
    """Return the result and the number of pauses."""
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, pauses
        pauses += 1


@pytest.mark.parametrize("most", [0, 1, 10, 199, 200, 201])
def test_they_are_those_that_sorting_would_find(most: int) -> None:
    random = Random(most)
    items = [(random.randrange(50), number) for number in range(200)]
    found, _ = run(nlargest_in_steps(most, items, lambda item: item[0]))
    assert found == nlargest(most, items, key=lambda item: item[0])


def test_of_nothing_there_is_nothing() -> None:
    assert run(nlargest_in_steps(5, [], float)) == ([], 0)


def test_there_is_a_pause_every_few_items() -> None:
    assert run(nlargest_in_steps(3, range(10 * MEASURED_AT_ONCE), float))[1] == 10


@pytest.mark.parametrize(
    ("count", "pauses"),
    [(0, 0), (1, 1), (FREED_AT_ONCE - 1, 1), (FREED_AT_ONCE, 1), (FREED_AT_ONCE + 1, 2)],
)
@pytest.mark.parametrize("container", [list, set, dict.fromkeys])
def test_so_many_objects_are_freed_between_two_pauses(
    count: int, pauses: int, container: Callable[[Iterable[object]], Any]
) -> None:
    objects = container(object() for _ in range(count))
    assert len(list(freed(objects))) == pauses
    assert len(objects) == 0


def test_a_piece_ends_with_its_last_element() -> None:
    pace = Pace()
    assert [pace.spent() for _ in range(PIECE + 1)] == [False] * (PIECE - 1) + [True, False]
    assert [pace.spent(PIECE - 2), pace.spent(1), pace.spent(1)] == [False, True, False]


@pytest.mark.parametrize(
    ("size", "pauses"),
    [
        (0, 0),
        (PIECE - 1, 0),
        (PIECE, 1),
        (PIECE + 1, 2),
        (MERGED_AT_ONCE, MERGED_AT_ONCE // PIECE),
        # Each element of a larger one counts again where the runs are merged.
        (MERGED_AT_ONCE + 1, MERGED_AT_ONCE // PIECE + 1 + MERGED_AT_ONCE // PIECE),
    ],
)
def test_names_are_sorted_in_pieces(size: int, pauses: int) -> None:
    names = [f"{number:06}" for number in range(size)]
    shuffled = Random(1).sample(names, size)
    assert run(sorted_in_steps(shuffled, Pace())) == (names, pauses)

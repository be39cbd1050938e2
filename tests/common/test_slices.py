"""Slices of work by the clock; the largest items, sorted ones, and freed objects, with pauses."""

from collections.abc import Callable, Generator, Iterable
from heapq import nlargest
from random import Random
from typing import Any, TypeVar

import pytest

from broker.common import slices
from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import (
    FIRST_S,
    FIRST_STEPS,
    PAUSE,
    SLICE,
    SLICE_S,
    Slices,
    SliceTimer,
    advance,
    begin,
    freed,
    nlargest_in_steps,
    run_through,
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


def test_there_is_a_pause_after_each_item() -> None:
    assert run(nlargest_in_steps(3, range(10), float))[1] == 10


@pytest.mark.parametrize("count", [0, 1, 2, 1_000])
@pytest.mark.parametrize("container", [list, set, dict.fromkeys])
def test_each_object_is_freed_in_a_step_of_its_own(
    count: int, container: Callable[[Iterable[object]], Any]
) -> None:
    objects = container(object() for _ in range(count))
    assert len(list(freed(objects))) == count
    assert len(objects) == 0


@pytest.mark.parametrize(
    ("size", "pauses"),
    [
        (0, 0),
        (1, 1),
        (SLICE, 1),
        # Each element of more than one run counts again where the runs are merged.
        (SLICE + 1, 2 + SLICE + 1),
        (10 * SLICE, 10 + 10 * SLICE),
    ],
)
def test_names_are_sorted_in_runs(size: int, pauses: int) -> None:
    names = [f"{number:06}" for number in range(size)]
    shuffled = Random(1).sample(names, size)
    assert run(sorted_in_steps(shuffled)) == (names, pauses)


class Clock:
    """Stands for the module `time`; the work moves it."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(slices, "time", clock)
    return clock


def work(clock: Clock, count: int, seconds: float) -> Slices[int]:
    for _ in range(count):
        clock.now += seconds
        yield None
    return count


@pytest.mark.parametrize(
    ("seconds", "steps"),
    [(SLICE_S / 4 * 0.99, 5), (SLICE_S / 4, 4), (SLICE_S / 4 * 1.01, 4), (SLICE_S, 1), (10 * SLICE_S, 1)],
)
def test_a_slice_ends_with_the_step_that_uses_it_up(clock: Clock, seconds: float, steps: int) -> None:
    running = work(clock, 100, seconds)
    assert advance(running) is None
    assert clock.now == pytest.approx(steps * seconds)


def test_a_slice_that_ends_the_work_raises_its_result(clock: Clock) -> None:
    with pytest.raises(StopIteration) as end:
        advance(work(clock, 3, SLICE_S / 10))
    assert end.value.value == 3


@pytest.mark.parametrize(
    ("seconds", "steps"),
    [
        (SLICE_S / FIRST_STEPS / 2, 2 * FIRST_STEPS),
        (SLICE_S / FIRST_STEPS, FIRST_STEPS),
        (FIRST_S / FIRST_STEPS * 0.99, FIRST_STEPS),
        (FIRST_S / FIRST_STEPS * 2, FIRST_STEPS // 2),
        (FIRST_S, 1),
    ],
)
def test_the_first_slice_of_a_request_has_some_steps_unless_they_take_long(
    clock: Clock, seconds: float, steps: int
) -> None:
    assert begin(work(clock, 1_000, seconds * 1.000001)) is None
    assert round(clock.now / seconds) == steps


def test_a_pause_ends_a_slice_and_is_nothing_to_who_runs_all(clock: Clock) -> None:
    def pausing() -> Slices[str]:
        clock.now += SLICE_S / 10
        yield PAUSE
        clock.now += SLICE_S / 10
        return "done"

    for run_slice in (advance, begin):
        clock.now = 0
        running = pausing()
        assert run_slice(running) is None
        assert clock.now == SLICE_S / 10
        with pytest.raises(StopIteration) as end:
            run_slice(running)
        assert end.value.value == "done"
    assert run_through(pausing()) == "done"


class Failing:
    def run(self) -> None:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE)


def forgiving() -> Slices[str]:
    try:
        yield Failing()
    except ApiError as error:
        return error.code.name
    return ""


def test_the_work_of_a_thread_ends_a_slice_and_its_error_goes_into_the_work(clock: Clock) -> None:
    running = forgiving()
    failing = advance(running)
    assert failing is not None
    with pytest.raises(StopIteration) as end:
        advance(running, ApiError(ErrorCode.CORRUPT_MESSAGE))
    assert end.value.value == "CORRUPT_MESSAGE"
    assert run_through(forgiving()) == "CORRUPT_MESSAGE"


def test_a_timer_ends_a_slice_and_begins_the_next(clock: Clock) -> None:
    timer = SliceTimer()
    ended = []
    for quarter in range(1, 9):
        clock.now = quarter * SLICE_S / 4
        if timer.is_over():
            ended.append(quarter)
    assert ended == [4, 8]

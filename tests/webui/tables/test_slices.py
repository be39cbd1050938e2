"""Long work leaves the thread to others every SLICE_S."""

from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import chain
from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from broker.common import slices as common_slices
from broker.common.slices import SLICE
from tests.webui.polls import Polls, WorkClock
from webui.tables import slices
from webui.tables.slices import (
    MAX_PAUSE_S,
    SLICE_S,
    collect,
    collect_by_key,
    consumed,
    free_in_slices,
    run_in_slices,
    sort_in_slices,
    yield_to_others,
)


def work(work_clock: WorkClock, count: int, seconds: float) -> Iterator[int]:
    for each in range(count):
        work_clock.now += seconds
        yield each


async def test_short_work_is_done_at_once(work_clock: WorkClock, polls: Polls) -> None:
    polls.since()
    assert await collect(work(work_clock, 5, SLICE_S / 10)) == [0, 1, 2, 3, 4]
    assert polls.since() == 0


@pytest.mark.parametrize(("each", "pauses"), [(0.99, 0), (1.0, 1), (1.01, 1)])
async def test_others_have_their_turn_as_soon_as_a_slice_is_used_up(
    work_clock: WorkClock, polls: Polls, each: float, pauses: int
) -> None:
    polls.since()
    await collect(work(work_clock, 16, each * SLICE_S / 16 + 1e-12))
    assert polls.since() == pauses


async def test_a_request_of_many_turns_is_answered_before_the_next_slice(mock_clock: MockClock) -> None:
    """While MAX_PAUSE_S has not passed: the mock clock stands still."""
    done: list[str] = []

    async def request() -> None:
        for _ in range(20):
            await trio.lowlevel.checkpoint()
        done.append("answered")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(request)
        await yield_to_others()
        done.append("slice")
    assert done == ["answered", "slice"]


@pytest.mark.parametrize(("tenths", "waited"), [(9, 9), (10, 10), (11, 10), (1_000, 10)])
async def test_a_broker_that_is_never_idle_does_not_hold_the_console_up(
    mock_clock: MockClock, tenths: int, waited: int
) -> None:
    """Of MAX_PAUSE_S."""
    gone = 0

    async def busy() -> None:
        nonlocal gone
        for _ in range(tenths):
            mock_clock.jump(MAX_PAUSE_S / 10)
            gone += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(busy)
        await yield_to_others()
        # A turn may be under way when the time is over.
        assert waited <= gone <= min(waited + 1, tenths)
        nursery.cancel_scope.cancel()


async def test_ten_thousand_rows_leave_space_for_others(work_clock: WorkClock, polls: Polls) -> None:
    polls.since()
    # 8 us each: 80 ms in all, and never more than a slice and a row of it in one piece.
    assert await collect(work(work_clock, 10_000, 8e-6)) == list(range(10_000))
    assert polls.since() >= 0.08 / (SLICE_S + 8e-6)


async def test_one_item_at_a_time_where_one_may_take_long(work_clock: WorkClock, polls: Polls) -> None:
    polls.since()
    await collect(work(work_clock, 5, SLICE_S))
    assert polls.since() == 5


async def test_nothing_yet_takes_time_and_is_no_item(work_clock: WorkClock, polls: Polls) -> None:
    polls.since()
    found = await collect(None if each % 16 else each for each in work(work_clock, 160, SLICE_S / 16))
    assert found == list(range(0, 160, 16))
    assert polls.since() >= 9


async def test_thousands_are_put_in_order_and_others_have_their_turns(
    work_clock: WorkClock, polls: Polls
) -> None:
    items = [Random(number).randrange(500) for number in range(3_000)]

    def key(item: int) -> int:
        work_clock.now += 8e-6
        return item // 10

    polls.since()
    assert await sort_in_slices([*items, None], key) == sorted(items, key=lambda item: item // 10)
    assert polls.since() >= 3_000 * 8e-6 / (SLICE_S + 8e-6)


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 1_000])
@pytest.mark.parametrize("descending", [False, True])
async def test_long_lists_are_sorted_in_slices_as_at_once(count: int, descending: bool) -> None:
    """Equal ones stay as they stand, in either direction."""
    dice = Random(count)
    items = [(dice.randrange(20), at) for at in range(count)]
    found = await sort_in_slices(items, lambda item: item[0], descending=descending)
    assert found == sorted(items, key=lambda item: item[0], reverse=descending)


async def test_long_lists_are_freed_in_slices(monkeypatch: pytest.MonkeyPatch, polls: Polls) -> None:
    monkeypatch.setattr(common_slices, "SLICE_S", 0.0)
    monkeypatch.setattr(common_slices, "FIRST_STEPS", 0)
    long, short = list(range(1_600)), list(range(SLICE))
    polls.since()
    await free_in_slices({"long": long, "short": short}, None, b"bytes")
    assert (len(long), len(short)) == (0, SLICE)
    assert polls.since() >= 1_600


@pytest.mark.parametrize("container", [set, dict.fromkeys])
@pytest.mark.parametrize(("count", "left"), [(SLICE, SLICE), (SLICE + 1, 0)])
async def test_long_sets_and_dictionaries_are_emptied_in_slices(
    monkeypatch: pytest.MonkeyPatch,
    polls: Polls,
    count: int,
    left: int,
    container: Callable[[Iterable[int]], Any],
) -> None:
    monkeypatch.setattr(common_slices, "SLICE_S", 0.0)
    monkeypatch.setattr(common_slices, "FIRST_STEPS", 0)
    owned = container(range(count))
    polls.since()
    await free_in_slices(owned)
    assert len(owned) == left
    assert polls.since() >= count - left


async def test_a_dictionary_is_made_in_slices_and_the_last_of_equal_keys_stays(
    work_clock: WorkClock, polls: Polls
) -> None:
    polls.since()
    found = await collect_by_key(chain([None], work(work_clock, 3_000, 8e-6)), lambda item: item // 2)
    assert found == {number // 2: number for number in range(1, 3_000, 2)}
    assert polls.since() >= 3_000 * 8e-6 / (SLICE_S + 8e-6)


async def test_a_generators_result_is_found_in_slices(monkeypatch: pytest.MonkeyPatch, polls: Polls) -> None:
    def steps() -> Generator[None, None, str]:
        for _ in range(30):
            yield
        return "done"

    monkeypatch.setattr(common_slices, "SLICE_S", 0.0)
    monkeypatch.setattr(common_slices, "FIRST_STEPS", 0)
    polls.since()
    assert await run_in_slices(steps()) == "done"
    assert polls.since() >= 30


def test_trios_private_function_is_still_its_public_one() -> None:
    """`slices` says why it does not import trio.testing."""
    assert slices.wait_all_tasks_blocked is trio.testing.wait_all_tasks_blocked


async def test_the_clock_is_read_where_there_is_no_item_yet(work_clock: WorkClock, polls: Polls) -> None:
    """Sixteen groups with 128 offsets each between two readings took 4 ms."""

    def rows() -> Iterator[int | None]:
        for number in range(10):
            for _ in range(4):
                work_clock.now += SLICE_S
                yield None
            yield number

    polls.since()
    assert await collect(rows()) == list(range(10))
    assert polls.since() >= 40


def test_what_is_consumed_is_freed_on_the_way() -> None:
    items = list(range(5))
    left = []
    for item in consumed(items):
        left.append((item, len(items)))
    assert left == [(0, 4), (1, 3), (2, 2), (3, 1), (4, 0)]

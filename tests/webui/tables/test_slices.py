"""Long work leaves the thread to others every SLICE_S."""

from collections.abc import Iterator

import pytest
import trio

from webui.tables import slices
from webui.tables.slices import AT_ONCE, SLICE_S, gathered


class Polls(trio.abc.Instrument):
    """How often the loop has asked the kernel who has sent something, since the last time one looked."""

    def __init__(self) -> None:
        self._count = 0

    def before_io_wait(self, timeout: float) -> None:
        self._count += 1

    def since(self) -> int:
        count, self._count = self._count, 0
        return count


class Clock:
    """The thread's time, moved by the work that is done."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(slices, "time", clock)
    return clock


@pytest.fixture
async def polls() -> Polls:
    polls = Polls()
    await trio.lowlevel.checkpoint()
    trio.lowlevel.add_instrument(polls)
    return polls


def work(clock: Clock, count: int, seconds: float) -> Iterator[int]:
    for each in range(count):
        clock.now += seconds
        yield each


async def test_short_work_is_done_at_once(clock: Clock, polls: Polls) -> None:
    polls.since()
    assert await gathered(work(clock, 5, SLICE_S / 10)) == [0, 1, 2, 3, 4]
    assert polls.since() == 0


@pytest.mark.parametrize(("each", "pauses"), [(0.99, 0), (1.0, 1), (1.01, 1)])
async def test_others_have_their_turn_as_soon_as_a_slice_is_used_up(
    clock: Clock, polls: Polls, each: float, pauses: int
) -> None:
    polls.since()
    await gathered(work(clock, AT_ONCE, each * SLICE_S / AT_ONCE + 1e-12))
    assert polls.since() == pauses


async def test_ten_thousand_rows_leave_room_for_others(clock: Clock, polls: Polls) -> None:
    polls.since()
    # 8 us each: 80 ms in all, and never more than a slice and 16 rows of it in one piece.
    assert await gathered(work(clock, 10_000, 8e-6)) == list(range(10_000))
    assert polls.since() >= 0.08 / (SLICE_S + AT_ONCE * 8e-6)

"""A reaper sleeps exactly until its earliest deadline, and asks for deadlines only before it sleeps."""

import heapq

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.network.clock import TrioClock
from broker.network.reaper import Reaper


class Deadlines:
    def __init__(self, clock: TrioClock) -> None:
        self.clock = clock
        self.waiting: list[int] = []
        self.fired: list[int] = []
        self.asked = 0
        self.started = clock.ms()
        self.reaper = Reaper("test", self.next, self.fire, clock)
        self.after_fire: dict[int, int] = {}
        """Delays that `fire` adds, by the time at which it does."""

    def add(self, delay_ms: int) -> None:
        deadline_ms = self.clock.ms() + delay_ms
        heapq.heappush(self.waiting, deadline_ms)
        self.reaper.wake_by(deadline_ms)

    def next(self) -> int | None:
        self.asked += 1
        return self.waiting[0] if self.waiting else None

    def fire(self, now_ms: int) -> None:
        while self.waiting and self.waiting[0] <= now_ms:
            heapq.heappop(self.waiting)
            self.fired.append(now_ms - self.started)
        added = self.after_fire.pop(now_ms - self.started, None)
        if added is not None:
            self.add(added)


async def test_deadlines_fire_on_their_millisecond_in_their_order(autojump_clock: MockClock) -> None:
    deadlines = Deadlines(TrioClock())
    for delay in (30, 10, 20):
        deadlines.add(delay)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(deadlines.reaper.run)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert deadlines.fired == [10, 20, 30]


async def test_an_earlier_deadline_fires_on_its_millisecond_and_a_later_one_waits(
    mock_clock: MockClock,
) -> None:
    deadlines = Deadlines(TrioClock())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(deadlines.reaper.run)
        await wait_all_tasks_blocked()
        for delay in (500, 100, 900):
            deadlines.add(delay)
            await wait_all_tasks_blocked()
        for step, fired in ((0.099, 0), (0.001, 1), (0.399, 1), (0.001, 2), (0.399, 2), (0.001, 3)):
            mock_clock.jump(step)
            await wait_all_tasks_blocked()
            assert len(deadlines.fired) == fired
        nursery.cancel_scope.cancel()
    assert deadlines.fired == [100, 500, 900]


async def test_an_added_deadline_asks_for_no_other(mock_clock: MockClock) -> None:
    deadlines = Deadlines(TrioClock())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(deadlines.reaper.run)
        await wait_all_tasks_blocked()
        for delay in (500, 100, 900, 1):
            deadlines.add(delay)
            await wait_all_tasks_blocked()
        assert deadlines.asked == 1
        nursery.cancel_scope.cancel()


async def test_a_deadline_that_is_due_when_it_is_added_fires_at_once(mock_clock: MockClock) -> None:
    deadlines = Deadlines(TrioClock())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(deadlines.reaper.run)
        await wait_all_tasks_blocked()
        for delay in (0, -5, -2_000_000_000_000):
            deadlines.add(delay)
            await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert deadlines.fired == [0, 0, 0]


async def test_deadlines_that_its_own_turn_adds_fire_on_their_millisecond(autojump_clock: MockClock) -> None:
    deadlines = Deadlines(TrioClock())
    deadlines.after_fire = {10: 0, 20: 3}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(deadlines.reaper.run)
        await wait_all_tasks_blocked()
        for delay in (10, 20, 40):
            deadlines.add(delay)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert deadlines.fired == [10, 10, 20, 23, 40]


async def test_a_deadline_added_before_the_turn_of_another_is_not_lost(
    mock_clock: MockClock,
) -> None:
    """The sleep is over, and the reaper's task has not run yet."""
    deadlines = Deadlines(TrioClock())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(deadlines.reaper.run)
        await wait_all_tasks_blocked()
        deadlines.add(10)
        await wait_all_tasks_blocked()
        mock_clock.jump(0.010)
        for delay in (-3, 0, 5):
            deadlines.add(delay)
        await wait_all_tasks_blocked()
        assert deadlines.fired == [10, 10, 10]
        mock_clock.jump(0.005)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert deadlines.fired == [10, 10, 10, 15]

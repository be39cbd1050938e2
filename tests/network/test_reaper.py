"""A reaper sleeps exactly until its deadline, or wakes earlier when poked."""

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
        self.started = clock.ms()

    def add(self, delay_ms: int) -> None:
        heapq.heappush(self.waiting, self.clock.ms() + delay_ms)

    def next(self) -> int | None:
        return self.waiting[0] if self.waiting else None

    def fire(self, now_ms: int) -> None:
        while self.waiting and self.waiting[0] <= now_ms:
            heapq.heappop(self.waiting)
            self.fired.append(now_ms - self.started)


async def test_deadlines_fire_on_their_millisecond_in_their_order(autojump_clock: MockClock) -> None:
    deadlines = Deadlines(TrioClock())
    reaper = Reaper("test", deadlines.next, deadlines.fire, deadlines.clock)
    for delay in (30, 10, 20):
        deadlines.add(delay)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reaper.run)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert deadlines.fired == [10, 20, 30]


async def test_an_earlier_deadline_wakes_it_and_a_later_one_does_not(mock_clock: MockClock) -> None:
    deadlines = Deadlines(TrioClock())
    reaper = Reaper("test", deadlines.next, deadlines.fire, deadlines.clock)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reaper.run)
        await wait_all_tasks_blocked()
        for delay in (500, 100, 900):
            deadlines.add(delay)
            reaper.poke()
            await wait_all_tasks_blocked()
        for step in (0.099, 0.001, 0.399, 0.001):
            mock_clock.jump(step)
            await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert deadlines.fired == [100, 500]

"""When the broker is killed, its disk is full and its clock is wrong: at random times from the run's seed."""

import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import trio

from benchmarks.soak import wall_clock
from benchmarks.soak.anomalies import Fault
from benchmarks.soak.broker_life import BrokerLives
from benchmarks.soak.disk import Disk
from benchmarks.soak.explanations import BUSY, CLOCK, DISK, KILL
from benchmarks.soak.stage import Stage

FULL_S: Final = (10.0, 40.0)
WRONG_S: Final = (15.0, 60.0)
STEPS_S: Final = (-3_000.0, -1.5, 2.0, 10_800.0, 86_400.0)
"""From a correction by NTP over an administrator's mistake to a day. A broker refuses records that are more
than an hour in its future (message.timestamp.after.max.ms), so it goes back for less.
"""

AWAY_S: Final = (0.0, 3.0)

BUSY_SHARE: Final = 0.5
"""Of its time that the broker waits for a processor. A request then takes a multiple of its usual time."""


def around(minutes: float) -> tuple[float, float]:
    """Return the shortest and the longest time in seconds between two faults."""
    return minutes * 60 * 0.6, minutes * 60 * 1.4


class Faults:
    """One task each for kills, full disks and clock steps; `killed` is called after each restart."""

    def __init__(self, stage: Stage, lives: BrokerLives, disk: Disk, clock: Path) -> None:
        self._stage = stage
        self._lives = lives
        self._disk = disk
        self._clock = clock
        self._space = trio.Lock()
        self._busy: Fault | None = None
        self.counts = {KILL: 0, DISK: 0, CLOCK: 0, BUSY: 0}
        self.kills_end = trio.Event()
        self.damage: Callable[[], None] | None = None
        """Called once, while no broker runs: to try whether the soak finds what is lost."""

    async def kill(self, every_minutes: float, check: Callable[[], Awaitable[None]]) -> None:
        chance = random.Random(f"{self._stage.seed} kills")
        while True:
            with trio.move_on_after(chance.uniform(*around(every_minutes))):
                await self.kills_end.wait()
                return
            fault = self._begin(KILL)
            await trio.to_thread.run_sync(self._lives.kill)
            await trio.sleep(chance.uniform(*AWAY_S))
            if self.damage is not None:
                self.damage()
                self.damage = None
            async with self._space:  # a start needs some
                await trio.to_thread.run_sync(self._lives.start)
            fault.ended = time.monotonic()
            await check()

    async def fill_disk(self, every_minutes: float) -> None:
        chance = random.Random(f"{self._stage.seed} disks")
        while True:
            await trio.sleep(chance.uniform(*around(every_minutes)))
            async with self._space:
                fault = self._begin(DISK)
                with self._disk.full(self._lives.now.broker.process.pid):
                    await trio.sleep(chance.uniform(*FULL_S))
                fault.ended = time.monotonic()

    def note_busy(self, waiting: float) -> None:
        """Take the share of the last seconds in which the broker waited for a processor."""
        if self._busy is None and waiting >= BUSY_SHARE:
            self._busy = self._begin(BUSY)
        elif self._busy is not None and waiting < BUSY_SHARE:
            self._busy.ended = time.monotonic()
            self._busy = None

    async def step_clock(self, every_minutes: float) -> None:
        chance = random.Random(f"{self._stage.seed} clocks")
        while True:
            await trio.sleep(chance.uniform(*around(every_minutes)))
            fault = self._begin(CLOCK)
            wall_clock.set_difference(self._clock, chance.choice(STEPS_S))
            await trio.sleep(chance.uniform(*WRONG_S))
            wall_clock.set_difference(self._clock, 0)
            fault.ended = time.monotonic()

    def _begin(self, kind: str) -> Fault:
        self.counts[kind] += 1
        return self._stage.anomalies.begin(kind, time.monotonic())

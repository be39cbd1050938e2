"""How long the broker's thread works between two looks at the network, in its own time.

An instrument of Trio: between two polls everything that can run is run once. The thread's CPU time is counted
and not the clock's, so a busy machine does not show; nor does what the test itself does in other threads.
"""

import time
from typing import Final

import trio

NS_PER_MS: Final = 1_000_000


class Pieces(trio.abc.Instrument):
    """`longest_ms` since `forget`, and the name of the task that took most of it."""

    def __init__(self) -> None:
        self._began_ns = 0
        self._step_ns = 0
        self._most = (0, "")
        self._longest = (0, "")

    @property
    def longest_ms(self) -> float:
        return self._longest[0] / NS_PER_MS

    @property
    def task(self) -> str:
        return self._longest[1]

    def forget(self) -> None:
        self._longest = (0, "")
        self._began_ns = time.thread_time_ns()

    def after_io_wait(self, timeout: float) -> None:
        self._began_ns = time.thread_time_ns()
        self._most = (0, "")

    def before_io_wait(self, timeout: float) -> None:
        taken = time.thread_time_ns() - self._began_ns
        if taken > self._longest[0]:
            self._longest = (taken, self._most[1])

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._step_ns = time.thread_time_ns()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        taken = time.thread_time_ns() - self._step_ns
        if taken > self._most[0]:
            self._most = (taken, task.name)

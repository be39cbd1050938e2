"""How long Weir holds the thread that it shares with a test, between two looks at the network.

Processor time of Weir's own tasks: the clients and the fakes of the test run beside them, and their steps do
not count. A broker in a process of its own is measured by `measured_broker`.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import trio

from broker.server.interpreter import bounded_collections
from tests.support.machine_speed import slowness

GOAL_MS = 5.0
"""Between two looks at the network."""


class Holds(trio.abc.Instrument):
    """`longest_ms` is the longest hold since `begin`, `task` the task that took most of it."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forget what was."""
        self.longest_ms = 0.0
        self.task = ""
        self._sum = self._began = 0
        self._steps: dict[str, int] = {}

    def before_task_step(self, task: Any) -> None:
        self._began = time.thread_time_ns() if _is_weirs(task) else 0

    def after_task_step(self, task: Any) -> None:
        if self._began:
            took = time.thread_time_ns() - self._began
            self._sum += took
            self._steps[task.name] = self._steps.get(task.name, 0) + took

    def before_io_wait(self, timeout: float) -> None:
        if self._sum > self.longest_ms * 1e6:
            self.longest_ms = self._sum / 1e6
            self.task = max(self._steps, key=lambda name: self._steps[name])
        self._sum = 0
        self._steps.clear()

    @property
    def is_short(self) -> bool:
        """Whether no hold was too long for the present speed of the machine."""
        return self.longest_ms < GOAL_MS or self.longest_ms < GOAL_MS * slowness()


@contextmanager
def measured_holds() -> Iterator[Holds]:
    """Measure until the block is left, with the collections of a running broker."""
    holds = Holds()
    with bounded_collections():
        trio.lowlevel.add_instrument(holds)
        try:
            yield holds
        finally:
            trio.lowlevel.remove_instrument(holds)


def _is_weirs(task: Any) -> bool:
    coroutine = task.coro
    code = getattr(coroutine, "cr_code", None)
    return code is not None and "/broker/" in code.co_filename and "/tests/" not in code.co_filename

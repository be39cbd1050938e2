"""`weir serve` with instrumentation: `python -m benchmarks.watched FILE serve [--override=...]`.

Started by benchmarks.console. Once a second it appends a line of JSON to FILE: the processor time of the
console's tasks, and the longest piece of it between two polls of the event loop, the most that a Kafka
client may have to wait for. The instrumentation costs more than a small request, so latencies are measured
without it.
"""

import json
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

import trio

from broker.__main__ import main as weir
from broker.server.web import WEB_SERVER

EVERY_S: Final = 1.0


class Inside(trio.abc.Instrument):
    """Measures processor time of the thread, not wall time, so that other processes do not count."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_console: WeakKeyDictionary[trio.lowlevel.Task, bool] = WeakKeyDictionary()
        self._begin()
        self._step_from = 0
        self._turn_ns = 0

    def _begin(self) -> None:
        self._since = time.monotonic()
        self._console_ns = self._longest_turn_ns = self._longest_step_ns = self._steps = 0
        self._longest: str = ""
        self._by_task: Counter[str] = Counter()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._step_from = time.thread_time_ns()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if not self._belongs(task):
            return
        ns = time.thread_time_ns() - self._step_from
        self._console_ns += ns
        self._turn_ns += ns
        self._steps += 1
        self._by_task[task.name] += ns
        if ns > self._longest_step_ns:
            self._longest_step_ns, self._longest = ns, task.name

    def before_io_wait(self, timeout: float) -> None:
        self._longest_turn_ns = max(self._longest_turn_ns, self._turn_ns)
        self._turn_ns = 0
        seconds = time.monotonic() - self._since
        if seconds >= EVERY_S:
            self._write(seconds)
            self._begin()

    def _belongs(self, task: trio.lowlevel.Task) -> bool:
        known = self._is_console.get(task)
        if known is None:
            nursery = task.parent_nursery
            parent = None if nursery is None else nursery.parent_task
            known = task.name == WEB_SERVER or (parent is not None and self._belongs(parent))
            self._is_console[task] = known
        return known

    def _write(self, seconds: float) -> None:
        line: dict[str, Any] = {
            "seconds": seconds,
            "console_ms": self._console_ns / 1e6,
            "steps": self._steps,
            "longest_turn_ms": self._longest_turn_ns / 1e6,
            "longest_step_ms": self._longest_step_ns / 1e6,
            "longest_step": self._longest,
            "by_task_ms": {name: ns / 1e6 for name, ns in self._by_task.most_common(8)},
        }
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    trio.run = partial(trio.run, instruments=[Inside(Path(sys.argv.pop(1)))])  # type: ignore[assignment]
    weir()

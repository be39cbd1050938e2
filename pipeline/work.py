"""What a batch is doing, and how long that may take: the text of `progress` while `run` works.

Pure but for a lock; `run` and `streaming` tell it what begins and ends, in any thread.
"""

import time
from collections.abc import Callable
from threading import Lock
from typing import Final

BEGIN: Final = "Reading events"


class Work:
    """The steps of the batch that runs, with their records. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._name = BEGIN
        self._began_s: float | None = None
        self._todo: dict[str, int] = {}
        self._running: list[str] = []
        self._done = 0
        self._seconds = 0.0
        self._records = 0
        self._behind = 0

    def begin(self, name: str, records: dict[str, int]) -> None:
        """A batch begins; its steps have so many records each."""
        with self._lock:
            self._name, self._todo, self._running, self._done = name, dict(records), [], 0
            self._began_s = self._clock()

    def end(self) -> None:
        """The batch has ended."""
        with self._lock:
            if self._began_s is not None:
                self._seconds += self._clock() - self._began_s
                self._records += sum(self._todo.values())
            self._name, self._began_s = "Waiting for events", None

    def step_begins(self, step: str) -> None:
        with self._lock:
            self._running.append(step)

    def step_ends(self, step: str) -> None:
        with self._lock:
            self._running.remove(step)
            self._done += self._todo.get(step, 0)

    def is_doing(self, name: str) -> None:
        """Something begins of which no records are counted."""
        with self._lock:
            self._name, self._began_s = name, None

    def is_behind(self, records: int) -> None:
        """So many records are waiting after this batch."""
        with self._lock:
            self._behind = records

    def text(self) -> str:
        """Return the batch, the steps that run with their records, and the time that is left."""
        with self._lock:
            if self._began_s is None:
                return self._name
            total = sum(self._todo.values())
            steps = ", ".join(f"{_short(step)} {self._todo.get(step, 0):,}" for step in self._running)
            parts = [f"{self._name}: {self._done:,} of {total:,} records done"]
            parts += [f"now {steps}"] if steps else []
            parts += [f"{self._behind:,} behind"] if self._behind else []
            left_s = self._left_s(self._clock() - self._began_s, total)
            parts += [] if left_s is None else [f"about {_in_words(left_s)} left"]
        return "; ".join(parts)

    def _left_s(self, elapsed_s: float, total: int) -> float | None:
        """Estimate by the batches before this one, or else by this one's steps; None without either."""
        if self._records:
            a_record_s = self._seconds / self._records
            return max(total * a_record_s - elapsed_s, 0.0) + self._behind * a_record_s
        if not self._done:
            return None
        return elapsed_s * (total - self._done + self._behind) / self._done


def _short(step: str) -> str:
    return step.removeprefix("__weir_")


def _in_words(seconds: float) -> str:
    if seconds < 60:
        return f"{max(round(seconds), 1)} s"
    if seconds < 3_600:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3_600:.1f} h"

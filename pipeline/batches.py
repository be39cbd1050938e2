"""Lets work beside a stream wait while a batch runs. For `streaming`, `schedule` and `days`.

People wait for the rows of a batch, but not for a compaction or the tables of a day. A stream that always has
events is never idle, so the wait has a limit: such work goes on, a step at a time.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition
from typing import Final

MOST_S: Final = 30.0
"""The longest wait for one step. Maintenance has some ninety steps an hour, so it ends within the hour."""


class Batches:
    """Knows whether a batch runs; for any number of threads. Without a stream none does."""

    def __init__(self, most_s: float = MOST_S) -> None:
        self._most_s = most_s
        self._running = 0
        self._changed = Condition()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Say that a batch runs while the block does, also if it fails."""
        with self._changed:
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def wait(self) -> bool:
        """Return when no batch runs, at the latest after `most_s`; then return False if one still runs."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._running, self._most_s)

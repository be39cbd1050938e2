"""What a command is doing, for a person at a terminal and for a log. Of `command`, and of `make` by
deploy.shown; needs Python alone.

A terminal has one line that is rewritten every second, and above it lines that stay. Elsewhere, as in a log,
the first stage is a line at once; after that a line tells what is done at most once a minute. Neither has an
escape sequence: what is left of a longer line is overwritten by spaces.
"""

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

TICK_S: Final = 1.0
LOG_EVERY_S: Final = 60.0


class Progress:
    """The output of one process. `clock` gives seconds."""

    def __init__(
        self,
        out: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        is_terminal: bool | None = None,
    ) -> None:
        self._out = sys.stdout if out is None else out
        self._clock = clock
        is_dumb = os.environ.get("TERM", "dumb") == "dumb"
        self._is_terminal = (self._out.isatty() and not is_dumb) if is_terminal is None else is_terminal
        self._lock = threading.RLock()
        self._what: Callable[[], str] | None = None
        self._began_s = 0.0
        self._width = 0
        self._told_s: float | None = None
        self._waiting: str | None = None

    @contextmanager
    def stage(self, what: str | Callable[[], str]) -> Iterator[None]:
        """Show what the block does, with the seconds that it has taken."""
        ended = threading.Event()
        with self._lock:
            self._what = (lambda: what) if isinstance(what, str) else what
            self._began_s = self._clock()
            self.tick()

        def run() -> None:
            while not ended.wait(TICK_S):
                self.tick()

        thread = threading.Thread(target=run, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            with self._lock:
                self._clear()
                self._what = None

    def tick(self) -> None:
        """Show how far the stage is; `stage` calls it every second."""
        with self._lock:
            if self._is_terminal:
                self._draw()
            elif self._may_tell():
                self._tell(self._waiting or self._now())

    def line(self, text: str) -> None:
        """Write a line that stays."""
        with self._lock:
            self._clear()
            self._write(f"{text}\n")
            self._draw()

    def often(self, text: str) -> None:
        """Write a line of which there may be many: on a terminal each, in a log the last one of a minute."""
        with self._lock:
            if self._is_terminal:
                self.line(text)
            elif self._may_tell():
                self._tell(text)
            else:
                self._waiting = text

    def flush(self) -> None:
        """Write the last line that was held back."""
        with self._lock:
            if self._waiting is not None:
                self._tell(self._waiting)

    def _may_tell(self) -> bool:
        return self._told_s is None or self._clock() - self._told_s >= LOG_EVERY_S

    def _tell(self, text: str) -> None:
        if text:
            self._waiting = None
            self._told_s = self._clock()
            self._write(f"{text}\n")

    def _now(self) -> str:
        if self._what is None:
            return ""
        seconds = int(self._clock() - self._began_s)
        return f"{self._what()} ({seconds} s)" if seconds else self._what()

    def _draw(self) -> None:
        if self._is_terminal and self._what is not None:
            columns = shutil.get_terminal_size().columns
            text = self._now()[: max(columns - 1, 1)]
            self._write(f"\r{text:<{self._width}}")
            self._width = len(text)

    def _clear(self) -> None:
        if self._width:
            self._write(f"\r{'':<{self._width}}\r")
            self._width = 0

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()

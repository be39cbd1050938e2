"""`weir` with an instrument that measures the processor time between two looks at the network.

Run as `python -m tests.support.measured_broker FILE weir serve ...`. Every pass of Trio's loop ends in a look
at the network, so the processor time of the longest pass is the longest time for which the broker's own work
keeps all clients waiting, whatever else runs on the machine. It stands in FILE, which the test maps too.
"""

import mmap
import struct
import sys
import time
from pathlib import Path
from typing import Any, Final, Self

import trio

LAYOUT: Final = struct.Struct("<QQQ96s")


class LongestPass:
    """What FILE holds, in either process: nanoseconds of the longest pass and of the longest step of one task
    in it, how many passes there were, and the name of that task.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(LAYOUT.size))
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), LAYOUT.size)

    def read(self) -> tuple[float, float, int, str]:
        """Milliseconds of the longest pass and of its longest step, the number of passes, and the task."""
        passed, step, passes, name = LAYOUT.unpack_from(self._shared)
        return passed / 1e6, step / 1e6, passes, name.rstrip(b"\0").decode()

    def write(self, passed: int, step: int, passes: int, name: str) -> None:
        LAYOUT.pack_into(self._shared, 0, passed, step, passes, name.encode()[:96])

    def begin(self) -> Self:
        """Forgets what was."""
        self.write(0, 0, 0, "")
        return self


class PassTimer(trio.abc.Instrument):
    """Only in the measured process."""

    def __init__(self, shared: LongestPass) -> None:
        self._shared = shared
        self._begun = self._step = 0
        self._longest: tuple[int, str] = (0, "")

    def after_io_wait(self, timeout: float) -> None:
        self._begun = time.thread_time_ns()
        self._longest = (0, "")

    def before_task_step(self, task: Any) -> None:
        self._step = time.thread_time_ns()

    def after_task_step(self, task: Any) -> None:
        took = time.thread_time_ns() - self._step
        if took > self._longest[0]:
            self._longest = (took, task.name)

    def before_io_wait(self, timeout: float) -> None:
        if not self._begun:
            return
        passed = time.thread_time_ns() - self._begun
        known, step, passes, name = LAYOUT.unpack_from(self._shared._shared)
        if passed > known:
            known, (step, name) = passed, self._longest
            self._shared.write(known, step, passes + 1, name)
        else:
            struct.pack_into("<Q", self._shared._shared, 16, passes + 1)


def main() -> None:
    path, *command = sys.argv[1:]
    sys.argv = command
    timer = PassTimer(LongestPass(Path(path)))
    run = trio.run

    def measured(*args: Any, instruments: Any = (), **options: Any) -> Any:
        return run(*args, instruments=(*instruments, timer), **options)

    trio.run = measured
    from broker.__main__ import main as weir

    weir()


if __name__ == "__main__":
    main()

"""A process and its descendants: their memory and processor time, of Linux's /proc.

Used by benchmarks.pipeline, whose runs are a JVM and Python's workers.
"""

import contextlib
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

LOOKS_EVERY_S: Final = 0.25
TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Watched:
    """A process and its descendants: their peak memory in total (proportional set, bytes) and their
    processor seconds.
    """

    pid: int
    peak: int = 0
    peaks: dict[str, int] = field(default_factory=dict)
    cpu_s: float = 0.0
    _ended: threading.Event = field(default_factory=threading.Event)
    _cpu: dict[int, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def watching(self) -> Iterator["Watched"]:
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(LOOKS_EVERY_S):
            told: dict[str, int] = {}
            for pid in family(self.pid):
                with contextlib.suppress(OSError, IndexError):
                    name, memory, self._cpu[pid] = looked_at(pid)
                    told[name] = told.get(name, 0) + memory
            if sum(told.values()) > self.peak:
                self.peak, self.peaks = sum(told.values()), told
            self.cpu_s = sum(self._cpu.values())


def family(pid: int) -> list[int]:
    found = [pid]
    for each in found:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{each}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
    return found


def looked_at(pid: int) -> tuple[str, int, float]:
    """Return name, resident bytes with shared pages counted once, and processor seconds."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    memory = int(re.findall(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)[0]) * 1024
    head, _, rest = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")
    fields = rest.split()
    return head.partition("(")[2], memory, (int(fields[11]) + int(fields[12])) / TICKS


def processor_s() -> float:
    """Return the processor seconds of this process and its present descendants."""
    total = 0.0
    for pid in family(os.getpid()):
        with contextlib.suppress(OSError, IndexError):
            total += looked_at(pid)[2]
    return total

"""Returns the memory of very large frames to the system in pieces.

The kernel needs up to 0.3 ms to take back a MiB, so that all connections would wait 20 ms for the end of a
request of 100 MB. `ServerResources` creates one `Unmapping` per server; the frame pool gives its mappings to
it, and a task of the socket server shrinks them.
"""

from mmap import mmap
from typing import Final

from broker.common.clock import Clock
from broker.network.reaper import Reaper

PIECE: Final = 2 * 1024 * 1024
"""Bytes unmapped before other tasks run; ours."""


class Unmapping:
    """Mappings that are being returned. A mapping that a memoryview still refers to ends with it."""

    def __init__(self, clock: Clock, task_name_prefix: str = "") -> None:
        self._mappings: list[mmap] = []
        self.reaper = Reaper(f"{task_name_prefix}frame-unmapping-reaper", self._next, self._unmap, clock)

    def begin(self, mapping: mmap) -> None:
        """Return the mapping, which the caller no longer uses."""
        self._mappings.append(mapping)
        self.reaper.poke()

    @property
    def left(self) -> int:
        """The bytes still mapped."""
        return sum(map(len, self._mappings))

    def _next(self) -> int | None:
        return 0 if self._mappings else None

    def _unmap(self, _now_ms: int) -> None:
        if not self._mappings:
            return
        mapping = self._mappings[-1]
        size = len(mapping)
        try:
            if size > PIECE:
                mapping.resize(size - PIECE)
                return
            mapping.close()
        except (BufferError, OSError):
            pass
        self._mappings.pop()

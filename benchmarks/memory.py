"""Warm memory for a load that writes: pages that the host of this virtual machine has really allocated.

Used by benchmarks.run, benchmarks.gateway and benchmarks.paired around a load. The kernel reports memory
that is free for two seconds to the host, which takes it back; the first write to such a page then costs four
to six times the copy itself (measured: 1,380 us of processor time for 1 MB, 330 with warm pages). Memory that
was touched and freed before a load is cold again before the load ends. So it is held here, and freed as the
load takes it.
"""

import contextlib
import mmap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

STEP: Final = 1 << 21  # of huge pages, which are freed whole
AHEAD: Final = 128 << 20  # bytes freed before they are taken: a tenth of a second of the fastest load
TICK_S: Final = 0.01
IDLE_BYTES: Final = 256 << 20  # for a load that does not write: socket buffers, heaps


def memory_figure(name: str) -> int:
    """Return a figure of /proc/meminfo in bytes: MemFree is not even page cache, MemAvailable may be."""
    with Path("/proc/meminfo").open(encoding="ascii") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def free_memory() -> int:
    return memory_figure("MemFree:")


class WarmPages:
    """Touched memory of `size` bytes, rounded up; `keep_free` frees as much as others have taken since."""

    def __init__(self, size: int, free: Callable[[], int] = free_memory) -> None:
        self._pages = mmap.mmap(-1, -(-size // STEP) * STEP, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with contextlib.suppress(OSError):
            self._pages.madvise(mmap.MADV_HUGEPAGE)
        touched = b"\1" * STEP
        for _ in range(0, len(self._pages), STEP):
            self._pages.write(touched)
        self._free = free
        self._level = free() + AHEAD
        self.freed = 0

    def keep_free(self) -> int:
        """Return the bytes freed now: 0 when enough is free, or nothing is left."""
        lack = self._level - self._free()
        size = min(max(-(-lack // STEP), 0) * STEP, len(self._pages) - self.freed)
        if size:
            self._pages.madvise(mmap.MADV_DONTNEED, self.freed, size)
            self.freed += size
        return size

    def close(self) -> None:
        self._pages.close()


@contextlib.contextmanager
def warm_memory(size: int) -> Iterator[None]:
    """Hold `size` bytes of warm memory, and free it in the block as fast as other processes take memory.

    At most half of what is available is held.
    """
    pages = WarmPages(min(size, memory_figure("MemAvailable:") // 2))
    ended = threading.Event()

    def follow() -> None:
        while not ended.wait(TICK_S):
            pages.keep_free()

    follower = threading.Thread(target=follow)
    pages.keep_free()
    follower.start()
    try:
        yield
    finally:
        ended.set()
        follower.join()
        pages.close()

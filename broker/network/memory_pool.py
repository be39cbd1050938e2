"""Bounds the bytes of requests in memory. (Kafka: MemoryPool, SimpleMemoryPool, KIP-72)

One for all processors of a socket server, if `queued.max.request.bytes` is positive. A processor allocates
before it reads a frame's body; without memory it mutes the channel and does not wait. Counts bytes only; the
frame pool owns the buffers. Independent of clocks and sockets.

Rejected alternatives (KIP-72): a strict pool starves large requests behind a stream of small ones; replacing
`queued.max.requests` would admit many tiny requests; bounding the request channel alone would not bound
requests being received.

`memory_limit` is the memory available to this process: the limit of its control group, or the machine's
memory. (KIP-72 uses the JVM's heap) It is read once, when a socket server is created, from /proc and
/sys/fs/cgroup. Enclosing groups limit a group too, so the lowest limit counts. A container whose own path is
not in the mounted hierarchy finds its limit at the root.
"""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from broker.metrics.rate import Meter, Window

LOW_SHARE: Final = 0.1
"""Memory is low below this share of the pool (Kafka: Selector.lowMemThreshold)."""


class Lease:
    """Memory granted to one frame, to be released exactly once, even if the connection closes."""

    __slots__ = ("_pool", "size")

    def __init__(self, pool: "MemoryPool", size: int) -> None:
        self._pool: MemoryPool | None = pool
        self.size = size


class MemoryPool:
    """`size` bytes in all, at most `largest` per request. Raises ValueError unless 0 < largest <= size.

    Grants any request while a single byte is free, so `available` can fall to `largest - 1` below zero and no
    request starves; a `strict` pool grants only available bytes. At most `size + largest - 1` bytes are in
    use.
    """

    def __init__(self, size: int, largest: int, *, strict: bool = False) -> None:
        if size <= 0 or largest <= 0 or largest > size:
            raise ValueError(
                f"invalid memory pool of {size} bytes, largest {largest}: expected 0 < largest <= size"
            )
        self.size = size
        self.available = size
        self.depleted = Meter(Window(), unit_ms=1.0)
        """Milliseconds without memory: in `total`, and as a share of time (MemoryPoolAvgDepletedPercent)."""
        self._largest = largest
        self._strict = strict
        self._depleted_since_ms: int | None = None

    @property
    def used(self) -> int:
        """Bytes in use. (MemoryPoolUsed)"""
        return self.size - self.available

    @property
    def is_low(self) -> bool:
        """Whether memory can be granted, but little is left."""
        return 0 < self.available < self.size * LOW_SHARE

    def try_allocate(self, size: int, now_ms: int) -> Lease | None:
        """Allocate `size` bytes, or return None if none are free. Raises ValueError unless 1 <= size <=
        largest.
        """
        if not 1 <= size <= self._largest:
            raise ValueError(f"invalid allocation of {size} bytes: expected 1 to {self._largest}")
        if self.available < (size if self._strict else 1):
            if self._depleted_since_ms is None:
                self._depleted_since_ms = now_ms
            return None
        self.available -= size
        self._end_depletion(now_ms)
        return Lease(self, size)

    def release(self, lease: Lease, now_ms: int) -> None:
        """Take memory back. Raises ValueError for a lease of another pool or a released one."""
        if lease._pool is not self:
            raise ValueError("invalid lease: not held from this pool")
        lease._pool = None
        self.available += lease.size
        self._end_depletion(now_ms)

    def account(self, now_ms: int) -> None:
        """Bring `depleted` up to date; call it before reading, while the pool is out of memory."""
        if self._depleted_since_ms is not None:
            self._end_depletion(now_ms)
            self._depleted_since_ms = now_ms

    def _end_depletion(self, now_ms: int) -> None:
        if self._depleted_since_ms is not None:
            self.depleted.record(now_ms - self._depleted_since_ms, now_ms)
            self._depleted_since_ms = None


_V2: Final = ("sys/fs/cgroup", "memory.max")
_V1: Final = ("sys/fs/cgroup/memory", "memory.limit_in_bytes")


def memory_limit(root: Path = Path("/")) -> int:
    """Return the limit in bytes."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min((machine, *_limits(root)))


def _limits(root: Path) -> Iterator[int]:
    """Iterate over the limits of every group of this process, in version 2 and 1."""
    try:
        groups = (root / "proc/self/cgroup").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in groups:
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if not controllers:
            mount, name = _V2
        elif "memory" in controllers.split(","):
            mount, name = _V1
        else:
            continue
        inside = PurePosixPath(path.lstrip("/"))
        for folder in (inside, *inside.parents):
            limit = _read(root / mount / folder / name)
            if limit is not None:
                yield limit


def _read(path: Path) -> int | None:
    """Return a limit, or None if there is none: no file, or the word `max`."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return int(text) if text.isdecimal() and int(text) > 0 else None

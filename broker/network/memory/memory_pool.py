"""How many bytes of requests may be in memory at once. (Kafka: MemoryPool, SimpleMemoryPool, KIP-72)

One for all processors of a socket server, and only if `queued.max.request.bytes` is positive. A processor
asks before it reads a frame's body; without memory it mutes the channel instead of waiting. Keeps the account
and not the buffers, which are the frame pool's. Knows no clock and no socket.

What was considered and left (KIP-72): a strict pool starves large requests behind a stream of small ones;
giving up `queued.max.requests` would let many tiny requests in; bounding the request channel alone would not
bound what is being read.
"""

from typing import Final

from broker.metrics.rate import Meter
from broker.metrics.window import Window

LOW_SHARE: Final = 0.1
"""Below this share of a pool memory is tight (Kafka: Selector.lowMemThreshold)."""


class Lease:
    """Memory granted to one frame, to be released exactly once, whatever becomes of the connection."""

    __slots__ = ("_pool", "size")

    def __init__(self, pool: "MemoryPool", size: int) -> None:
        self._pool: MemoryPool | None = pool
        self.size = size


class MemoryPool:
    """`size` bytes in all, at most `largest` for one request. Raises ValueError unless 0 < largest <= size.

    Grants any request while a single byte is free, so `available` can fall to `largest - 1` below zero and no
    request starves; a `strict` pool grants only what it has. Outstanding is thus never more than `size +
    largest - 1`.
    """

    __slots__ = ("_depleted_since_ms", "_largest", "_strict", "available", "depleted", "size")

    def __init__(self, size: int, largest: int, *, strict: bool = False) -> None:
        if size <= 0 or largest <= 0 or largest > size:
            raise ValueError(f"a pool of {size} bytes that grants {largest} bytes at once is impossible")
        self.size = size
        self.available = size
        self.depleted = Meter(Window(), unit_ms=1.0)
        """Milliseconds without memory: `total`, and as a share of time (MemoryPoolAvgDepletedPercent)."""
        self._largest = largest
        self._strict = strict
        self._depleted_since_ms: int | None = None

    @property
    def used(self) -> int:
        """Bytes outstanding. (MemoryPoolUsed)"""
        return self.size - self.available

    @property
    def is_out_of_memory(self) -> bool:
        """Whether something must be released before anything can be granted."""
        return self.available <= 0

    @property
    def is_low(self) -> bool:
        """Whether something can be granted, and little is left."""
        return 0 < self.available < self.size * LOW_SHARE

    def try_allocate(self, size: int, now_ms: int) -> Lease | None:
        """Memory for `size` bytes, or None if there is none now. ValueError unless 1 <= size <= largest."""
        if not 1 <= size <= self._largest:
            raise ValueError(f"{size} bytes cannot be asked for at once: 1 to {self._largest}")
        if self.available < (size if self._strict else 1):
            if self._depleted_since_ms is None:
                self._depleted_since_ms = now_ms
            return None
        self.available -= size
        self._end_depletion(now_ms)
        return Lease(self, size)

    def release(self, lease: Lease, now_ms: int) -> None:
        """Takes the memory back. ValueError for a lease of another pool or one that was released before."""
        if lease._pool is not self:
            raise ValueError("this lease is not held from this pool")
        lease._pool = None
        self.available += lease.size
        self._end_depletion(now_ms)

    def account(self, now_ms: int) -> None:
        """Brings `depleted` up to this moment, for whoever reads it while memory is out."""
        if self._depleted_since_ms is not None:
            self._end_depletion(now_ms)
            self._depleted_since_ms = now_ms

    def _end_depletion(self, now_ms: int) -> None:
        if self._depleted_since_ms is not None:
            self.depleted.record(now_ms - self._depleted_since_ms, now_ms)
            self._depleted_since_ms = None

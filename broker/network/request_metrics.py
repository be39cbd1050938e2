"""What requests cost, per API: counts, bytes, and how long each phase took. (Kafka: RequestMetrics)

Written by processors as plain adds, read by the console and /metrics. Durations go into power-of-two buckets of
microseconds, so recording one is an index and an add.
"""

from typing import Final

BUCKETS: Final = 36
"""Bucket i holds durations below 2**i microseconds; the last one everything from 9.5 hours up."""


class Phase:
    """A histogram of durations."""

    __slots__ = ("counts", "total_us")

    def __init__(self) -> None:
        self.counts = [0] * BUCKETS
        self.total_us = 0

    def record(self, us: int) -> None:
        self.counts[us.bit_length()] += 1
        self.total_us += us

    @property
    def count(self) -> int:
        return sum(self.counts)

    def quantile_us(self, q: float) -> int:
        """An upper bound of the q-quantile, to the power of two; 0 when nothing was recorded."""
        left = q * self.count
        for i, n in enumerate(self.counts):
            left -= n
            if n and left <= 0:
                return 1 << i
        return 0


class RequestMetrics:
    """One API. `received` to `dequeued` is the request queue, to `handled` the handler (and what it waited for), to `sent`
    the response queue and the first write."""

    __slots__ = ("bytes_in", "bytes_out", "errors", "local", "name", "queue", "requests", "response", "total")

    def __init__(self, name: str) -> None:
        self.name = name
        self.requests = 0
        self.errors = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.queue = Phase()
        self.local = Phase()
        self.response = Phase()
        self.total = Phase()

    def record(self, received: float, dequeued: float, handled: float, sent: float) -> None:
        """Times in seconds of one clock."""
        queue = int((dequeued - received) * 1e6)
        local = int((handled - dequeued) * 1e6)
        total = int((sent - received) * 1e6)
        self.requests += 1
        phase = self.queue
        phase.counts[queue.bit_length()] += 1
        phase.total_us += queue
        phase = self.local
        phase.counts[local.bit_length()] += 1
        phase.total_us += local
        phase = self.total
        phase.counts[total.bit_length()] += 1
        phase.total_us += total

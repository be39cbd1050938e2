"""What requests cost, per API: counts, bytes, and how long each phase took. (Kafka: RequestMetrics)

Written by processors as plain adds, read by the console and /metrics. Durations are nanoseconds and go into
buckets of powers of two, so recording one is an index and an add.
"""

from typing import Final

BUCKETS: Final = 48
"""Bucket i holds durations of i bits, those below 2**i ns; the last one everything from 39 hours up."""


Phase = list[int]
"""Requests by the bit length of their duration."""


class RequestMetrics:
    """One API. From `received` to `dequeued` a request is in the queue, to `handled` with its handler (and
    with what that waited for), to `sent` in the response queue and in its first write. `kept` counts
    requests that the processor answered by heart, which have no phases.
    """

    __slots__ = ("bytes_in", "bytes_out", "errors", "kept", "local", "name", "queue", "total", "total_ns")

    def __init__(self, name: str) -> None:
        self.name = name
        self.errors = 0
        self.kept = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.queue: Phase = [0] * BUCKETS
        self.local: Phase = [0] * BUCKETS
        self.total: Phase = [0] * BUCKETS
        self.total_ns = 0

    @property
    def requests(self) -> int:
        """Requests answered so far."""
        return self.kept + sum(self.total)

    def record(self, received: int, dequeued: int, handled: int, sent: int) -> None:
        """Nanoseconds of one clock, in this order."""
        self.queue[(dequeued - received).bit_length()] += 1
        self.local[(handled - dequeued).bit_length()] += 1
        spent = sent - received
        self.total[spent.bit_length()] += 1
        self.total_ns += spent


def quantile_ns(phase: Phase, q: float) -> int:
    """An upper bound of the q-quantile, to the power of two; 0 when nothing was recorded."""
    left = q * sum(phase)
    for i, n in enumerate(phase):
        left -= n
        if n and left <= 0:
            return 1 << i
    return 0

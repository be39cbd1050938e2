"""The bounded queue of pushes for an OpenTelemetry collector, and its retry delays.

Filled by `broker.telemetry_export.pushes`, emptied by `broker.telemetry_export.otlp`. No socket and no
clock. Concatenated payloads of several clients are one request: OTLP's request is a repeated field, as a
push is.
"""

from collections import deque
from typing import Final

BATCH_BYTES: Final = 1_048_576
"""The size from which a request takes no more pushes; ours, below collectors' default limits."""

FIRST_RETRY_MS: Final = 1_000
LONGEST_RETRY_MS: Final = 30_000

RETRIED: Final = (429, 502, 503, 504)
"""Statuses after which OTLP has a client retry; any other failure drops the batch."""


class Forwarding:
    """A queue of at most `room` bytes. Counters are of pushes since the start."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.waiting_bytes = 0
        self.sent = self.dropped = self.retries = 0
        self._waiting: deque[bytes] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def offer(self, body: bytes) -> None:
        """Add a push without waiting; drop and count it if the queue is full."""
        if self.waiting_bytes + len(body) > self.room:
            self.dropped += 1
            return
        self.waiting_bytes += len(body)
        self._waiting.append(body)

    def take(self) -> list[bytes]:
        """Remove and return the pushes of the next request."""
        batch: list[bytes] = []
        size = 0
        while self._waiting and size < BATCH_BYTES:
            batch.append(self._waiting.popleft())
            size += len(batch[-1])
        self.waiting_bytes -= size
        return batch


def retry_ms(attempt: int, retry_after: str | None) -> int:
    """Return the delay after attempt number `attempt`, from 1.

    It doubles each time, or is the collector's Retry-After, up to our own maximum.
    """
    if retry_after is not None and retry_after.isascii() and retry_after.isdigit():
        return min(int(retry_after[:9]) * 1_000, LONGEST_RETRY_MS)
    return int(min(FIRST_RETRY_MS * 2 ** min(attempt - 1, 10), LONGEST_RETRY_MS))

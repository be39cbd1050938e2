"""What waits to be sent to an OpenTelemetry collector, bounded, and when it is tried again.

Filled by `broker.telemetry_export.pushes`, emptied by `broker.telemetry_export.otlp`. Knows no socket and no
clock. Payloads of several clients are one request when they stand behind each other: OTLP's request is a
repeated field, as what clients push is.
"""

from collections import deque
from typing import Final

BATCH_BYTES: Final = 1_048_576
"""From so many on a request takes up no more pushes; ours, below what collectors take by default."""

FIRST_RETRY_MS: Final = 1_000
LONGEST_RETRY_MS: Final = 30_000

RETRIED: Final = (429, 502, 503, 504)
"""Answers after which OTLP has a client try again; after any other a batch is dropped."""


class Forwarding:
    """`room` in bytes. Counters are of pushes since the start."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.waiting_bytes = 0
        self.sent = self.dropped = self.retries = 0
        self._waiting: deque[bytes] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def offer(self, body: bytes) -> None:
        """Never waits; what there is no room for is dropped and counted."""
        if self.waiting_bytes + len(body) > self.room:
            self.dropped += 1
            return
        self.waiting_bytes += len(body)
        self._waiting.append(body)

    def take(self) -> list[bytes]:
        """The next request's worth."""
        batch: list[bytes] = []
        size = 0
        while self._waiting and size < BATCH_BYTES:
            batch.append(self._waiting.popleft())
            size += len(batch[-1])
        self.waiting_bytes -= size
        return batch


def retry_ms(attempt: int, retry_after: str | None) -> int:
    """How long to wait after the attempt of this number, from 1: twice as long each time, or as long as the
    collector says, which is heeded up to the longest wait of our own.
    """
    if retry_after is not None and retry_after.isascii() and retry_after.isdigit():
        return min(int(retry_after[:9]) * 1_000, LONGEST_RETRY_MS)
    return int(min(FIRST_RETRY_MS * 2 ** min(attempt - 1, 10), LONGEST_RETRY_MS))

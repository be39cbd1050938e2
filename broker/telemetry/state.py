"""The state that handlers and tasks share: the queue of pushes, the queue for a collector, and all parts.

`Telemetry` is made by `broker.server.broker` and passed to the handlers and to readers of metrics. The
handler of PushTelemetry fills the queue of pushes; one task empties it and does the slow work in a thread
(broker.monitoring.otlp). Both queues are bounded, and have no socket and no clock.
"""

import os
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec

from broker.config.sections import TelemetryConfig
from broker.telemetry.instance import ClientInstance, TelemetryClient
from broker.telemetry.latest import LatestValues
from broker.telemetry.manager import TelemetryManager

MAX_WAITING: Final = 512
MAX_WAITING_BYTES: Final = 33_554_432
"""Maximum pushes, and bytes of them, in the queue; ours. A client whose push does not fit retries an
interval later.
"""

BATCH_BYTES: Final = 1_048_576
"""The size from which a request takes no more pushes; ours, below collectors' default limits."""


class Push(msgspec.Struct, frozen=True):
    """A push. `payload` is as received, compressed by `codec`; `token` identifies the pending response."""

    instance: ClientInstance
    client: TelemetryClient
    subscription_id: int
    terminating: bool
    codec: int
    payload: bytes
    wall_ms: int
    token: Any = None


class PushQueue:
    """A bounded FIFO queue of pushes for the receivers."""

    def __init__(self) -> None:
        self.waiting: deque[Push] = deque()
        self.waiting_bytes = 0
        self.peak = 0
        self.dropped = 0
        """Pushes dropped because the queue was full."""
        self._wake: Callable[[], None] = _ignore

    def on_addition(self, wake: Callable[[], None]) -> None:
        """Call `wake` after each addition."""
        self._wake = wake

    def has_space(self, size: int) -> bool:
        """Return whether a push fits; an empty queue accepts any size."""
        if not self.waiting:
            return True
        return len(self.waiting) < MAX_WAITING and self.waiting_bytes + size <= MAX_WAITING_BYTES

    def add(self, push: Push) -> None:
        self.waiting.append(push)
        self.waiting_bytes += len(push.payload)
        self.peak = max(self.peak, len(self.waiting))
        self._wake()

    def take(self) -> Push:
        """Remove and return the next push. The queue must not be empty."""
        push = self.waiting.popleft()
        self.waiting_bytes -= len(push.payload)
        return push


class ExportQueue:
    """A queue of pushes for a collector, of at most `max_bytes`. Counters are of pushes since the start.

    Concatenated pushes of several clients are one request: OTLP's request is a repeated field, as a push is.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.waiting_bytes = 0
        self.sent = self.dropped = self.retries = 0
        self._waiting: deque[bytes] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def offer(self, body: bytes) -> None:
        """Add a push without waiting; drop and count it if the queue is full."""
        if self.waiting_bytes + len(body) > self.max_bytes:
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


class Telemetry:
    def __init__(self, config: TelemetryConfig) -> None:
        self.config = config
        self.latest = LatestValues(config.max_series)
        self.manager = TelemetryManager(config.max_bytes, config.max_instances, self.latest, _random_id)
        self.push_queue = PushQueue()
        self.export_queue = ExportQueue(config.otlp_queue_bytes)


def _random_id() -> bytes:
    return os.urandom(16)


def _ignore() -> None:
    """Stands for a task that does not exist yet."""

"""A valid push, and the bounded queue of pushes for the receivers.

Filled by the handler of PushTelemetry; emptied by one task, which does the slow work in a thread.
Independent of both.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from broker.telemetry.instance import Client, ClientInstance

MAX_WAITING: Final = 512
MAX_WAITING_BYTES: Final = 33_554_432
"""Maximum pushes, and bytes of them, in the queue; ours. A client whose push does not fit retries an
interval later.
"""


@dataclass(frozen=True, slots=True)
class Push:
    """A push. `payload` is as received, compressed by `codec`; `token` identifies the pending response."""

    instance: ClientInstance
    client: Client
    subscription_id: int
    terminating: bool
    codec: int
    payload: bytes
    wall_ms: int
    token: Any = None


class Intake:
    """A FIFO queue."""

    def __init__(self) -> None:
        self.waiting: deque[Push] = deque()
        self.waiting_bytes = 0
        self.peak = 0
        self.dropped = 0
        """Pushes dropped because the queue was full."""
        self._wake: Callable[[], None] = _no_reader

    def read_with(self, wake: Callable[[], None]) -> None:
        """Call `wake` after each addition from now on."""
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


def _no_reader() -> None:
    """Do nothing: no task reads the queue yet."""

"""A push that is in order, and the queue in which it waits for its receivers.

Filled by the handler of PushTelemetry; emptied by one task, which does in a thread what takes time. Knows
neither: only how much may wait.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from broker.telemetry.instance import Client, ClientInstance

MOST_WAITING: Final = 512
MOST_WAITING_BYTES: Final = 33_554_432
"""Pushes, and bytes of them, that may wait at once; ours. A client whose push does not fit tries again an
interval later.
"""


@dataclass(frozen=True, slots=True)
class Push:
    """`payload` is as it came, packed by `codec`; `token` is whom to answer."""

    instance: ClientInstance
    client: Client
    subscription_id: int
    terminating: bool
    codec: int
    payload: bytes
    wall_ms: int
    token: Any = None


class Intake:
    """First come, first served. `wake` is called when something waits."""

    def __init__(self) -> None:
        self.waiting: deque[Push] = deque()
        self.waiting_bytes = 0
        self.peak = 0
        self.dropped = 0
        """Pushes for which there was no room."""
        self.wake: Callable[[], None] = _nobody

    def has_space(self, size: int) -> bool:
        """One push always has, however large."""
        if not self.waiting:
            return True
        return len(self.waiting) < MOST_WAITING and self.waiting_bytes + size <= MOST_WAITING_BYTES

    def add(self, push: Push) -> None:
        self.waiting.append(push)
        self.waiting_bytes += len(push.payload)
        self.peak = max(self.peak, len(self.waiting))
        self.wake()

    def take(self) -> Push:
        """The next one; there must be one."""
        push = self.waiting.popleft()
        self.waiting_bytes -= len(push.payload)
        return push


def _nobody() -> None:
    """Before the task has begun."""

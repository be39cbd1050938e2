"""One session of a client: what it is asked to do, and when it is to end."""

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from benchmarks.soak.clients.teller import Teller

TICK_S: Final = 0.05
EACH_TICK: Final = 4
"""Eighty records a second, about 18 kB/s."""

PATIENCE_S: Final = 300
"""For acknowledgements: a broker that is killed while its disk is full is away for less."""

MOST_IN_HAND: Final = 2_000
"""Records that a throttled client may have sent without an acknowledgement."""

COMMIT_EVERY_S: Final = 1.0
SESSION_TIMEOUT_MS: Final = 10_000


@dataclass(slots=True)
class Session:
    name: str
    """Of the client: its client id, its group if it reads, and the source of its errors."""

    bootstrap: str
    until: float
    """By the monotonic clock."""

    number: int
    """The first record to send."""

    seed: int
    tell: Teller
    _end: threading.Event = field(default_factory=threading.Event)

    def end_with(self, descriptor: int) -> None:
        """End the session when this descriptor does. Blocks."""
        while os.read(descriptor, 1):
            pass
        self._end.set()

    @property
    def goes_on(self) -> bool:
        return time.monotonic() < self.until and not self._end.is_set()

    def ticks(self) -> Iterator[None]:
        """Yield every TICK_S until the session is to end."""
        while self.goes_on and not self._end.wait(TICK_S):
            yield

    def numbers(self, topic: str, count: int) -> range:
        """Return the numbers of the next records, after the soak was told of them."""
        taken = range(self.number, self.number + count)
        self.number = taken.stop
        if count:
            self.tell.sending(topic, self.number)
        return taken


class InHand:
    """The records that a client has sent and whose fate it does not know yet."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def change(self, by: int) -> None:
        with self._lock:
            self.count += by

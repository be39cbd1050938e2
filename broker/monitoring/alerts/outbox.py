"""The notifications that wait for one destination, and their delivery.

One task for each destination sends one request at a time. It sends a batch again when the destination is out
of reach or overloaded, for at most `GIVE_UP_MS`; newer notifications wait in a bounded queue, from which the
oldest goes when it is full. A permanent refusal drops the batch. If cancelled, waiting notifications are
lost.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec
import trio

from broker.common.clock import Clock
from broker.common.http_requests import retry_ms
from broker.controller.rows.alerts import Delivery
from broker.monitoring.alerts.formats import Notification

CAPACITY: Final = 500
"""Notifications that wait; ours. With 100 alerts of a rule, some storms of them."""

BATCH: Final = 64
"""Notifications in one request; ours."""

GIVE_UP_MS: Final = 15 * 60_000
"""How long a batch is sent again; ours. An older alert is of little use, and newer ones wait for it."""

MAX_RETRY_MS: Final = 60_000

RETRIED: Final = (408, 425, 429, 500, 502, 503, 504)
"""Statuses after which a request is sent again."""


class SendResult(msgspec.Struct, frozen=True):
    """`status` 0: there was no response, for this `reason`. `is_final`: sending again would not help.
    `is_temporary`: it may help, whatever the status says to HTTP.
    """

    status: int
    reason: str
    retry_after: str | None = None
    is_final: bool = False
    is_temporary: bool = False

    @property
    def is_delivered(self) -> bool:
        return 200 <= self.status < 300

    @property
    def is_permanent(self) -> bool:
        if self.is_temporary:
            return False
        return self.is_final or (self.status != 0 and not self.is_delivered and self.status not in RETRIED)

    @property
    def text(self) -> str:
        return f"{self.status} {self.reason}".strip() if self.status else self.reason


Send = Callable[[Sequence[Notification]], Awaitable[SendResult]]
"""Sends one request. Never raises for network errors."""

Lost = Callable[[str, int, str], None]
"""Called with undelivered or dropped, the number of notifications, and the reason."""


class Outbox:
    """`most` returns how many notifications go into one request."""

    def __init__(self, send: Send, lost: Lost, clock: Clock, most: Callable[[], int] = lambda: BATCH) -> None:
        self._send = send
        self._most = most
        self._next_attempt_at_ms: int | None = None
        self._lost = lost
        self._clock = clock
        self._waiting: deque[Notification] = deque()
        self._in_flight = self._sent = self._undelivered = self._dropped = 0
        self._problem = ""
        self._last_sent_at_ms: int | None = None
        self._wake = trio.Event()

    @property
    def delivery(self) -> Delivery:
        return Delivery(
            len(self._waiting) + self._in_flight,
            self._sent,
            self._undelivered,
            self._dropped,
            self._problem,
            self._last_sent_at_ms,
            self._next_attempt_at_ms,
        )

    def put(self, notification: Notification) -> None:
        if len(self._waiting) == CAPACITY:
            self._waiting.popleft()
            self._dropped += 1
            self._lost("dropped", 1, f"more than {CAPACITY} notifications wait")
        self._waiting.append(notification)
        self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(self._most(), len(self._waiting)))]
                self._in_flight = len(batch)
                await self._deliver(batch)
                self._in_flight = 0

    async def _deliver(self, batch: Sequence[Notification]) -> None:
        began_ms, attempt = self._clock.ms(), 0
        while True:
            attempt += 1
            result = await self._send(batch)
            if result.is_delivered:
                self._sent += len(batch)
                self._problem = ""
                self._last_sent_at_ms = self._clock.wall_ms()
                return
            self._problem = result.text
            wait_ms = retry_ms(attempt, result.retry_after, MAX_RETRY_MS)
            is_late = self._clock.ms() + wait_ms - began_ms > GIVE_UP_MS
            if result.is_permanent or is_late:
                self._undelivered += len(batch)
                self._lost("undelivered", len(batch), result.text)
                return
            self._next_attempt_at_ms = self._clock.wall_ms() + wait_ms
            await trio.sleep(wait_ms / 1000)
            self._next_attempt_at_ms = None

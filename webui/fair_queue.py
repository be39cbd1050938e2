"""Fair queueing of the console's requests, one queue per client, at a limited rate.

Called by http.request before every request and by http.encryption before every TLS handshake;
webui.security.passwords limits its hashes by the same `RateLimit`. The console shares the interpreter's one
thread with Kafka clients, so its cost must be bounded. All clients share the turns of a token bucket: a
page load is a burst and is served at once; further requests wait, and those that would wait too long are
refused. A client with more concurrent requests than any browser or tool sends gets one turn a second until
its queue is empty.
"""

from enum import Enum
from typing import Final

import trio

TURNS_PER_S: Final = 60
"""A request takes 1 to 2 ms, so at most an eighth of the thread."""

CHANGES_PER_S: Final = 250
"""Changes of quotas by authorised clients have a separate rate. Kafka's protocol limits them only by the
speed of the disk, and automation that follows the load must keep up.
"""

HEALTH_PER_S: Final = 20
HEALTH_BURST: Final = 40
"""Health checks have a separate rate, so that other requests never delay them. A few probes send a few checks
in ten seconds.
"""

BURST: Final = 120
LONGEST_WAIT_S: Final = 10


class RateLimit:
    """The generic cell rate algorithm. Its state is the time (ns) at which all turns given are paid for."""

    __slots__ = ("_burst", "_longest_wait_s", "_paid_at", "_turn_ns")

    def __init__(
        self, per_s: int = TURNS_PER_S, burst: int = BURST, longest_wait_s: int = LONGEST_WAIT_S
    ) -> None:
        self._burst = burst
        self._longest_wait_s = longest_wait_s
        self._paid_at = 0
        self._turn_ns = 1_000_000_000 // per_s

    def take(self) -> float | None:
        """Take a turn and return the seconds to wait for it. Return None if that is too long."""
        now = round(trio.current_time() * 1e9)
        paid_at = max(self._paid_at, now) + self._turn_ns
        wait_ns = max(0, paid_at - now - self._burst * self._turn_ns)
        if wait_ns > self._longest_wait_s * 1_000_000_000:
            return None
        self._paid_at = paid_at
        return wait_ns / 1e9

    async def turn(self) -> bool:
        """Wait for a turn. Return False at once if the wait is too long."""
        wait_s = self.take()
        if wait_s is None:
            return False
        if wait_s > 0:
            await trio.sleep(wait_s)
        return True


MAX_AT_ONCE: Final = 32
"""Requests of one client without a response so far. A browser has six connections to a host, and a tool that
applies a plan sends ten to twenty requests at once.
"""

FLOOD_TURN_S: Final = 1.0
"""Limits a flood to 0.3 % of the thread, so fewer than one in a hundred Kafka requests meets a turn."""

FLOOD_WAIT_S: Final = 60.0
"""Longest wait of a flood's request. A refusal causes a retry, so it is delayed."""


class TurnKind(Enum):
    """The kind of turn that a request takes."""

    PAGE = "page"
    CHANGE = "change"
    """Changes of quotas, by a client with permission."""
    HEALTH = "health"
    """Health checks, which no flood of other requests delays."""


class Turn:
    """The turn of one request: it waits `wait_s`, and is refused afterwards unless `granted`. The caller
    calls `done` when the response begins; later calls have no effect.
    """

    __slots__ = ("_fair_queue", "_queue", "granted", "wait_s")

    def __init__(self, fair_queue: "FairQueue", queue: "_ClientQueue", wait_s: float, granted: bool) -> None:
        self._fair_queue = fair_queue
        self._queue: _ClientQueue | None = queue
        self.wait_s = wait_s
        self.granted = granted

    def done(self) -> None:
        queue, self._queue = self._queue, None
        if queue is not None:
            self._fair_queue.leave(queue)


class _ClientQueue:
    """The requests of one client without a response. `next_at` is the next turn of a flood."""

    __slots__ = ("count", "identity", "next_at")

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.count = 0
        self.next_at = 0.0


class FairQueue:
    """The queues of all clients. They share one rate for each kind of turn."""

    __slots__ = ("_queues", "_rates")

    def __init__(self) -> None:
        self._queues: dict[str, _ClientQueue] = {}
        self._rates = {
            TurnKind.PAGE: RateLimit(),
            TurnKind.CHANGE: RateLimit(CHANGES_PER_S, burst=CHANGES_PER_S),
            TurnKind.HEALTH: RateLimit(HEALTH_PER_S, HEALTH_BURST),
        }

    def __len__(self) -> int:
        """Return the number of clients with a request in progress."""
        return len(self._queues)

    def turn(self, identity: str, kind: TurnKind = TurnKind.PAGE) -> Turn:
        """Return the client's next turn of this kind. The caller waits."""
        queue = self._queues.get(identity)
        if queue is None:
            queue = self._queues[identity] = _ClientQueue(identity)
        queue.count += 1
        if queue.count > MAX_AT_ONCE:
            now = trio.current_time()
            at = max(queue.next_at, now + FLOOD_TURN_S)
            if at - now > FLOOD_WAIT_S:
                return Turn(self, queue, FLOOD_WAIT_S, granted=False)
            queue.next_at = at + FLOOD_TURN_S
            return Turn(self, queue, at - now, granted=True)
        wait_s = self._rates[kind].take()
        if wait_s is None:
            return Turn(self, queue, LONGEST_WAIT_S, granted=False)
        return Turn(self, queue, wait_s, granted=True)

    def leave(self, queue: _ClientQueue) -> None:
        queue.count -= 1
        if queue.count == 0:
            del self._queues[queue.identity]

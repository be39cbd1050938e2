"""The rate of console requests, which limits their share of the broker's one thread, and of password hashes.

Used by http.fair_queue before every request and TLS handshake, and by webui.security.passwords. The console
shares the interpreter with Kafka clients, so its cost must be bounded. A token bucket: a page load is a burst
and is served at once; further requests wait, and those that would wait too long are refused.
"""

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

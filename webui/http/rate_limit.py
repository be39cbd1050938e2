"""How much of the broker's one thread the console may take, and of a core for hashing passwords.

Asked by http.fair_queue before every request, before a TLS handshake, and by webui.security.passwords. Pages
and clients share an interpreter: what pages ask for must cost the clients a known share. A bucket of turns: a
page load is a burst and is served at once, more than that waits in line, and who would wait too long gets no
turn.
"""

from typing import Final

import trio

TURNS_PER_S: Final = 60
"""A request costs 1 to 2 ms: an eighth of the thread at most."""

CHANGES_PER_S: Final = 250
"""Changes of quotas by those who may make them have turns of their own: over Kafka's protocol they may
make as many as the disk takes, and an automation that follows the load has to keep up with it.
"""

HEALTH_PER_S: Final = 20
HEALTH_BURST: Final = 40
"""Health checks have turns of their own, so that no other request makes one late: a few probes ask a few
times in ten seconds.
"""

BURST: Final = 120
LONGEST_WAIT_S: Final = 10


class RateLimit:
    """The generic cell rate algorithm: one number, the time (ns) at which every turn given is paid for."""

    __slots__ = ("_burst", "_longest_wait_s", "_paid_at", "_turn_ns")

    def __init__(
        self, per_s: int = TURNS_PER_S, burst: int = BURST, longest_wait_s: int = LONGEST_WAIT_S
    ) -> None:
        self._burst = burst
        self._longest_wait_s = longest_wait_s
        self._paid_at = 0
        self._turn_ns = 1_000_000_000 // per_s

    def take(self) -> float | None:
        """A turn, and after how many seconds it comes; None, and no turn, where that would be too long."""
        now = round(trio.current_time() * 1e9)
        paid_at = max(self._paid_at, now) + self._turn_ns
        wait_ns = max(0, paid_at - now - self._burst * self._turn_ns)
        if wait_ns > self._longest_wait_s * 1_000_000_000:
            return None
        self._paid_at = paid_at
        return wait_ns / 1e9

    async def turn(self) -> bool:
        """Waits for a turn; False at once if that would take too long."""
        wait_s = self.take()
        if wait_s is None:
            return False
        if wait_s > 0:
            await trio.sleep(wait_s)
        return True

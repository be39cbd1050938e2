"""How much of the broker's one thread the console may take.

Held by webui.app before every request. Pages and clients share an interpreter: a flood of page requests must
cost the clients a known share and not their latency. A bucket of turns: a page load is a burst and is served
at once, a flood waits in line, and who would wait too long is told so.
"""

from typing import Final

import trio

TURNS_PER_S: Final = 60
"""A request costs some 2 ms: an eighth of the thread."""

BURST: Final = 120
LONGEST_WAIT_S: Final = 10
_TURN_NS: Final = 1_000_000_000 // TURNS_PER_S


class Pace:
    """The generic cell rate algorithm: one number, the time (ns) at which every turn given is paid for."""

    __slots__ = ("_paid_at",)

    def __init__(self) -> None:
        self._paid_at = 0

    async def turn(self) -> bool:
        """Waits for a turn; False at once if that would take more than LONGEST_WAIT_S."""
        now = round(trio.current_time() * 1e9)
        paid_at = max(self._paid_at, now) + _TURN_NS
        wait_ns = paid_at - now - BURST * _TURN_NS
        if wait_ns > LONGEST_WAIT_S * 1_000_000_000:
            return False
        self._paid_at = paid_at
        if wait_ns > 0:
            await trio.sleep(wait_ns / 1e9)
        return True

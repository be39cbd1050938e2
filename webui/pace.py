"""How much of the broker's one thread the console may take.

Held by webui.app before every request. Pages and clients share an interpreter: a flood of page requests must
cost the clients a known share and not their latency. A bucket of turns: a page load is a burst and is served
at once, a flood waits in line, and who would wait too long is told so.
"""

from typing import Final

import trio

TURNS_PER_S: Final = 100
"""A request costs 1 to 2 ms: a tenth to a fifth of the thread."""

BURST: Final = 200
LONGEST_WAIT_S: Final = 5.0


class Pace:
    """The generic cell rate algorithm: one number, the time at which the bucket would be empty of debt."""

    __slots__ = ("_due",)

    def __init__(self) -> None:
        self._due = float("-inf")

    async def turn(self) -> bool:
        """Waits for a turn; False at once if that would take more than LONGEST_WAIT_S."""
        now = trio.current_time()
        due = max(self._due, now) + 1 / TURNS_PER_S
        wait_s = due - now - BURST / TURNS_PER_S
        if wait_s > LONGEST_WAIT_S:
            return False
        self._due = due
        if wait_s > 0:
            await trio.sleep(wait_s)
        return True

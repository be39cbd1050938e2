"""A limit of requests in a second, for those that a person's page causes."""

from collections import deque
from typing import Final

import trio

PERIOD_S: Final = 1.0


class Pace:
    """At most `rate` turns in any second, in the order in which they are asked for."""

    def __init__(self, rate: int) -> None:
        self._taken: deque[float] = deque(maxlen=rate)
        self._next = trio.Lock()

    async def turn(self) -> None:
        """Wait for a turn. If cancelled, takes none."""
        async with self._next:
            if len(self._taken) == self._taken.maxlen:
                await trio.sleep_until(self._taken[0] + PERIOD_S)
            self._taken.append(trio.current_time())

"""A task that sleeps until the next deadline, and wakes when an earlier one is added. It never polls.

One per purgatory (Kafka: ExpirationReaper-*), for the groups' deadlines, and per kind of throttle
(ThrottledChannelReaper-*). Independent of what the deadlines mean.
"""

from collections.abc import Callable

import trio

from broker.common.clock import Clock


class Reaper:
    """`next_deadline` returns milliseconds of the clock, or None; `fire` handles everything due at its
    argument.
    """

    def __init__(
        self,
        name: str,
        next_deadline: Callable[[], int | None],
        fire: Callable[[int], None],
        clock: Clock,
    ) -> None:
        self.name = name
        self._next_deadline = next_deadline
        self._fire = fire
        self._clock = clock
        self._asleep_until: int | None = 0
        self._wake = trio.Event()

    def poke(self) -> None:
        """Check for an earlier deadline. Call it after adding deadlines."""
        deadline = self._next_deadline()
        if deadline is not None and (self._asleep_until is None or deadline < self._asleep_until):
            self._wake.set()

    async def run(self) -> None:
        """Fire at every deadline until cancelled; deadlines not due by then remain."""
        clock = self._clock
        while True:
            self._fire(clock.ms())
            if self._wake.is_set():
                self._wake = trio.Event()
            self._asleep_until = deadline = self._next_deadline()
            if deadline is None:
                await self._wake.wait()
            else:
                with trio.move_on_after(max(deadline - clock.ms(), 0) / 1000):
                    await self._wake.wait()

"""A task that sleeps until something is due, and is woken when something becomes due earlier. It never polls.

One for each purgatory (Kafka: ExpirationReaper-*), for the groups' deadlines, and for each kind of throttle
(ThrottledChannelReaper-*). Knows a source of deadlines and what to do then, and nothing of either.
"""

from collections.abc import Callable

import trio

from broker.clock import Clock


class Reaper:
    """`next_deadline` answers milliseconds of the clock, or None; `fire` deals with all that is due at its
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
        """To be called when deadlines may have been added."""
        deadline = self._next_deadline()
        if deadline is not None and (self._asleep_until is None or deadline < self._asleep_until):
            self._wake.set()

    async def run(self) -> None:
        """Until cancelled; what is not due by then stays."""
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

"""A task that sleeps until the next deadline. It never polls: the code that adds a deadline says so.

One per purgatory (Kafka: ExpirationReaper-*), for the groups' deadlines, and per kind of throttle
(ThrottledChannelReaper-*). Independent of what the deadlines mean.
"""

import math
from collections.abc import Callable
from typing import Final

import trio

from broker.common.clock import Clock

AWAKE: Final = -math.inf
"""In place of the time until which the task sleeps. It asks for the next deadline before it sleeps."""


class Reaper:
    """`next_deadline` returns milliseconds of the clock, or None; `fire` handles everything due at its
    argument. `wake_by` is called with each deadline that is added.
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
        self._sleep = trio.CancelScope()
        self._sleeps_until = AWAKE

    def wake_by(self, deadline_ms: int) -> None:
        """Fire at `deadline_ms`, unless an earlier deadline is known already."""
        if deadline_ms < self._sleeps_until:
            self._sleeps_until = deadline_ms
            left_ms = max(deadline_ms - self._clock.ms(), 0)
            self._sleep.deadline = trio.current_time() + left_ms / 1000

    async def run(self) -> None:
        """Fire at every deadline until cancelled; deadlines not due by then remain."""
        while True:
            deadline = self._next_deadline()
            with trio.CancelScope() as self._sleep:
                self._sleeps_until = math.inf
                if deadline is not None:
                    self.wake_by(deadline)
                await trio.sleep_forever()
            self._sleeps_until = AWAKE
            self._fire(self._clock.ms())

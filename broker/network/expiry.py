"""Connections that end by time: idle ones, and those whose login failed. (Kafka:
Selector.maybeCloseOldestConnection, DelayedAuthenticationFailureClose)

One of each per processor. Both sleep until the next is due; neither costs a request anything.
"""

import logging
from collections import deque

import trio

from broker.network.channel import Channel
from broker.network.clock import TrioClock
from broker.network.mute import MuteState
from broker.network.reaper import Reaper
from broker.network.selector import Selector


async def expire_idle(selector: Selector, limit_ms: int, clock: TrioClock) -> None:
    """Closes the least recently used connection whenever it has been idle for `connections.max.idle.ms`,
    one at a time.

    A connection whose request is still being served, or that is held by a throttle, counts as used; one
    that takes none of its answer does not.
    """
    while True:
        now_ms = clock.ms()
        oldest = min(selector, key=lambda channel: channel.last_active_ms, default=None)
        left_ms = limit_ms if oldest is None else oldest.last_active_ms + limit_ms - now_ms
        if left_ms > 0:
            await trio.sleep(left_ms / 1000)
        elif oldest is not None:
            if oldest.mute_state is MuteState.NOT_MUTED or oldest.send is not None:
                selector.close_channel(oldest, f"idle for {limit_ms} ms")
            else:
                oldest.last_active_ms = now_ms
            await trio.lowlevel.checkpoint()


class FailedLogins:
    """Keeps the connection of a failed login, muted, for `connection.failed.authentication.delay.ms`, so
    that guessing is slow and nobody else waits.
    """

    def __init__(self, name: str, selector: Selector, delay_ms: int, clock: TrioClock) -> None:
        self._selector = selector
        self._delay_ms = delay_ms
        self._clock = clock
        self._waiting: deque[tuple[int, Channel]] = deque()
        self.reaper = Reaper(f"{name}-failed-logins", self._next_deadline, self._close_due, clock)

    def add(self, channel: Channel) -> None:
        """Its answer has been written."""
        self._waiting.append((self._clock.ms() + self._delay_ms, channel))
        self.reaper.poke()

    def _next_deadline(self) -> int | None:
        return self._waiting[0][0] if self._waiting else None

    def _close_due(self, now_ms: int) -> None:
        while self._waiting and self._waiting[0][0] <= now_ms:
            self._selector.close_channel(self._waiting.popleft()[1], "the login failed", logging.INFO)

"""Closes connections by time: idle ones, failed logins, and late logins. (Kafka:
Selector.maybeCloseOldestConnection, DelayedAuthenticationFailureClose)

One of each per processor. All sleep until the next deadline and cost requests nothing.
"""

import logging
from collections import deque

import trio

from broker.network.clock import TrioClock
from broker.network.connection.channel import Channel, has_arrivals
from broker.network.connection.mute import MuteState
from broker.network.failures import Place
from broker.network.reaper import Reaper
from broker.network.selector import Selector


async def expire_idle(selector: Selector, limit_ms: int, clock: TrioClock) -> None:
    """Close every connection that has been idle for `connections.max.idle.ms`. Returns immediately if that is
    negative, which means never. (Kafka: Selector has no IdleExpiryManager then)

    A connection is not idle while a request is being served, it is throttled, it waits for memory, or the
    kernel holds unread bytes. It is idle while it takes none of its response, or its request never completes.
    The least recently used connection closes first, one per turn of the loop.
    """
    if limit_ms < 0:
        return
    while True:
        now_ms = clock.ms()
        next_ms = now_ms + limit_ms
        due = []
        for channel in selector:
            due_ms = channel.last_active_ms + limit_ms
            if due_ms > now_ms:
                next_ms = min(next_ms, due_ms)
            else:
                due.append(channel)
        for channel in sorted(due, key=lambda each: each.last_active_ms):
            if channel.last_active_ms + limit_ms > now_ms:
                continue
            try:
                is_used = channel.fd >= 0 and _is_used(channel)
            except Exception as error:  # noqa: BLE001 - reported, and the connection is closed
                selector.failures.report(Place.EXPIRE, error, connection=channel.id)
                is_used = False
            if is_used:
                channel.last_active_ms = now_ms
                continue
            selector.close_channel(channel, f"idle for {limit_ms} ms")
            await trio.lowlevel.checkpoint()
        await trio.sleep(max(next_ms - clock.ms(), 0) / 1000)


def _is_used(channel: Channel) -> bool:
    if channel.send is not None:
        return False
    if channel.in_hand or channel.mute_state is not MuteState.NOT_MUTED or channel.receive.waits_for_memory:
        return True
    # After a pause of the whole process the deadline has passed before the waiting requests are read.
    return has_arrivals(channel)


class FailedLogins:
    """Keeps the connection of a failed login, muted, for `connection.failed.authentication.delay.ms`, which
    slows down password guessing and delays no other connection.
    """

    def __init__(self, name: str, selector: Selector, delay_ms: int, clock: TrioClock) -> None:
        self._selector = selector
        self._delay_ms = delay_ms
        self._clock = clock
        self._waiting: deque[tuple[int, Channel]] = deque()
        self.reaper = Reaper(f"{name}-failed-logins", self._next_deadline, self._close_due, clock)

    def add(self, channel: Channel) -> None:
        """Add a connection whose error response has been written."""
        self._waiting.append((self._clock.ms() + self._delay_ms, channel))
        self.reaper.poke()

    def _next_deadline(self) -> int | None:
        return self._waiting[0][0] if self._waiting else None

    def _close_due(self, now_ms: int) -> None:
        while self._waiting and self._waiting[0][0] <= now_ms:
            self._selector.close_channel(self._waiting.popleft()[1], "the login failed", logging.INFO)


class LateLogins:
    """Closes connections that have not finished TLS handshake and login
    `connection.authentication.timeout.ms` after they were accepted, so that unauthenticated peers cannot
    occupy connection slots.
    """

    def __init__(self, name: str, selector: Selector, limit_ms: int, clock: TrioClock) -> None:
        self._selector = selector
        self._limit_ms = limit_ms
        self._clock = clock
        self._waiting: deque[tuple[int, Channel]] = deque()
        self.reaper = Reaper(f"{name}-late-logins", self._next_deadline, self._close_due, clock)

    def add(self, channel: Channel) -> None:
        self._waiting.append((self._clock.ms() + self._limit_ms, channel))
        self.reaper.poke()

    def _next_deadline(self) -> int | None:
        waiting = self._waiting
        while waiting and (waiting[0][1].authenticated or waiting[0][1].closed):
            waiting.popleft()
        return waiting[0][0] if waiting else None

    def _close_due(self, now_ms: int) -> None:
        while self._waiting and self._waiting[0][0] <= now_ms:
            channel = self._waiting.popleft()[1]
            if not channel.authenticated:
                reason = f"not authenticated within {self._limit_ms} ms"
                self._selector.close_channel(channel, reason, logging.INFO)

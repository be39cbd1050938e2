"""The open connections of one processor and their readiness. (Kafka: Selector)

Owns the epoll object and closes connections; independent of requests. Read interest is removed lazily: a
muted channel keeps it until the socket becomes readable, because most clients send nothing before they
receive the response.
"""

import logging
import os
import select
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Final, assert_never

import trio

from broker.common.limited_lines import LimitedLines
from broker.metrics.rate import Avg, Max, Window
from broker.network.clock import TrioClock
from broker.network.connection.channel import Channel, MuteState, discard_arrivals, has_arrivals, has_left
from broker.network.connection.receive import INVALID_RECEIVE
from broker.network.failures import FailedStep, Failures

logger = logging.getLogger(__name__)

READ: Final = select.EPOLLIN
WRITE: Final = select.EPOLLOUT
BROKEN: Final = select.EPOLLERR | select.EPOLLHUP

BUG: Final = "an unexpected exception in the broker"
"""Close reason after an unexpected exception; see `failures`."""

SHUTDOWN: Final = "shutdown"
"""Close reason of a connection whose processor stops."""

NO_MEMORY: Final = "no memory is left for its request"
"""Close reason after a MemoryError, for which the failure report is the only log line."""

UNWATCHED: Final = 1 << 24
"""The interest of a connection that epoll does not watch; no epoll event has this bit."""

WARNINGS_OF_CLIENT: Final = 50
"""Warnings in a minute about the connections of one client to a processor; ours. All have twice as many."""

Poll = Callable[[float, int], list[tuple[int, int]]]
"""Takes a timeout in seconds and the maximum number of pairs to return."""


class Ending(Enum):
    """How a connection ends."""

    CLOSED = auto()
    """The broker closes it, for the given reason."""
    DISCONNECTED = auto()
    """The peer has gone, or the socket failed."""
    FAILED_AUTHENTICATION = auto()
    """A TLS handshake, a login or a re-authentication failed."""
    UNEXPECTED_ERROR = auto()
    """What the peer sent is no request, or the broker failed."""


def ending_line(ending: Ending, channel: Channel, reason: str) -> str:
    """Return the log line of a connection that ends, in the words that operators of Kafka search for. Kafka's
    other endings have lines of other classes, or none.

    A re-authentication (KIP-368) fails on a connection that has a session.
    """
    peer = f"/{channel.address} (channelId={channel.id})"
    match ending:
        case Ending.CLOSED:
            return "connection closed"
        case Ending.DISCONNECTED:
            return f"Connection with {peer} disconnected"
        case Ending.FAILED_AUTHENTICATION:
            again = "" if channel.session is None else "re-"
            return f"Failed {again}authentication with {peer} ({reason})"
        case Ending.UNEXPECTED_ERROR:
            return f"Unexpected error from {peer}; closing connection"
        case _:
            assert_never(ending)


class ConnectionCounts:
    """Counters of a selector's connections since its creation. `closed_...` are the bytes and requests of
    closed connections; `unanswered` counts requests not answered in full because their connection closed.
    `logins_without_reauth` counts clients that do not support re-authentication (KIP-368), `renewals`
    re-authentications, `renewal_ms_avg` and `renewal_ms_max` their recent durations, `expired` connections
    closed after their login expired, `oversized` connections closed for the size of a request, `cut_off`
    connections closed within a response whose records could not be read.
    """

    def __init__(self) -> None:
        self.opened = self.closed = 0
        self.closed_bytes_in = self.closed_bytes_out = self.closed_requests = 0
        self.unanswered = 0
        self.logins = self.failed_logins = self.logins_without_reauth = 0
        self.renewals = self.failed_renewals = self.expired = self.oversized = 0
        self.cut_off = 0
        self.renewal_ms_avg, self.renewal_ms_max = Avg(Window()), Max(Window())


class Selector:
    """`channels` maps file descriptors to channels, `ids` holds their ids. `now` and `now_ms` are the time of
    the last poll, in nanoseconds and milliseconds of the run's clock. `on_close` is called once for every
    connection that closes, with the reason. `failures` reports steps of closing that raise; the other steps
    still run.
    """

    def __init__(self, on_close: Callable[[Channel, str], None], failures: Failures) -> None:
        self.channels: dict[int, Channel] = {}
        self.ids: set[str] = set()
        self.now = 0
        self.now_ms = 0
        self._warnings = LimitedLines(WARNINGS_OF_CLIENT)
        self.counts = ConnectionCounts()
        self._on_close = on_close
        self.failures = failures
        self._epoll = select.epoll()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._wake_fd, READ)
        self.poll: Poll = self._epoll.poll
        """Returns ready (descriptor, mask) pairs, including the wake-up descriptor, which has no channel."""

    def __iter__(self) -> Iterator[Channel]:
        return iter(self.channels.values())

    def fileno(self) -> int:
        """Return the epoll descriptor: readable when a connection is ready or `wakeup` was called."""
        return self._epoll.fileno()

    def wakeup(self) -> None:
        """Make the task that waits for `fileno` run another turn."""
        os.eventfd_write(self._wake_fd, 1)

    def reset_wakeup(self, fd: int) -> None:
        """Reset a wake-up, so that it is not reported again. Ignores the descriptor of a channel that has
        closed.
        """
        if fd == self._wake_fd:
            os.eventfd_read(fd)

    def register(self, channel: Channel) -> None:
        """Watch a channel. Raises OSError, without adding the channel, if the kernel cannot watch it."""
        self._epoll.register(channel.fd, READ)
        channel.interest = READ
        self.channels[channel.fd] = channel
        self.ids.add(channel.id)
        self.counts.opened += 1

    def set_interest(self, channel: Channel, interest: int) -> None:
        """Change the events that epoll reports for an open channel."""
        if interest != channel.interest and channel.fd >= 0:
            if interest & UNWATCHED:
                interest &= ~UNWATCHED
                self._epoll.register(channel.fd, interest)
            else:
                self._epoll.modify(channel.fd, interest)
            channel.interest = interest

    def stop_watching(self, channel: Channel) -> None:
        """Stop watching a connection whose peer is gone, which epoll would report every turn, until the next
        `set_interest`. (Kafka: Selector.closingChannels)
        """
        self._epoll.unregister(channel.fd)
        channel.interest = UNWATCHED

    def watch(self, fd: int, interest: int) -> None:
        """Watch a descriptor that is not a client's. Raises OSError if the kernel cannot watch it."""
        self._epoll.register(fd, interest)

    def rewatch(self, fd: int, interest: int) -> None:
        """Change the events that epoll reports for such a descriptor."""
        self._epoll.modify(fd, interest)

    def unwatch(self, fd: int) -> None:
        """Stop watching such a descriptor. Call it before the descriptor is closed."""
        self._epoll.unregister(fd)

    def in_flight(self) -> int:
        """Return the number of requests received and not yet answered in full."""
        return sum(channel.requests_in_flight for channel in self.channels.values())

    def close_channel(
        self, channel: Channel, reason: str, level: int = logging.DEBUG, ending: Ending = Ending.CLOSED
    ) -> None:
        """Close a connection, once. Its queued and later responses are dropped. The log line of a refused
        login says why, also if the client closes the connection first.
        """
        fd = channel.fd
        if fd < 0:
            return
        login, logged = channel.sasl_login, reason
        if login is not None and login.refusal:
            level, logged = max(level, logging.INFO), f"the login failed: {login.refusal}"
            ending = Ending.FAILED_AUTHENTICATION
        if logger.isEnabledFor(level):
            self.log(channel, ending_line(ending, channel, logged), logged, level)
        del self.channels[fd]
        self.ids.discard(channel.id)
        channel.fd = -1
        attempt = self.failures.attempt
        if channel.interest != UNWATCHED:
            attempt(FailedStep.CLOSE, channel.id, self._epoll.unregister, fd)
        attempt(FailedStep.CLOSE, channel.id, channel.receive.close)
        attempt(FailedStep.CLOSE, channel.id, channel.sock.close)
        attempt(FailedStep.CLOSE, channel.id, self._count_closed, channel)
        self.counts.oversized += reason.startswith(INVALID_RECEIVE)
        attempt(FailedStep.CLOSE, channel.id, self._on_close, channel, reason)
        channel.send = None
        # Before login `read` refers to the channel: a cycle that only the garbage collector would free.
        channel.read_frames()

    def end_channel(self, channel: Channel) -> None:
        """Close a connection because its processor stops, without a reset as far as that is possible."""
        if channel.fd >= 0:
            discard_arrivals(channel)
            self.close_channel(channel, SHUTDOWN)

    def log(self, channel: Channel, text: str, reason: str, level: int) -> None:
        """Log a line about a connection. A peer causes as many warnings as it likes: they are limited."""
        extra: dict[str, object] = {
            "connection": channel.id,
            "client_id": channel.client_id,
            "reason": reason,
        }
        if level >= logging.WARNING:
            left_out = self._warnings.line(channel.principal, channel.address, self.now_ms)
            if left_out is None:
                return
            if left_out:
                extra["left_out"] = left_out
        logger.log(level, text, extra=extra)

    def close_broken(self, channel: Channel, error: Exception) -> None:
        """Close the connection of a step that raised an unexpected, already reported exception."""
        if isinstance(error, MemoryError):
            self.close_channel(channel, NO_MEMORY)
        else:
            self.close_channel(channel, BUG, logging.WARNING, Ending.UNEXPECTED_ERROR)

    def _count_closed(self, channel: Channel) -> None:
        counts = self.counts
        counts.closed += 1
        counts.closed_bytes_in += channel.bytes_in
        counts.closed_bytes_out += channel.bytes_out
        counts.closed_requests += channel.requests
        counts.unanswered += channel.requests_in_flight

    def close(self) -> None:
        """Close every connection and the epoll object."""
        for channel in list(self.channels.values()):
            self.end_channel(channel)
        self._epoll.close()
        os.close(self._wake_fd)


async def expire_idle(selector: Selector, limit_ms: int, clock: TrioClock) -> None:
    """Close every connection that has been idle for `connections.max.idle.ms`. Returns immediately if that is
    negative, which means never. (Kafka: Selector has no IdleExpiryManager then,
    maybeCloseOldestConnection)

    A connection is not idle while a request is being served, it is throttled, it waits for memory, or the
    kernel holds unread bytes. It is idle while it takes none of its response, its request never completes, or
    its peer has ended the stream and only its responses are missing.
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
                selector.failures.report(FailedStep.EXPIRE, error, connection=channel.id)
                is_used = False
            if is_used:
                channel.last_active_ms = now_ms
                continue
            selector.close_channel(channel, f"idle for {limit_ms} ms")
            await trio.lowlevel.checkpoint()
        await trio.sleep(max(next_ms - clock.ms(), 0) / 1000)


def _is_used(channel: Channel) -> bool:
    if channel.send is not None or channel.has_ended:
        return False
    if channel.mute_state is not MuteState.NOT_MUTED or channel.requests_in_flight:
        return not has_left(channel)
    if channel.receive.waits_for_memory:
        return True
    # After a pause of the whole process the deadline has passed before the waiting requests are read.
    return has_arrivals(channel)

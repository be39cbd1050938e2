"""The open connections of one processor, and which of them the kernel says are ready. (Kafka: Selector)

Owns the epoll and closes connections; decides nothing about requests. Read interest is taken away lazily: a
muted channel keeps it until it really becomes readable, because most clients send nothing before they have
their answer.
"""

import logging
import os
import select
from collections.abc import Callable, Iterator
from typing import Final

from broker.metrics.lately import Lately
from broker.network.connection.channel import Channel
from broker.network.connection.receive import INVALID_RECEIVE
from broker.network.failures import Failures, Place

logger = logging.getLogger(__name__)

READ: Final = select.EPOLLIN
WRITE: Final = select.EPOLLOUT
BROKEN: Final = select.EPOLLERR | select.EPOLLHUP

BUG: Final = "an unexpected exception in the broker"
"""Why a connection is closed whose step has raised one; see `failures`."""

NO_MEMORY: Final = "no memory is left for its request"
"""The same for a MemoryError, whose report is the only line in the log."""

ASIDE: Final = 1 << 24
"""The interest of a connection that is not watched at all; no event of epoll has this bit."""

Poll = Callable[[float, int], list[tuple[int, int]]]
"""Told how long to wait, in seconds, and how many pairs to answer at most."""


class ConnectionCounts:
    """What became of a selector's connections since it was made. `closed_...` is what those had received and
    sent that are closed; `unanswered` are requests that were not, or not wholly, answered because of that.
    `logins_without_reauth` are of clients that know nothing of re-authentication (KIP-368), `renewals` are
    re-authentications, `renewal_ms` how long they took, `expired` connections whose login had ended,
    `oversized` those that were closed for the size of a request, `cut_off` those that were closed within a
    response whose records could not be read.
    """

    __slots__ = (
        *("closed", "closed_bytes_in", "closed_bytes_out", "closed_requests", "failed_logins", "logins"),
        *("expired", "failed_renewals", "logins_without_reauth", "opened", "oversized", "renewal_ms"),
        *("cut_off", "renewals"),
        "unanswered",
    )

    def __init__(self) -> None:
        self.opened = self.closed = 0
        self.closed_bytes_in = self.closed_bytes_out = self.closed_requests = 0
        self.unanswered = 0
        self.logins = self.failed_logins = self.logins_without_reauth = 0
        self.renewals = self.failed_renewals = self.expired = self.oversized = 0
        self.cut_off = 0
        self.renewal_ms = Lately()


class Selector:
    """`channels` is by file descriptor, `ids` has the ids of the same. `on_close` hears of every connection
    that ends, once, and why. `failures` hears of the steps of closing that raise; the others are taken
    nevertheless.
    """

    def __init__(self, on_close: Callable[[Channel, str], None], failures: Failures) -> None:
        self.channels: dict[int, Channel] = {}
        self.ids: set[str] = set()
        self.counts = ConnectionCounts()
        self._on_close = on_close
        self.failures = failures
        self._epoll = select.epoll()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._wake_fd, READ)
        self.poll: Poll = self._epoll.poll
        """Ready (descriptor, mask) pairs; the wake-up descriptor is among them and belongs to no channel."""

    def __iter__(self) -> Iterator[Channel]:
        return iter(self.channels.values())

    def fileno(self) -> int:
        """Readable when any connection is ready or `wakeup` was called."""
        return self._epoll.fileno()

    def wakeup(self) -> None:
        """Makes whoever waits for `fileno` take another turn."""
        os.eventfd_write(self._wake_fd, 1)

    def woken(self, fd: int) -> None:
        """Takes note of a wake-up, so that it is not reported again. Any other descriptor is of a channel
        closed meanwhile.
        """
        if fd == self._wake_fd:
            os.eventfd_read(fd)

    def register(self, channel: Channel) -> None:
        """Raises OSError where the kernel cannot watch one more connection; the channel is not here then."""
        self._epoll.register(channel.fd, READ)
        channel.interest = READ
        self.channels[channel.fd] = channel
        self.ids.add(channel.id)
        self.counts.opened += 1

    def want(self, channel: Channel, interest: int) -> None:
        """Changes what the kernel is to report about an open channel."""
        if interest != channel.interest and channel.fd >= 0:
            if interest & ASIDE:
                interest &= ~ASIDE
                self._epoll.register(channel.fd, interest)
            else:
                self._epoll.modify(channel.fd, interest)
            channel.interest = interest

    def set_aside(self, channel: Channel) -> None:
        """Looks away from a connection whose peer is gone, which the kernel would report turn after turn,
        until `want` asks for it again. (Kafka: Selector.closingChannels)
        """
        self._epoll.unregister(channel.fd)
        channel.interest = ASIDE

    def in_flight(self) -> int:
        """Requests that were received and are not yet answered in full."""
        return sum(channel.in_hand for channel in self.channels.values())

    def close_channel(self, channel: Channel, reason: str, level: int = logging.DEBUG) -> None:
        """Closes one connection, once. Responses that are queued for it, or still come, are dropped."""
        fd = channel.fd
        if fd < 0:
            return
        logger.log(
            level,
            "connection closed",
            extra={"connection": channel.id, "client_id": channel.client_id, "reason": reason},
        )
        del self.channels[fd]
        self.ids.discard(channel.id)
        channel.fd = -1
        attempt = self.failures.attempt
        if channel.interest != ASIDE:
            attempt(Place.CLOSE, channel.id, self._epoll.unregister, fd)
        attempt(Place.CLOSE, channel.id, channel.receive.close)
        attempt(Place.CLOSE, channel.id, channel.sock.close)
        attempt(Place.CLOSE, channel.id, self._count_closed, channel)
        self.counts.oversized += reason.startswith(INVALID_RECEIVE)
        attempt(Place.CLOSE, channel.id, self._on_close, channel, reason)
        channel.send = None
        # Until it has logged in, `read` refers to the channel: a cycle, which only the collector would free.
        channel.read = channel.receive.read

    def close_broken(self, channel: Channel, error: Exception) -> None:
        """Closes the connection of a step that has raised what nothing expects, which has been reported."""
        if isinstance(error, MemoryError):
            self.close_channel(channel, NO_MEMORY)
        else:
            self.close_channel(channel, BUG, logging.WARNING)

    def _count_closed(self, channel: Channel) -> None:
        counts = self.counts
        counts.closed += 1
        counts.closed_bytes_in += channel.bytes_in
        counts.closed_bytes_out += channel.bytes_out
        counts.closed_requests += channel.requests
        counts.unanswered += channel.in_hand

    def close(self) -> None:
        """Closes every connection and the epoll."""
        for channel in list(self.channels.values()):
            self.close_channel(channel, "shutdown")
        self._epoll.close()
        os.close(self._wake_fd)

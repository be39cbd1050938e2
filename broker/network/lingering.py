"""Connections that have ended a moment after a response: their peers may not have read it yet. (nginx:
lingering_close)

The kernel resets a connection that is closed with bytes of the peer unread, or to which the peer sends more.
A peer that has been reset may lose what it has not read, and the kernel what it has not sent; the client
then repeats requests that were answered. So the responder ends only its own half of such a connection, and
what the peer sends is read and discarded until the peer ends its half, too, for LINGERS_MS at most.

The channel has closed by then: a second descriptor keeps the socket open. Owned by the responder of one
processor, which passes on the events of these descriptors.
"""

import contextlib
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Final

from broker.common.clock import Clock
from broker.network.connection.channel import DISCARDED, DISCARDED_AT_ONCE, Channel
from broker.network.reaper import Reaper
from broker.network.selector import READ, Selector

LINGERS_MS: Final = 500
"""How long a peer has to read a response before its connection may be reset; ours. It is also the longest
that such a peer holds up a stop.
"""


class _Half:
    """The receiving half of a connection, of which `left` bytes are still discarded; until `due_ms`, or 0
    once it has closed.
    """

    __slots__ = ("due_ms", "left", "sock")

    def __init__(self, sock: socket.socket, due_ms: int) -> None:
        self.sock = sock
        self.due_ms = due_ms
        self.left = DISCARDED


class Lingering:
    """Its length is the number of these connections. `reaper` has to run. `on_close` is called when one of
    them has closed.
    """

    def __init__(self, selector: Selector, clock: Clock, on_close: Callable[[], None]) -> None:
        self._selector = selector
        self._clock = clock
        self._on_close = on_close
        self._halves: dict[int, _Half] = {}
        self._order: deque[_Half] = deque()
        self.reaper = Reaper("lingering", self._next_deadline, self._expire, clock)

    def __len__(self) -> int:
        return len(self._halves)

    def end(self, channel: Channel) -> None:
        """Close a channel. Its socket lingers if it was used in the last LINGERS_MS, unless no descriptor is
        left.
        """
        half = self._half_of(channel)
        if half is not None:
            self._halves[half.sock.fileno()] = half
        self._selector.end_channel(channel)
        if half is None:
            return
        try:
            half.sock.shutdown(socket.SHUT_WR)
            self._selector.watch(half.sock.fileno(), READ)
        except OSError:  # the peer has gone, or the kernel cannot watch it
            self._close(half)
            return
        self._order.append(half)
        self.reaper.wake_by(half.due_ms)

    def on_event(self, fd: int) -> bool:
        """Discard what has arrived, and close at the end of the stream. Returns False for a descriptor that
        is not one of these.
        """
        half = self._halves.get(fd)
        if half is None:
            return False
        try:
            count = len(os.read(fd, DISCARDED_AT_ONCE))
        except BlockingIOError:
            return True
        except OSError:
            count = 0
        half.left -= count
        if not count:
            self._close(half)
        elif half.left <= 0:
            self._selector.rewatch(fd, 0)
        return True

    def close(self) -> None:
        """Close all of them now."""
        for half in list(self._halves.values()):
            self._close(half)

    def _half_of(self, channel: Channel) -> _Half | None:
        """Return the receiving half of a channel that lingers."""
        now_ms = self._clock.ms()
        if channel.fd < 0 or not channel.requests or now_ms - channel.last_active_ms >= LINGERS_MS:
            return None
        with contextlib.suppress(OSError):
            return _Half(socket.socket(fileno=os.dup(channel.fd)), now_ms + LINGERS_MS)
        return None

    def _close(self, half: _Half) -> None:
        del self._halves[half.sock.fileno()]
        half.sock.close()  # which ends the watch, too
        half.due_ms = 0
        self._on_close()

    def _next_deadline(self) -> int | None:
        order = self._order
        while order and not order[0].due_ms:
            order.popleft()
        return order[0].due_ms if order else None

    def _expire(self, now_ms: int) -> None:
        while (due_ms := self._next_deadline()) is not None and due_ms <= now_ms:
            self._close(self._order.popleft())

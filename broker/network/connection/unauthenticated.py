"""Connections that have not authenticated: how many of one address there may be, and how much they may send.

The processor of a listener with SASL or TLS adds each new connection, and asks about each of its requests
until it has logged in; the bytes are counted as they are received, those of TLS as ciphertext. Where an
address has sent more than `quotas.unauthenticated` allows, its connection is closed. Where it has too many
connections, the eldest of those that the broker waits for makes room, so that connections that say nothing
cannot keep clients behind the same address out; where the broker waits for none of the eldest, it is behind
with its own work, and the new one is closed. Nothing here concerns any other address, or a connection that
has logged in.
"""

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Final, cast

from broker.network.clock import TrioClock
from broker.network.connection.channel import Channel, has_arrivals
from broker.network.connection.receive import Frame
from broker.network.connection.transport import Transport, Writable
from broker.network.selector import Selector
from broker.quotas.unauthenticated import CONNECTIONS, OverRate, UnauthenticatedQuotas

LOGIN_FRAMES: Final = 8
"""Requests that a login which was let in may send in any case: ApiVersions, SaslHandshake and two or three
steps of SaslAuthenticate.
"""

HANDSHAKE_FRAMES: Final = 4
"""What a TLS handshake counts for; its signature costs as much as a login without one."""

MOST_LOOKED_AT: Final = 16
"""How many of the eldest are looked at for one that makes room."""


class OverLimit(Exception):  # noqa: N818 - a verdict on the peer, told to the gate already
    """The connection is to be closed."""


class _Metered:
    """A socket whose received bytes are counted. Only what receives frames uses it."""

    __slots__ = ("received", "sock")

    def __init__(self, sock: Transport) -> None:
        self.sock = sock
        self.received = 0

    def recv_into(self, buffer: Writable, /) -> int:
        count = self.sock.recv_into(buffer)
        self.received += count
        return count


class UnauthenticatedConnections:
    """Of one socket server. `counted` answers the address under which one is counted. `reject` is told of
    each connection that is closed here: its listener and address, the key of the rule, and its value.
    """

    def __init__(
        self,
        quotas: UnauthenticatedQuotas,
        clock: TrioClock,
        counted: Callable[[str], str],
        reject: Callable[[str, str, str, float], None],
    ) -> None:
        self._clock = clock
        self._counted = counted
        self._open: dict[str, dict[Channel, Selector]] = {}
        self._quotas = quotas
        self._reject = reject

    def add(self, channel: Channel, selector: Selector) -> None:
        """A new connection, which is closed here if it is one too many."""
        address = self._counted(channel.address)
        found = self._open.setdefault(address, {})
        found[channel] = selector
        maximum = self._quotas.limits.connections
        if len(found) <= maximum:
            return
        for each in [each for each in found if each.authenticated]:
            del found[each]
        if len(found) > maximum:
            leaving = next(filter(_is_waited_for, islice(found, MOST_LOOKED_AT)), channel)
            self._reject(leaving.listener, leaving.address, CONNECTIONS, maximum)
            reason = f"beyond {CONNECTIONS}"
            found[leaving].close_channel(leaving, reason)

    def forget(self, channel: Channel) -> None:
        """It is closed."""
        address = self._counted(channel.address)
        found = self._open.get(address)
        if found is not None:
            found.pop(channel, None)
            if not found:
                del self._open[address]

    def measure(self, channel: Channel) -> None:
        """Counts what a channel without TLS receives until it has logged in."""
        channel.read = partial(self._read, channel)

    def meter(self, channel: Channel) -> Callable[[int], bool]:
        """Counts what a channel with TLS receives; see `TlsSocket.meter`."""
        has_begun = False

        def count(size: int) -> bool:
            nonlocal has_begun
            if channel.authenticated:
                return False
            if not has_begun:
                self._frames(channel, HANDSHAKE_FRAMES, is_begun=False)
                has_begun = True
            self._bytes(channel, size)
            return True

        return count

    def admit(self, channel: Channel) -> None:
        """One more request of a connection that has not logged in. Raises OverLimit."""
        is_begun = channel.requests < LOGIN_FRAMES and (channel.requests > 0 or channel.tls is not None)
        self._frames(channel, 1, is_begun=is_begun)

    def _read(self, channel: Channel, _sock: Transport) -> Frame | None:
        """In place of the channel's `read`, until it has logged in. Raises OverLimit, and what it raises."""
        if channel.authenticated:
            channel.read = channel.receive.read
            return channel.read(channel.sock)
        metered = _Metered(channel.sock)
        frame = channel.receive.read(cast(Transport, metered))
        self._bytes(channel, metered.received)
        return frame

    def _frames(self, channel: Channel, count: int, *, is_begun: bool) -> None:
        address = self._counted(channel.address)
        over = self._quotas.add_frames(address, count, self._clock.ms(), is_begun=is_begun)
        self._check(channel, over)

    def _bytes(self, channel: Channel, size: int) -> None:
        address = self._counted(channel.address)
        self._check(channel, self._quotas.add_bytes(address, size, self._clock.ms()))

    def _check(self, channel: Channel, over: OverRate | None) -> None:
        if over is not None:
            self._reject(channel.listener, channel.address, over.rule, over.bound)
            raise OverLimit(f"its address is over {over.rule}")


def _is_waited_for(channel: Channel) -> bool:
    """Whether the broker has nothing to do for it before its peer says more."""
    return not channel.in_hand and channel.send is None and not has_arrivals(channel)

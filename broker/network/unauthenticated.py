"""Limits unauthenticated connections: their number per address, and the bytes and requests they send.

The processor of a listener with SASL or TLS adds each new connection, and admits each of its requests until
it has logged in; bytes are counted as they are received, those of TLS as ciphertext. If an address sends more
than `quotas.unauthenticated` allows, its connection is closed. If an address has too many connections, the
oldest one from which the broker waits for data is closed, so that silent connections cannot keep out clients
behind the same address; if the broker waits for none of the oldest, it is behind with its own work, and the
new connection is closed. Other addresses and logged-in connections are not affected, nor those with the own
address of a balancer (`proxy.protocol`).
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
"""Requests that an admitted login may send in any case: ApiVersions, SaslHandshake and two or three
SaslAuthenticate.
"""

HANDSHAKE_FRAMES: Final = 4
"""Requests that a TLS handshake counts as; its signature costs as much as a login without TLS."""

MAX_EXAMINED: Final = 16
"""The number of oldest connections examined to find one to close."""


class OverLimit(Exception):  # noqa: N818 - a verdict on the peer, already reported to the gate
    """The connection exceeds a limit and must be closed."""


class _Metered:
    """A socket that counts received bytes; used only to receive frames."""

    def __init__(self, sock: Transport) -> None:
        self.sock = sock
        self.received = 0

    def recv_into(self, buffer: Writable, /) -> int:
        count = self.sock.recv_into(buffer)
        self.received += count
        return count


class UnauthenticatedConnections:
    """The unauthenticated connections of one socket server. `counted` maps an address to the one it is
    counted under. `reject` is called for each connection closed here, with its listener and address, the key
    of the rule, and its value.
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
        """Add a new connection; closes one if the address exceeds its maximum."""
        if channel.is_balancers:
            return
        address = self._counted(channel.address)
        found = self._open.setdefault(address, {})
        found[channel] = selector
        maximum = self._quotas.limits.connections
        if len(found) <= maximum:
            return
        for each in [each for each in found if each.authenticated]:
            del found[each]
        if len(found) > maximum:
            closing = next(filter(_awaits_peer, islice(found, MAX_EXAMINED)), channel)
            self._reject(closing.listener, closing.address, CONNECTIONS, maximum)
            reason = f"beyond {CONNECTIONS}"
            found[closing].close_channel(closing, reason)

    def forget(self, channel: Channel) -> None:
        """Forget a closed connection."""
        address = self._counted(channel.address)
        found = self._open.get(address)
        if found is not None:
            found.pop(channel, None)
            if not found:
                del self._open[address]

    def measure(self, channel: Channel) -> None:
        """Count the bytes that a channel without TLS receives until it has logged in."""
        channel.read_with(partial(self._read, channel))

    def meter(self, channel: Channel) -> Callable[[int], bool]:
        """Return a function that counts the bytes that a TLS channel receives; see `TlsSocket`."""
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
        """Count a request of an unauthenticated connection. Raises OverLimit."""
        is_begun = channel.requests < LOGIN_FRAMES and (channel.requests > 0 or channel.tls is not None)
        self._frames(channel, 1, is_begun=is_begun)

    def _read(self, channel: Channel, _sock: Transport) -> Frame | None:
        """Read and count, in place of the channel's `read` until it has logged in. Also raises OverLimit."""
        if channel.authenticated:
            channel.read_frames()
            return channel.read(channel.sock)
        metered = _Metered(channel.sock)
        frame = channel.receive.read(cast(Transport, metered))
        self._bytes(channel, metered.received)
        return frame

    def _frames(self, channel: Channel, count: int, *, is_begun: bool) -> None:
        if channel.is_balancers:
            return
        address = self._counted(channel.address)
        over = self._quotas.add_frames(address, count, self._clock.ms(), is_begun=is_begun)
        self._check(channel, over)

    def _bytes(self, channel: Channel, size: int) -> None:
        if channel.is_balancers:
            return
        address = self._counted(channel.address)
        self._check(channel, self._quotas.add_bytes(address, size, self._clock.ms()))

    def _check(self, channel: Channel, over: OverRate | None) -> None:
        if over is not None:
            self._reject(channel.listener, channel.address, over.rule, over.bound)
            raise OverLimit(f"its address exceeds {over.rule}")


def _awaits_peer(channel: Channel) -> bool:
    """Return whether the broker has no work for the connection until its peer sends more."""
    return not channel.requests_in_flight and channel.send is None and not has_arrivals(channel)

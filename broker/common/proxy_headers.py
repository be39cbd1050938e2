"""Reads the PROXY headers of new connections: who may send one, how long one is waited for, how many at once.

Used by the acceptors of listeners and by the console, in the task of each connection, before TLS and before
the limits of the client's address. Reads no byte behind the header: the rest of a connection, or all of one
without a header, stays in the kernel for its reader.
"""

import socket
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Final

import trio

from broker.common.proxy_protocol import (
    LONGEST_V2,
    TELLING,
    Client,
    HeaderDecoder,
    HeaderError,
    HeaderRefusal,
    may_be_header,
)

Network = IPv4Network | IPv6Network

MAX_OUTSTANDING: Final = 1_000
"""Connections of a listener whose header is outstanding; ours. A balancer's header arrives with its
connection, so those that wait are mostly of others.
"""


def is_in(networks: Iterable[Network], address: str) -> bool:
    """Return whether an address, in canonical form, is in one of the networks."""
    parsed = ip_address(address)
    return any(parsed in each for each in networks)


class ProxyHeaders:
    """The headers of one listener's new connections. `requires`: a connection must have one. `trusted` may
    send them. A header is complete after `timeout_s`, or its connection closes; beyond `most` outstanding
    headers, that which is outstanding for longest is given up.
    """

    def __init__(
        self, trusted: tuple[Network, ...], *, requires: bool, timeout_s: float, most: int = MAX_OUTSTANDING
    ) -> None:
        self.requires = requires
        self._trusted = trusted
        self._timeout_s = timeout_s
        self._most = most
        self._outstanding: dict[trio.CancelScope, None] = {}

    @property
    def outstanding(self) -> int:
        """The number of connections that are being read here."""
        return len(self._outstanding)

    def trusts(self, address: str) -> bool:
        """Return whether connections from an address, in canonical form, may have a header."""
        return is_in(self._trusted, address)

    async def read(self, sock: trio.socket.SocketType, *, is_trusted: bool) -> Client | None:
        """Read the header, if there is one, and return the client that it names; None if the connection keeps
        its own address. Raises HeaderError with the reason to close the connection. The caller owns the
        socket, also after a cancellation.
        """
        waiting = trio.CancelScope(deadline=trio.current_time() + self._timeout_s)
        if len(self._outstanding) >= self._most:
            oldest = next(iter(self._outstanding))
            del self._outstanding[oldest]
            oldest.cancel()
        self._outstanding[waiting] = None
        decoder = HeaderDecoder()
        try:
            with waiting:
                if (is_trusted and self.requires) or await _begins_header(sock):
                    if not is_trusted:
                        raise HeaderError(HeaderRefusal.UNTRUSTED)
                    await _read(sock, decoder)
                return decoder.client
            # `waiting` has ended: by its deadline, or because it was given up.
            is_kept = waiting in self._outstanding
            raise HeaderError(HeaderRefusal.TIMEOUT if is_kept else HeaderRefusal.TOO_MANY)
        except OSError as error:
            raise HeaderError(HeaderRefusal.CUT if decoder.has_begun else None) from error
        finally:
            self._outstanding.pop(waiting, None)


async def _begins_header(sock: trio.socket.SocketType) -> bool:
    """Return whether a connection begins with a header, of which nothing is read yet. Raises HeaderError if
    the peer has closed it without a byte.
    """
    seen = await sock.recv(TELLING, socket.MSG_PEEK)
    if not seen:
        raise HeaderError(None)
    if len(seen) < TELLING and may_be_header(seen):
        # Epoll reports a byte that is not read again and again.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, TELLING)
        await trio.lowlevel.wait_readable(sock)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        seen = await sock.recv(TELLING, socket.MSG_PEEK)
    return len(seen) == TELLING and may_be_header(seen)


async def _read(sock: trio.socket.SocketType, decoder: HeaderDecoder) -> None:
    while not decoder.is_complete:
        seen = await sock.recv(LONGEST_V2, socket.MSG_PEEK)
        if not seen:
            raise HeaderError(HeaderRefusal.CUT if decoder.has_begun else None)
        decoder.feed(await sock.recv(decoder.belonging(seen)))

"""TCP connections to host names. (RFC 8305, KIP-302)

`trio.open_tcp_stream` does nearly the same. This shares lookups: during an outage of DNS, thousands of
clients that reconnect would otherwise hold all of the process's worker threads, which commit metadata too.
"""

import errno
import os
import socket
from collections.abc import Sequence
from typing import Any, Final

import trio

from broker.config.listeners import Address
from broker.gateway.upstream.errors import Reason, UpstreamError

NEXT_ATTEMPT_S: Final = 0.25
"""How long the first address of a host is tried alone before the next one is tried beside it."""

_Target = tuple[int, Any]
"""Address family and socket address."""


class _Lookup:
    """A lookup in progress. Without a result and an error when it is done, it was cancelled."""

    def __init__(self) -> None:
        self.done = trio.Event()
        self.targets: list[_Target] = []
        self.error: UpstreamError | None = None


class HostNames:
    """Looks host names up, each name once at a time: callers that come during a lookup share its result."""

    def __init__(self) -> None:
        self._lookups: dict[Address, _Lookup] = {}

    async def resolve(self, address: Address) -> Sequence[_Target]:
        """Return all socket addresses, in the system's order. Raises UpstreamError DNS."""
        while True:
            lookup = self._lookups.get(address)
            if lookup is None:
                lookup = self._lookups[address] = _Lookup()
                await self._look_up(address, lookup)
            else:
                await lookup.done.wait()
            if lookup.error is not None:
                raise lookup.error.again()
            if lookup.targets:
                return lookup.targets

    async def _look_up(self, address: Address, lookup: _Lookup) -> None:
        try:
            found = await trio.socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
            lookup.targets = [(family, target) for family, _, _, _, target in found]
            if not lookup.targets:
                lookup.error = _unknown(address, "it has no address")
        except (OSError, UnicodeError) as error:
            lookup.error = _unknown(address, (isinstance(error, OSError) and error.strerror) or str(error))
        finally:
            del self._lookups[address]
            lookup.done.set()


async def open_tcp(address: Address, names: HostNames) -> socket.socket:
    """Return a connected socket that does not block. All addresses of the name are tried.

    Raises UpstreamError. If cancelled, no socket stays open.
    """
    targets = await names.resolve(address)
    failures: list[OSError] = []
    sock = await (_attempt(targets[0], failures) if len(targets) == 1 else _first_of(targets, failures))
    if sock is None:
        raise _not_connected(address, failures)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return sock


async def _attempt(target: _Target, failures: list[OSError]) -> socket.socket | None:
    """Connect to one socket address. Returns None after a failure, which it adds to `failures`."""
    family, name = target
    sock = None
    is_connected = False
    try:
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setblocking(False)
        code = sock.connect_ex(name)
        if code == errno.EINPROGRESS:
            await trio.lowlevel.wait_writable(sock)
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        is_connected = True
        return sock
    except OSError as error:
        failures.append(error)
        return None
    finally:
        if sock is not None and not is_connected:
            sock.close()


async def _first_of(targets: Sequence[_Target], failures: list[OSError]) -> socket.socket | None:
    """Connect to the first socket address that accepts. An attempt begins when the one before it has failed,
    or has taken NEXT_ATTEMPT_S.
    """
    winners: list[socket.socket] = []

    async def attempt(target: _Target, ended: trio.Event) -> None:
        sock = await _attempt(target, failures)
        if sock is not None:
            winners.append(sock)
            nursery.cancel_scope.cancel()
        ended.set()

    try:
        async with trio.open_nursery() as nursery:
            for target in targets:
                ended = trio.Event()
                nursery.start_soon(attempt, target, ended)
                with trio.move_on_after(NEXT_ATTEMPT_S):
                    await ended.wait()
        return winners.pop() if winners else None
    finally:
        for spare in winners:
            spare.close()


def _not_connected(address: Address, failures: list[OSError]) -> UpstreamError:
    codes = {error.errno for error in failures if error.errno}
    reason = Reason.TIMEOUT if codes == {errno.ETIMEDOUT} else Reason.REFUSED
    return UpstreamError(reason, f"{address}: {', '.join(sorted(map(os.strerror, codes)))}")


def _unknown(address: Address, why: str) -> UpstreamError:
    return UpstreamError(Reason.DNS, f"{address}: cannot resolve the host name: {why}")

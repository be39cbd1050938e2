"""Limits on the number of console connections, in total and per address.

Called by http.http_server for every accepted connection. A connection is idle while no request of it is
being handled: during the TLS handshake, while its head is incomplete, while its request waits for a turn,
and between requests. At a limit the longest idle connection is closed: one of the same address if the
address is at its own limit, otherwise one of the address with the most idle connections. So an address that
opens connections without requests replaces only its own.

If no connection is idle, a new one enters a small reserve that serves health checks only, so that a broker
with a busy console still appears healthy. Pure: independent of sockets and clocks.
"""

from collections.abc import Callable
from typing import Final

RESERVE: Final = 16
"""Connections beyond the limit, for health checks only. The longest idle one of them is closed for a new one.
"""


class CountedConnection:
    """A counted connection. `close` ends it, and is called at most once and never after `leave`. A connection
    with `is_reserved` may send health checks only.
    """

    __slots__ = ("_limits", "address", "close", "is_reserved")

    def __init__(
        self, limits: "ConnectionLimits", address: str, close: Callable[[], None], is_reserved: bool
    ) -> None:
        self._limits = limits
        self.address = address
        self.close = close
        self.is_reserved = is_reserved

    def set_idle(self, is_idle: bool) -> None:
        """Set whether the connection has no request in progress."""
        self._limits.set_idle(self, is_idle)

    def leave(self) -> None:
        """Remove a closed connection."""
        self._limits.leave(self)


class ConnectionLimits:
    """`maximum` is console.max.connections, `per_address` console.max.connections.per.ip."""

    __slots__ = ("_by_address", "_idle", "_maximum", "_per_address", "_reserved", "_total")

    def __init__(self, maximum: int, per_address: int) -> None:
        self._maximum = maximum
        self._per_address = per_address
        self._by_address: dict[str, set[CountedConnection]] = {}
        self._idle: dict[str, dict[CountedConnection, None]] = {}
        self._reserved: dict[CountedConnection, bool] = {}
        self._total = 0

    def __len__(self) -> int:
        """Return the number of open connections outside the reserve."""
        return self._total

    def enter(
        self, address: str, close: Callable[[], None], *, is_proxys: bool = False
    ) -> CountedConnection | None:
        """Count a connection, idle at first, and close another one at a limit. Return None if even the
        reserve is full. The limit of each address does not apply to a proxy's own, `is_proxys`.
        """
        entry = CountedConnection(self, address, close, is_reserved=False)
        if not is_proxys and len(self._by_address.get(address, ())) >= self._per_address:
            has_space = self._close_eldest(self._idle.get(address))
        elif self._total >= self._maximum:
            has_space = self._close_eldest(max(self._idle.values(), key=len, default=None))
        else:
            has_space = True
        if not has_space:
            return self._enter_reserve(entry)
        self._by_address.setdefault(address, set()).add(entry)
        self._idle.setdefault(address, {})[entry] = None
        self._total += 1
        return entry

    def set_idle(self, entry: CountedConnection, is_idle: bool) -> None:
        if entry.is_reserved:
            if self._reserved.pop(entry, None) is not None:
                self._reserved[entry] = is_idle
            return
        if entry not in self._by_address.get(entry.address, ()):
            return
        self._forget_idle(entry)
        if is_idle:
            self._idle.setdefault(entry.address, {})[entry] = None

    def leave(self, entry: CountedConnection) -> None:
        self._reserved.pop(entry, None)
        of_address = self._by_address.get(entry.address)
        if of_address is None or entry not in of_address:
            return
        of_address.remove(entry)
        if not of_address:
            del self._by_address[entry.address]
        self._forget_idle(entry)
        self._total -= 1

    def _enter_reserve(self, entry: CountedConnection) -> CountedConnection | None:
        if len(self._reserved) >= RESERVE:
            eldest = next((each for each, is_idle in self._reserved.items() if is_idle), None)
            if eldest is None:
                return None
            self.leave(eldest)
            eldest.close()
        entry.is_reserved = True
        self._reserved[entry] = True
        return entry

    def _close_eldest(self, idle: dict[CountedConnection, None] | None) -> bool:
        if not idle:
            return False
        eldest = next(iter(idle))
        self.leave(eldest)
        eldest.close()
        return True

    def _forget_idle(self, entry: CountedConnection) -> None:
        idle = self._idle.get(entry.address)
        if idle is not None:
            idle.pop(entry, None)
            if not idle:
                del self._idle[entry.address]

"""Which connections of a drain end when. Called by `drain`; knows no sockets, tasks or clocks.

Of N connections, the k-th may end (k - 1) / N of the timeout after the beginning, so the rate at which
clients connect elsewhere is N a timeout at most. Idle ones come first, the longest idle one before the
others. One that is busy whenever it is looked at comes last. Those that are accepted meanwhile end in the
same way after the timeout.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

Connection = TypeVar("Connection")

LOOKED_AT: Final = 64
"""Busy connections that are passed over in the search for an idle one, before one of them is taken; ours."""


class Pacing(Generic[Connection]):
    """`connections` are in the order in which they should end. Those that are added later have the `later_ms`
    after the timeout. `is_closed` says whether one has closed by itself, which takes no other one's turn;
    `is_idle` whether nothing of it is in flight.
    """

    def __init__(
        self,
        connections: Iterable[Connection],
        begun_ms: int,
        timeout_ms: int,
        later_ms: int,
        *,
        is_idle: Callable[[Connection], bool],
        is_closed: Callable[[Connection], bool],
    ) -> None:
        self._waiting = deque(connections)
        self._total = len(self._waiting)
        self._taken = 0
        self._begun_ms = begun_ms
        self._timeout_ms = timeout_ms
        self._later: dict[Connection, None] = {}
        self._later_ms = later_ms
        self._is_idle = is_idle
        self._is_closed = is_closed

    def add(self, connection: Connection) -> None:
        """Add a connection that was accepted later."""
        self._later[connection] = None

    def remove(self, connection: Connection) -> None:
        """Forget a connection that was added later, and has closed by itself."""
        self._later.pop(connection, None)

    def take(self, now_ms: int) -> list[Connection]:
        """Return the connections that end now."""
        found = self._due(now_ms)
        if self._later and now_ms >= self._ends_ms:
            self._begun_ms, self._timeout_ms, self._later_ms = self._ends_ms, self._later_ms, 0
            self._waiting, self._later = deque(self._later), {}
            self._total, self._taken = len(self._waiting), 0
            found += self._due(now_ms)
        return found

    def next_ms(self) -> int | None:
        """Return when the next connection may end; None if none is left."""
        if self._waiting:
            return self._begun_ms - (-self._taken * self._timeout_ms // self._total)
        return self._ends_ms if self._later else None

    @property
    def _ends_ms(self) -> int:
        return self._begun_ms + self._timeout_ms

    def _due(self, now_ms: int) -> list[Connection]:
        found: list[Connection] = []
        left = self._allowed(now_ms) - self._taken
        while len(found) < left and self._waiting:
            connection = self._next()
            if connection is not None:
                found.append(connection)
        self._taken += len(found)
        return found

    def _allowed(self, now_ms: int) -> int:
        """Return how many may have ended by now."""
        elapsed_ms = now_ms - self._begun_ms
        if elapsed_ms >= self._timeout_ms:
            return self._total
        return self._total * elapsed_ms // self._timeout_ms + 1

    def _next(self) -> Connection | None:
        """Return the next connection; None if those that were looked at have closed by themselves."""
        waiting = self._waiting
        for _ in range(min(LOOKED_AT, len(waiting))):
            connection = waiting.popleft()
            if self._is_closed(connection):
                continue
            if self._is_idle(connection):
                return connection
            waiting.append(connection)
        while waiting:
            connection = waiting.popleft()
            if not self._is_closed(connection):
                return connection
        return None

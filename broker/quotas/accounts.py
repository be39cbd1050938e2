"""What every client does, whether a rule limits it or not: bytes, requests and their time by user and
client-id.

Costs requests nothing: connections count for themselves, and what they have counted since the last look is
booked when somebody looks (the timer, the console, Prometheus) and when they close. Names are the clients'
own choice, so there are at most `MAX_ACCOUNTS`, and who was idle longest goes. Knows no rule and no socket.
"""

from collections.abc import Iterable, Iterator
from heapq import nsmallest
from typing import Final, Protocol

from broker.metrics.recent import Recent

MAX_ACCOUNTS: Final = 1_000
"""Clients that are kept; when there is one more the eighth of them that was idle longest goes, and of those
that are busy alike who does least.
"""

Counts = tuple[int, int, int, int]
"""Bytes in, bytes out, requests, and nanoseconds of the broker's thread; the last only while requests are
timed.
"""

NOTHING: Final = (0, 0, 0, 0)


class Counted(Protocol):
    """What is to be known of a connection; its counters only grow. Until it is `authenticated` it is
    nobody's.
    """

    principal: str
    client_id: str | None
    authenticated: bool
    bytes_in: int
    bytes_out: int
    requests: int
    request_ns: int


class Account:
    """One client since `since_ms`. `connections` is how many it had at the last look, `counts` its totals."""

    __slots__ = ("client_id", "connections", "counts", "last_active_ms", "recent", "since_ms", "user")

    def __init__(self, user: str, client_id: str, now_ms: int) -> None:
        self.user = user
        self.client_id = client_id
        self.since_ms = now_ms
        self.last_active_ms = now_ms
        self.connections = 0
        self.counts: Counts = NOTHING
        self.recent = Recent(len(NOTHING), now_ms)

    def book(self, more: Counts, now_ms: int) -> None:
        self.last_active_ms = now_ms
        self.recent.add(more, now_ms)
        had = self.counts
        self.counts = (had[0] + more[0], had[1] + more[1], had[2] + more[2], had[3] + more[3])

    def per_second(self, now_ms: int) -> list[float]:
        """Of each of the counts, over the last ten to fifteen seconds."""
        return self.recent.per_second(now_ms - self.since_ms, now_ms)


class Accounts:
    """Iterates over every account, in no particular order."""

    __slots__ = ("_accounts", "_booked", "_max_accounts")

    def __init__(self, max_accounts: int = MAX_ACCOUNTS) -> None:
        self._accounts: dict[tuple[str, str], Account] = {}
        self._max_accounts = max_accounts
        # What each open connection had counted when it was looked at last.
        self._booked: dict[Counted, Counts] = {}

    def look(self, connections: Iterable[Counted], now_ms: int) -> None:
        """Books what `connections`, all that are open, have counted since the last look."""
        found: dict[tuple[str, str], list[int]] = {}
        booked = self._booked
        for each in connections:
            if not each.authenticated:
                continue
            sums = found.get(key := (each.principal, each.client_id or ""))
            if sums is None:
                sums = found[key] = [0, 0, 0, 0, 0]
            sums[4] += 1
            counts = (each.bytes_in, each.bytes_out, each.requests, each.request_ns)
            had = booked.get(each, NOTHING)
            if counts != had:
                booked[each] = counts
                sums[0] += counts[0] - had[0]
                sums[1] += counts[1] - had[1]
                sums[2] += counts[2] - had[2]
                sums[3] += counts[3] - had[3]
        for account in self._accounts.values():
            account.connections = 0
        for key, (bytes_in, bytes_out, requests, request_ns, connected) in found.items():
            self._book(key, (bytes_in, bytes_out, requests, request_ns), now_ms)
            if (known := self._accounts.get(key)) is not None:
                known.connections = connected

    def closed(self, connection: Counted, now_ms: int) -> None:
        """Books the rest of a connection that will not be looked at again."""
        had = self._booked.pop(connection, NOTHING)
        if connection.authenticated:
            more = (
                connection.bytes_in - had[0],
                connection.bytes_out - had[1],
                connection.requests - had[2],
                connection.request_ns - had[3],
            )
            self._book((connection.principal, connection.client_id or ""), more, now_ms)

    def find(self, user: str, client_id: str) -> Account | None:
        return self._accounts.get((user, client_id))

    def __iter__(self) -> Iterator[Account]:
        return iter(list(self._accounts.values()))

    def __len__(self) -> int:
        return len(self._accounts)

    def _book(self, key: tuple[str, str], more: Counts, now_ms: int) -> None:
        """Who has done nothing since it was forgotten stays forgotten."""
        if more == NOTHING:
            return
        account = self._accounts.get(key)
        if account is None:
            if len(self._accounts) >= self._max_accounts:
                self._make_space(now_ms)
            account = self._accounts[key] = Account(*key, now_ms)
        account.book(more, now_ms)

    def _make_space(self, now_ms: int) -> None:
        def busy(key: tuple[str, str]) -> tuple[int, float]:
            account = self._accounts[key]
            return (account.last_active_ms, sum(account.per_second(now_ms)[:2]))

        for key in nsmallest(max(1, self._max_accounts // 8), self._accounts, key=busy):
            del self._accounts[key]

"""Bytes, requests and request time of every client, limited or not, by user and client id.

Adds no cost per request: connections keep their own counters, and the difference since the last update is
booked on each update (the timer, the console, Prometheus) and when a connection closes. Clients choose their
names, so at most `MAX_ACCOUNTS` accounts exist; the longest idle accounts are evicted first. `families` has
the Prometheus metrics of the busiest clients. Independent of rules and sockets.
"""

from array import array
from collections.abc import Iterable, Iterator
from heapq import nsmallest
from typing import Final, Protocol

from broker.common.slices import nlargest_in_steps
from broker.metrics.families import Families, Sample, counter, gauge

MAX_ACCOUNTS: Final = 1_000
"""Accounts kept. One more evicts an eighth of them: the longest idle first, and the least busy among equals.
"""

Counts = tuple[int, int, int, int]
"""Bytes in, bytes out, requests, and nanoseconds of the broker's thread. The last grows only while requests
are timed.
"""

NOTHING: Final = (0, 0, 0, 0)

INTERVAL_MS: Final = 5_000
INTERVALS: Final = 60
"""Five minutes, including the present interval."""

MAX_CLIENTS: Final = 250
"""Clients that each family includes: those that moved the most bytes in the last seconds."""

FAMILIES: Final = (
    ("kafka_server_client_incoming_bytes_total", "Bytes of requests, by client"),
    ("kafka_server_client_outgoing_bytes_total", "Bytes of responses, by client"),
    ("kafka_server_client_requests_total", "Requests, by client"),
)


class Counted(Protocol):
    """A connection's counters, which only grow. A connection is counted once it is `authenticated`."""

    principal: str
    client_id: str | None
    authenticated: bool
    bytes_in: int
    bytes_out: int
    requests: int
    request_ns: int


class RecentCounts:
    """The counts of the last minutes in intervals of 5 s: a ring of `INTERVALS` rows of `width` integers.

    There are many clients, so it is one array, however much is counted.
    """

    __slots__ = ("_newest", "_rows", "_width")

    def __init__(self, width: int, now_ms: int) -> None:
        self._width = width
        self._rows = array("q", bytes(8 * width * INTERVALS))
        self._newest = now_ms // INTERVAL_MS

    def add(self, values: tuple[int, ...], now_ms: int) -> None:
        """Add `values`, one for each metric, to the interval of `now_ms`."""
        self._begin_interval(now_ms)
        first = self._newest % INTERVALS * self._width
        for index, value in enumerate(values, first):
            self._rows[index] += value

    def per_second(self, seen_ms: int, now_ms: int) -> list[float]:
        """Return the rate of each metric over the present interval and the two before it.

        Divides by `seen_ms` if the client is younger, and by at least a second.
        """
        intervals = 3
        span_ms = now_ms % INTERVAL_MS + (intervals - 1) * INTERVAL_MS
        seconds = max(min(span_ms, seen_ms), 1_000) / 1000.0
        self._begin_interval(now_ms)
        rows, width = self._rows, self._width
        starts = [(self._newest - age) % INTERVALS * width for age in range(intervals)]
        return [sum(rows[start + metric] for start in starts) / seconds for metric in range(width)]

    def rows(self, now_ms: int) -> list[tuple[int, ...]]:
        """Return all intervals, from the oldest to the present one."""
        self._begin_interval(now_ms)
        width, rows = self._width, self._rows
        starts = ((self._newest + 1 + index) % INTERVALS * width for index in range(INTERVALS))
        return [tuple(rows[start : start + width]) for start in starts]

    def _begin_interval(self, now_ms: int) -> None:
        """Clear the intervals that have begun since, possibly more than the ring has."""
        now = now_ms // INTERVAL_MS
        if now <= self._newest:
            return
        for interval in range(max(self._newest, now - INTERVALS) + 1, now + 1):
            start = interval % INTERVALS * self._width
            self._rows[start : start + self._width] = array("q", bytes(8 * self._width))
        self._newest = now


class Account:
    """A client's totals (`counts`) since `since_ms`, and its `connections` at the last update."""

    __slots__ = ("client_id", "connections", "counts", "last_active_ms", "recent", "since_ms", "user")

    def __init__(self, user: str, client_id: str, now_ms: int) -> None:
        self.user = user
        self.client_id = client_id
        self.since_ms = now_ms
        self.last_active_ms = now_ms
        self.connections = 0
        self.counts: Counts = NOTHING
        self.recent = RecentCounts(len(NOTHING), now_ms)

    def book(self, more: Counts, now_ms: int) -> None:
        self.last_active_ms = now_ms
        self.recent.add(more, now_ms)
        before = self.counts
        self.counts = (before[0] + more[0], before[1] + more[1], before[2] + more[2], before[3] + more[3])

    def per_second(self, now_ms: int) -> list[float]:
        """Return the rate of each count over the last ten to fifteen seconds."""
        return self.recent.per_second(now_ms - self.since_ms, now_ms)


class Accounts:
    """All accounts. Iteration is in no particular order."""

    def __init__(self, max_accounts: int = MAX_ACCOUNTS) -> None:
        self._accounts: dict[tuple[str, str], Account] = {}
        self._max_accounts = max_accounts
        # The counts of each open connection at the last update.
        self._booked: dict[Counted, Counts] = {}

    def update(self, connections: Iterable[Counted], now_ms: int) -> None:
        """Book what `connections`, all that are open, have counted since the last update."""
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
            before = booked.get(each, NOTHING)
            if counts != before:
                booked[each] = counts
                sums[0] += counts[0] - before[0]
                sums[1] += counts[1] - before[1]
                sums[2] += counts[2] - before[2]
                sums[3] += counts[3] - before[3]
        for account in self._accounts.values():
            account.connections = 0
        for key, (bytes_in, bytes_out, requests, request_ns, open_now) in found.items():
            self._book(key, (bytes_in, bytes_out, requests, request_ns), now_ms)
            if (known := self._accounts.get(key)) is not None:
                known.connections = open_now

    def closed(self, connection: Counted, now_ms: int) -> None:
        """Book the remaining counts of a closed connection."""
        before = self._booked.pop(connection, NOTHING)
        if connection.authenticated:
            more = (
                connection.bytes_in - before[0],
                connection.bytes_out - before[1],
                connection.requests - before[2],
                connection.request_ns - before[3],
            )
            self._book((connection.principal, connection.client_id or ""), more, now_ms)

    def find(self, user: str, client_id: str) -> Account | None:
        return self._accounts.get((user, client_id))

    def __iter__(self) -> Iterator[Account]:
        return iter(list(self._accounts.values()))

    def __len__(self) -> int:
        return len(self._accounts)

    def _book(self, key: tuple[str, str], more: Counts, now_ms: int) -> None:
        """Add `more` to the account of `key`. A client without new counts gets no account."""
        if more == NOTHING:
            return
        account = self._accounts.get(key)
        if account is None:
            if len(self._accounts) >= self._max_accounts:
                self._evict(now_ms)
            account = self._accounts[key] = Account(*key, now_ms)
        account.book(more, now_ms)

    def _evict(self, now_ms: int) -> None:
        def busy(key: tuple[str, str]) -> tuple[int, float]:
            account = self._accounts[key]
            return (account.last_active_ms, sum(account.per_second(now_ms)[:2]))

        for key in nsmallest(max(1, self._max_accounts // 8), self._accounts, key=busy):
            del self._accounts[key]


def families(accounts: Accounts, now_ms: int) -> Families:
    """Yield the families of `accounts`, which must be up to date. A source for the metrics registry."""
    known = list(accounts)
    busiest = yield from nlargest_in_steps(
        MAX_CLIENTS, known, lambda account: sum(account.per_second(now_ms)[:2])
    )
    labels = [(("user", account.user), ("client_id", account.client_id)) for account in busiest]
    for column, (name, text) in enumerate(FAMILIES):
        samples = [
            Sample(label, account.counts[column]) for label, account in zip(labels, busiest, strict=True)
        ]
        yield counter(name, text, samples)
    open_now = [Sample(label, account.connections) for label, account in zip(labels, busiest, strict=True)]
    yield gauge("kafka_server_client_connections", "Open connections, by client", open_now)
    yield gauge("weir_clients_left_out", "Clients omitted from this page", len(known) - len(busiest))

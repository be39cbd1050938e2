"""Greedy clients on a clock of milliseconds, while limits change: the bytes admitted and the bytes allowed.

The manager's own `throttled` mutes and unmutes the clients, as the reapers of the network package do.
"""

import heapq
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, count

from broker.common.clock import BASE_MS
from broker.quotas.bandwidth import RateQuotaManager
from tests.quotas.scene import Connection

MINUTE_MS = 60_000

Change = tuple[int, Callable[[int], None]]
"""Time in ms from the beginning, and the action, which is called with the clock's time."""


class Load:
    """Greedy clients. `sizes` are their request sizes; `clients` are their names, all the same by default.

    Requests are served one after the other, `cost_ms` each. With `is_fetch` each is cut to what the limit
    admits at once, and a throttled one is subtracted and sent again.
    """

    def __init__(
        self,
        manager: RateQuotaManager,
        sizes: Sequence[int],
        *,
        seconds: int,
        clients: Sequence[Connection] | None = None,
        cost_ms: float = 0.1,
        is_fetch: bool = False,
    ) -> None:
        self.manager = manager
        self.sizes = sizes
        self.clients = clients or [Connection(principal="alice", client_id="app") for _ in sizes]
        self.span_ms = seconds * 1_000
        self._cost_ms = cost_ms
        self._is_fetch = is_fetch
        self._through = [0.0] * (self.span_ms + 1)

    def run(self, changes: Iterable[Change] = ()) -> None:
        throttled = self.manager.throttled
        order = count()
        number_of = {id(client): number for number, client in enumerate(self.clients)}
        ready = [(0.0, next(order), number) for number in range(len(self.clients))]
        later = iter(sorted(changes, key=lambda change: change[0]))
        change = next(later, None)
        wire_free_ms = 0.0
        while True:
            deadline = throttled.next_deadline()
            freed_ms = self.span_ms if deadline is None else max(deadline - BASE_MS, 0)
            asked_ms = max(ready[0][0], wire_free_ms) if ready else self.span_ms
            if change is not None and change[0] <= min(freed_ms, asked_ms):
                now_ms = BASE_MS + change[0]
                change[1](now_ms)
                for client in throttled.expired(now_ms):
                    heapq.heappush(ready, (change[0], next(order), number_of[id(client)]))
                change = next(later, None)
            elif freed_ms <= asked_ms and deadline is not None:
                if freed_ms >= self.span_ms:
                    break
                for client in throttled.expired(BASE_MS + freed_ms):
                    heapq.heappush(ready, (freed_ms, next(order), number_of[id(client)]))
            elif asked_ms < self.span_ms:
                number = heapq.heappop(ready)[2]
                wire_free_ms = asked_ms + self._cost_ms
                if self._ask(number, int(asked_ms)):
                    heapq.heappush(ready, (wire_free_ms, next(order), number))
            else:
                break
        self._sums = [0.0, *accumulate(self._through)]

    def _ask(self, number: int, at_ms: int) -> bool:
        """Return whether the client may continue at once."""
        client, size, now_ms = self.clients[number], self.sizes[number], BASE_MS + at_ms
        if self._is_fetch:
            fits = self.manager.max_value_in_window(client.principal, client.client_id, now_ms)
            size = int(min(size, fits))
        throttle = self.manager.record(client.principal, client.client_id, size, now_ms)
        if throttle is None or not self._is_fetch:
            self._through[at_ms] += size
        if throttle is None:
            return True
        if self._is_fetch:
            self.manager.unrecord(client.principal, client.client_id, size, now_ms)
        self.manager.throttle(client, client, throttle, now_ms)
        return False

    def through(self, begin_ms: int, end_ms: int) -> float:
        """Return the bytes from `begin_ms` to before `end_ms`."""
        return self._sums[end_ms] - self._sums[begin_ms]


class Limit:
    """A limit that changes: each change calls `set`, and `allowed` is its integral."""

    def __init__(self, seconds: int) -> None:
        self._values: list[float] = [0.0] * (seconds * 1_000)
        self._sums: list[float] = []

    def steps(self, values: Iterable[tuple[int, float]], put: Callable[[float, int], None]) -> list[Change]:
        """Return changes that `put` each value at its time; the first is at 0."""
        pairs = sorted(values, key=lambda pair: pair[0])
        ends = [at_ms for at_ms, _ in pairs[1:]] + [len(self._values)]
        for (at_ms, value), end_ms in zip(pairs, ends, strict=True):
            self._values[at_ms:end_ms] = [value / 1000] * (end_ms - at_ms)
        self._sums = [0.0, *accumulate(self._values)]
        return [(at_ms, _putting(put, value)) for at_ms, value in pairs]

    def allowed(self, begin_ms: int, end_ms: int) -> float:
        return self._sums[end_ms] - self._sums[begin_ms]


def _putting(put: Callable[[float, int], None], value: float) -> Callable[[int], None]:
    return lambda now_ms: put(value, now_ms)


def worst_minutes(load: Load, limit: Limit) -> tuple[float, float]:
    """Return the largest deviations of any minute above and below the integral of the limit, as shares.

    Excludes one request of each client and one more: a request cannot be divided, waits for the debt before
    it, and a minute can begin or end next to it. Minutes that begin before the initial burst is repaid are
    checked from the beginning only.
    """
    slack = sum(load.sizes) + max(load.sizes)
    span_ms = load.span_ms
    above = max(_excess(load, limit, 0, MINUTE_MS, slack), 0.0)
    below = max(_lack(load, limit, 0, MINUTE_MS, slack), 0.0)
    repaid_ms = next(
        (
            at_ms
            for at_ms in range(1_000, span_ms - MINUTE_MS, 50)
            if load.through(0, at_ms) <= limit.allowed(0, at_ms) + slack
        ),
        span_ms,
    )
    for begin_ms in range(1_000, span_ms - MINUTE_MS, 100):
        end_ms = begin_ms + MINUTE_MS
        above = max(above, _excess(load, limit, begin_ms, end_ms, slack))
        if begin_ms >= repaid_ms:
            below = max(below, _lack(load, limit, begin_ms, end_ms, slack))
    return above, below


def _excess(load: Load, limit: Limit, begin_ms: int, end_ms: int, slack: float) -> float:
    allowed = limit.allowed(begin_ms, end_ms)
    return (load.through(begin_ms, end_ms) - slack - allowed) / allowed


def _lack(load: Load, limit: Limit, begin_ms: int, end_ms: int, slack: float) -> float:
    allowed = limit.allowed(begin_ms, end_ms)
    return (allowed - slack - load.through(begin_ms, end_ms)) / allowed

"""The idle shares of network threads and request handlers. (Kafka: NetworkProcessorAvgIdlePercent,
RequestHandlerAvgIdlePercent)

All of them are tasks of one thread, which has an idle share of its own: when that is 0, neither network
threads nor handlers get more time, however idle each of them is. Each share is 1 less these parts of a
window:

| share of | is reduced by |
| --- | --- |
| a network thread | its turns, TLS handshakes, and the responses that handlers write for it. (Kafka: \
io-wait-ratio) |
| the handlers of a pool | requests, callbacks and commits; a handler that waits within a slow request \
counts as one of `num.io.threads` |
| the thread | everything |

Computed when it is read, from totals that others keep.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from broker.config.listeners import Plane
from broker.network.clock import LoopIdle
from broker.network.socket_server import SocketServer

WINDOW_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Idle:
    """Shares from 0 (saturated) to 1, also by processor id and by pool. Unknown ones are 1, as in Kafka."""

    thread: float = 1.0
    network: float = 1.0
    handlers: float = 1.0
    processors: Mapping[int, float] = field(default_factory=dict)
    pools: Mapping[Plane, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Totals:
    """Nanoseconds since the start. Handlers of a pool work, and wait within slow requests."""

    now: int
    idle: int
    busy: Mapping[int, int]
    worked: Mapping[Plane, int]
    waited: Mapping[Plane, int]


class IdleShares:
    """The shares of one reader. A window ends at the first `update` that is a second or more after the one
    before; until the first window has ended, all shares are 1.
    """

    def __init__(self, server: SocketServer, loop: LoopIdle) -> None:
        self._server = server
        self._loop = loop
        self._before: _Totals | None = None
        self._idle = Idle()

    def update(self, now_ns: int) -> Idle:
        """Return the shares over the last whole window."""
        began_ns = self._loop.began_ns
        if began_ns is None:
            return self._idle
        before = self._before or _Totals(began_ns, 0, {}, {}, {})
        if now_ns - before.now >= WINDOW_NS:
            totals = self._totals(now_ns)
            self._idle = self._between(before, totals)
            self._before = totals
        return self._idle

    def _totals(self, now_ns: int) -> _Totals:
        pools = {name: plane.handlers for name, plane in self._server.planes.items()}
        return _Totals(
            now_ns,
            self._loop.idle_ns,
            {each.id: each.busy_ns(now_ns) for each in self._server.processors()},
            {name: pool.worked_ns() for name, pool in pools.items()},
            {name: pool.waits.total_ns(now_ns) for name, pool in pools.items()},
        )

    def _between(self, before: _Totals, now: _Totals) -> Idle:
        span = now.now - before.now
        processors = {each: _free(now.busy[each] - before.busy.get(each, 0), span) for each in now.busy}
        worked = {name: now.worked[name] - before.worked.get(name, 0) for name in now.worked}
        waited = {name: now.waited[name] - before.waited.get(name, 0) for name in now.waited}
        sizes = {name: plane.handlers.size for name, plane in self._server.planes.items()}
        return Idle(
            min((now.idle - before.idle) / span, 1.0),
            _mean(processors.values()),
            _free(sum(worked.values()) + sum(waited.values()) / sum(sizes.values()), span),
            processors,
            {name: _free(worked[name] + waited[name] / sizes[name], span) for name in worked},
        )


def _free(used_ns: float, span_ns: int) -> float:
    return min(max(1.0 - used_ns / span_ns, 0.0), 1.0)


def _mean(shares: Iterable[float]) -> float:
    known = list(shares)
    return sum(known) / len(known) if known else 1.0

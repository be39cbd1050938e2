"""The metrics of a socket server: of its processors and their connections, and the idle shares of its
threads. (Kafka: Selector.SelectorMetrics, NetworkProcessorAvgIdlePercent, RequestHandlerAvgIdlePercent)

The Prometheus exporter and the console read them. Nothing is counted here; the values are computed, when they
are read, from the counters of processor, selector, responder and channels, and from totals that others keep.

All network threads and request handlers are tasks of one thread, which has an idle share of its own: when
that is 0, neither network threads nor handlers get more time, however idle each of them is. Each idle share
is 1 less these parts of a window:

| share of | is reduced by |
| --- | --- |
| a network thread | its turns, TLS handshakes, and the responses that handlers write for it. (Kafka: \
io-wait-ratio) |
| the handlers of a pool | requests, callbacks and commits; a handler that waits within a slow request \
counts as one of `num.io.threads` |
| the thread | everything |
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from broker.config.listeners import Plane
from broker.network.automq.server_mode import PipelinedResponder
from broker.network.clock import LoopIdle
from broker.network.processor import Processor
from broker.network.socket_server import SocketServer

MAX_CLIENTS: Final = 100
"""The maximum number of distinct client software versions, and of ciphers; clients choose these values.
(Kafka: IntGaugeSuite)
"""


class SelectorTotals(NamedTuple):
    """Totals since the processor began, or their growth per second. Times are nanoseconds.

    `received` and `sent` are complete requests and responses, `bytes_in` and `bytes_out` their bytes with
    size prefixes. `waiting_ns` is the time spent waiting for ready sockets, `busy_ns` all other time.
    """

    opened: float
    closed: float
    logins: float
    failed_logins: float
    logins_without_reauth: float
    renewals: float
    failed_renewals: float
    received: float
    sent: float
    bytes_in: float
    bytes_out: float
    polls: float
    waiting_ns: float
    busy_ns: float


def totals_of(processor: Processor, now_ns: int) -> SelectorTotals:
    counts, selector = processor.selector.counts, processor.selector
    received, bytes_in, bytes_out = counts.closed_requests, counts.closed_bytes_in, counts.closed_bytes_out
    in_flight = 0
    for channel in selector:
        received += channel.requests
        bytes_in += channel.bytes_in
        bytes_out += channel.bytes_out
        in_flight += channel.requests_in_flight
    return SelectorTotals(
        counts.opened,
        counts.closed,
        counts.logins,
        counts.failed_logins,
        counts.logins_without_reauth,
        counts.renewals,
        counts.failed_renewals,
        received,
        received - in_flight - counts.unanswered - processor.responder.silent,
        bytes_in,
        bytes_out,
        processor.polls,
        processor.idle_ns(now_ns),
        processor.busy_ns(now_ns),
    )


def client_software(processor: Processor) -> dict[tuple[str, str], int]:
    """Return the number of connections by client software name and version; those beyond MAX_CLIENTS are
    left out, as in Kafka.
    """
    return _counted((channel.software_name, channel.software_version) for channel in processor.selector)


def ciphers(processor: Processor) -> dict[tuple[str, str], int]:
    """Return the number of connections by cipher suite and TLS version, up to MAX_CLIENTS; without those
    that do not use TLS or are still in their handshake.
    """
    return _counted(channel.tls for channel in processor.selector if channel.tls is not None)


def _counted(kinds: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for kind in kinds:
        if kind in found:
            found[kind] += 1
        elif len(found) < MAX_CLIENTS:
            found[kind] = 1
    return found


IDLE_MS: Final = 60_000
"""Inactive time after which a connection counts as idle; far below connections.max.idle.ms."""


class FlowTotals(NamedTuple):
    """Connections muted by a quota or a watermark since the start, and those unmuted again."""

    mutes: int
    unmutes: int


def flow_totals(server: SocketServer) -> FlowTotals:
    mutes, unmutes = server.throttling.started, server.throttling.ended
    for processor in server.processors():
        responder = processor.responder
        if isinstance(responder, PipelinedResponder):
            mutes += responder.watermark_mutes
            unmutes += responder.watermark_unmutes
    return FlowTotals(mutes, unmutes)


def oversized(server: SocketServer) -> int:
    """Return the number of connections that current processors closed for the size of a request."""
    return sum(each.selector.counts.oversized for each in server.processors())


def cut_off(server: SocketServer) -> int:
    """Return the number of connections that current processors closed within a response whose records could
    not be read.
    """
    return sum(each.selector.counts.cut_off for each in server.processors())


def idle_connections(processor: Processor, now_ms: int) -> int:
    return sum(now_ms - channel.last_active_ms >= IDLE_MS for channel in processor.selector)


def max_in_flight(processor: Processor) -> int:
    """Return the largest number of requests in flight on one connection."""
    return max((channel.requests_in_flight for channel in processor.selector), default=0)


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

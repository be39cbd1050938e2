"""The metrics of processors, their selectors and their connections. (Kafka: Selector.SelectorMetrics)

The Prometheus exporter and the console read them. Nothing is counted here; the values are computed from the
counters of processor, selector, responder and channels.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from broker.network.automq.processor import PipelinedResponder
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

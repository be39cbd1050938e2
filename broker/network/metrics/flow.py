"""Flow control metrics: muted and unmuted connections. Nothing here is counted per request; the values are
computed when the doctor or the Prometheus exporter reads them.
"""

from typing import Final, NamedTuple

from broker.network.automq.responder import PipelinedResponder
from broker.network.processor import Processor
from broker.network.socket_server import SocketServer

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
            mutes += responder.filled
            unmutes += responder.emptied
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


def deepest(processor: Processor) -> int:
    """Return the largest number of requests in flight on one connection."""
    return max((channel.in_hand for channel in processor.selector), default=0)

"""How flow control stops connections to be read and reads them again. Nothing here is counted for a request:
it is put together when the doctor or the exposition looks.
"""

from typing import Final, NamedTuple

from broker.network.automq.responder import PipelinedResponder
from broker.network.processor import Processor
from broker.network.socket_server import SocketServer

IDLE_MS: Final = 60_000
"""A connection that did nothing for so long counts as idle; far below connections.max.idle.ms."""


class FlowTotals(NamedTuple):
    """Since the start: connections that a quota or a watermark stopped to be read, and those that were read
    again after that.
    """

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
    """Connections closed for the size of a request, of the processors that there are."""
    return sum(each.selector.counts.oversized for each in server.processors())


def cut_off(server: SocketServer) -> int:
    """Connections closed within a response whose records could not be read, of the processors that there
    are.
    """
    return sum(each.selector.counts.cut_off for each in server.processors())


def idle_connections(processor: Processor, now_ms: int) -> int:
    return sum(now_ms - channel.last_active_ms >= IDLE_MS for channel in processor.selector)


def deepest(processor: Processor) -> int:
    """The requests in hand of the connection that has most of them."""
    return max((channel.in_hand for channel in processor.selector), default=0)

"""Flow control of connections, for the console's doctor. For `console_views.live`."""

from broker.api.broker import Broker
from broker.control.rows.flow import Flow, SelectorRow
from broker.metrics.rate import CounterRate
from broker.network.automq.request_queues import RequestQueues
from broker.network.metrics.flow import deepest, flow_totals, idle_connections, oversized
from broker.network.socket_server import SocketServer


class FlowViews:
    """Stores the totals of the previous read, from which rates are computed."""

    def __init__(self, server: SocketServer, broker: Broker, now_ns: int) -> None:
        self._server = server
        self._broker = broker
        self._rate = CounterRate(now_ns)

    def look(self, now_ns: int, now_ms: int) -> Flow:
        server, broker = self._server, self._broker
        processors = list(server.processors())
        mutes, unmutes = self._rate.update(now_ns, flow_totals(server))
        requests = server.requests
        sizes = requests.sizes if isinstance(requests, RequestQueues) else None
        callbacks = broker.callbacks
        return Flow(
            mutes=mutes,
            unmutes=unmutes,
            in_flight=sum(each.selector.in_flight() for each in processors),
            deepest=max(map(deepest, processors), default=0),
            deepest_limit=1 if sizes is None else broker.control.config.automq.pipeline_high,
            available_request_size=None if sizes is None else sizes.available,
            request_size_limit=None if sizes is None else sizes.limit,
            oversized=oversized(server),
            callbacks=len(callbacks.queue),
            callback_capacity=callbacks.capacity,
            blocked_callbacks=callbacks.blocked,
            selectors=tuple(
                SelectorRow(each.name, len(each.selector.channels), idle_connections(each, now_ms))
                for each in processors
            ),
        )

"""Listeners, their acceptors and processors, and the handlers behind them. (Kafka: SocketServer)

Made by `app`, which opens the nursery tree: processors and handlers outlive the front, so that what is in
hand is finished when accepting has stopped. Making it binds every port and starts nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import trio

from broker.api.broker import Broker
from broker.api.registry import Api, Registry
from broker.config.rooms import NetworkConfig
from broker.network.acceptor import Acceptor, SocketOptions
from broker.network.channel import Channel
from broker.network.clock import TrioClock
from broker.network.frame_pool import FramePool
from broker.network.handler_pool import HandlerPool
from broker.network.processor import Processor, ProcessorSettings
from broker.network.reaper import Reaper
from broker.network.request_channel import RequestChannel
from broker.network.request_metrics import RequestMetrics
from broker.network.routes import Routes
from broker.network.throttling import Throttling
from broker.protocol.api_key import NAMES
from broker.purgatory.operation import Outcome


@dataclass(frozen=True, slots=True)
class Listener:
    """One bound endpoint: where clients connect, and the tasks that serve it."""

    name: str
    protocol: str
    acceptor: Acceptor
    processors: tuple[Processor, ...]
    routes: Routes


class SocketServer:
    """The data plane."""

    def __init__(
        self,
        config: NetworkConfig,
        node_id: int,
        max_receive_before_login: int,
        registry: Registry,
        broker: Broker,
        clock: TrioClock,
        reapers: Sequence[Reaper],
    ) -> None:
        self.config = config
        self.requests = RequestChannel(config.queued_max_requests)
        self.metrics: dict[int, RequestMetrics] = {}
        self.frames = FramePool()
        self.throttling = Throttling(broker.quotas, clock)
        self.listeners: list[Listener] = []
        options = SocketOptions(
            config.socket_send_buffer_bytes,
            config.socket_receive_buffer_bytes,
            config.socket_listen_backlog_size,
        )
        next_id = 0
        try:
            for endpoint in config.resolved_listeners():
                routes = Routes(registry, self._metrics_of)
                settings = ProcessorSettings(
                    listener=endpoint.name,
                    requires_login=endpoint.protocol.startswith("SASL_"),
                    max_frame=config.socket_request_max_bytes,
                    max_frame_before_login=max_receive_before_login,
                    max_idle_ms=config.connections_max_idle_ms,
                    failed_login_delay_ms=config.connection_failed_authentication_delay_ms,
                )
                acceptor = Acceptor(endpoint.name, endpoint.host, endpoint.port, options)
                label = f"{endpoint.name}-{endpoint.protocol}"
                processors = []
                for _ in range(config.num_network_threads):
                    processors.append(
                        Processor(
                            next_id,
                            f"data-plane-kafka-network-thread-{node_id}-{label}-{next_id}",
                            settings,
                            routes=routes,
                            requests=self.requests,
                            clock=clock,
                            frames=self.frames,
                            on_close=self._closed,
                        )
                    )
                    next_id += 1
                self.listeners.append(
                    Listener(endpoint.name, endpoint.protocol, acceptor, tuple(processors), routes)
                )
        except BaseException:
            for listener in self.listeners:
                listener.acceptor.close()
            raise
        self.handlers = HandlerPool(
            self.requests,
            broker,
            responders=[processor.responder for processor in self.processors()],
            reapers=reapers,
            throttling=self.throttling,
            clock=clock,
            frames=self.frames,
        )

    def start_processors(self, nursery: trio.Nursery) -> None:
        for processor in self.processors():
            nursery.start_soon(processor.run, name=processor.name)
            processor.start_expiry(nursery)

    def start_handlers(self, nursery: trio.Nursery) -> None:
        for index in range(self.config.num_io_threads):
            nursery.start_soon(self.handlers.run, index, name=f"data-plane-kafka-request-handler-{index}")

    def start_acceptors(self, nursery: trio.Nursery) -> None:
        for listener in self.listeners:
            port = listener.acceptor.address[1]
            name = f"data-plane-kafka-socket-acceptor-{listener.name}-{listener.protocol}-{port}"
            nursery.start_soon(listener.acceptor.run, listener.processors, name=name)

    async def drain(self) -> None:
        """Stops reading, then waits until all requests in hand are answered. The caller sets the deadline."""
        async with trio.open_nursery() as nursery:
            for processor in self.processors():
                nursery.start_soon(processor.drain)

    def processors(self) -> Iterator[Processor]:
        for listener in self.listeners:
            yield from listener.processors

    def channels(self) -> Iterator[Channel]:
        """Every open connection."""
        for processor in self.processors():
            yield from processor.selector

    def forget_answers(self) -> None:
        """The metadata image has changed: kept answers may no longer be true."""
        for listener in self.listeners:
            listener.routes.forget_answers()

    def _closed(self, channel: Channel) -> None:
        self.throttling.forget(channel)
        if channel.waiting is not None:
            channel.waiting.settle(Outcome.CANCELLED)
            channel.waiting = None
        channel.responder.settled()

    def _metrics_of(self, api: Api) -> RequestMetrics:
        metrics = self.metrics.get(api.key)
        if metrics is None:
            metrics = self.metrics[api.key] = RequestMetrics(NAMES[api.key])
        return metrics

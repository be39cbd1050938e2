"""Listeners, their acceptors and processors, and the handlers. (Kafka: SocketServer, of broker and
controller)

`server` creates it and `app` runs it. The constructor binds every port and starts no task. Processors and
handlers outlive the acceptors, so requests in flight finish after the broker stops accepting. `reconfigure`
applies changed settings at run time: it adds and removes listeners and resizes processors and handlers.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

import trio

from broker.common.errors import ConfigError
from broker.common.slices import Steps
from broker.config.listeners import ListenerConfig as ListenerConfig
from broker.config.listeners import Plane, Server
from broker.config.sections import ConnectionConfig, NetworkConfig, RequestLogConfig, TlsConfig
from broker.controller.rows.client_endpoint import ClientEndpoint
from broker.network.acceptor.acceptor import check_bindable
from broker.network.connection.channel import Channel
from broker.network.failures import FailedStep
from broker.network.listener import Listener
from broker.network.observers import ConnectionObservers
from broker.network.processor import Processor
from broker.network.requests.client_usage import ClientAccounts
from broker.network.requests.request_channel import ResponseSend
from broker.network.requests.request_time import RequestTime
from broker.network.requests.routes import Wrapper
from broker.network.selector import Selector
from broker.network.server_factory import ServerFactory, ServerResources, SocketServerParts, socket_options
from broker.network.supervisor import Supervisor, TaskStarter
from broker.security.tls import Certificates

logger = logging.getLogger(__name__)


async def ready_at_once(_listener: str) -> None:
    """Return at once: the authorizer has nothing to load. (Kafka: a completed authorizer future)"""


class SocketServer:
    """All listeners. `requests` and `handlers` belong to the data plane. `listeners` includes removed
    listeners that still finish their requests.

    `resources` holds connection quotas and request memory per server: the broker's and, if it has listeners,
    the controller's. `gate`, `users`, `memory` and `frames` are the broker's.
    """

    def __init__(self, parts: SocketServerParts) -> None:
        """Bind every port. Raises ConfigError with the listener's name if a port cannot be bound."""
        self.observers: ConnectionObservers = []
        self.resources = {
            name: ServerResources(
                name, parts, self.observers, partial(self.selectors, name), lambda: self.handlers.deliver()
            )
            for name in parts.connections
        }
        own = self.resources[Server.BROKER]
        self.gate, self.users, self.memory, self.frames = own.gate, own.users, own.memory, own.frames
        self.failures = parts.failures
        self._parts = parts
        self.listeners: list[Listener] = []
        self._renewals: list[Callable[[], None]] = []
        self._factory = factory = ServerFactory(parts, self.resources, self.observers, self._closed)
        self.metrics = factory.metrics
        self.ended_processors = factory.ended_processors
        self.request_log = factory.request_log
        self.client_usage = factory.client_usage
        self.throttling = factory.throttling
        self.accounts = ClientAccounts(self.channels, parts.clock)
        self.responders = factory.responders
        self.planes = factory.planes
        self.requests = self.planes[Plane.DATA].requests
        self.handlers = self.planes[Plane.DATA].handlers
        self._processor_nursery: TaskStarter | None = None
        self._acceptor_nursery: TaskStarter | None = None
        self._ready: Callable[[str], Awaitable[None]] = ready_at_once
        try:
            for endpoint in parts.network.resolved_listeners():
                try:
                    self.listeners.append(factory.listener(endpoint))
                except ConfigError as error:
                    _log_unable(endpoint.name, error)
                    raise
        except BaseException:
            for listener in self.listeners:
                listener.end()
            raise

    def start_handlers(self, nursery: TaskStarter) -> None:
        for plane in self.planes.values():
            plane.handlers.start(nursery)

    def start_processors(self, nursery: TaskStarter) -> None:
        self._processor_nursery = nursery
        for each in self.resources.values():
            nursery.start_soon(each.unmapping.reaper.run, name=each.unmapping.reaper.name)
            if each.memory is not None:
                nursery.start_soon(each.memory.reaper.run, name=each.memory.reaper.name)
        for listener in self.listeners:
            self._serve(listener, nursery)

    async def start_connection_quotas(self, nursery: Supervisor) -> None:
        """Start the connection gates. Returns once `max.connections.per.ip.overrides` hosts are resolved."""
        for each in self.resources.values():
            await nursery.start(each.gate.run, name=each.gate_task)

    def start_acceptors(
        self, nursery: TaskStarter, ready: Callable[[str], Awaitable[None]] = ready_at_once
    ) -> None:
        """Let each listener accept as soon as `ready(name)` returns. Until then clients connect, since the
        port is bound, and wait. (Kafka: enableRequestProcessing)
        """
        logger.info("Enabling request processing.")
        self._acceptor_nursery, self._ready = nursery, ready
        for listener in self.listeners:
            self._accept(listener, nursery)

    async def wait_started(self) -> None:
        """Wait until every listener accepts."""
        for listener in list(self.listeners):
            await listener.started.wait()

    def stop_reconfiguring(self) -> None:
        """Stop adding and removing listeners; called before the acceptors are cancelled."""
        logger.info("Stopping socket server request processors")
        self._acceptor_nursery = None

    def close_ports(self) -> None:
        """Accept no more connections. Those that are open stay open."""
        self._acceptor_nursery = None
        for listener in self.listeners:
            listener.close_port()

    async def drain(self) -> None:
        """Stop reading and wait until all requests in flight are answered. The caller sets the deadline."""
        async with trio.open_nursery() as nursery:
            for processor in self.processors():
                nursery.start_soon(processor.drain)

    async def end_requests(self) -> None:
        """Close the request queues once the processors have ended. Handlers finish the queued requests, then
        end.
        """
        logger.info("Stopped socket server request processors")
        for plane in self.planes.values():
            await plane.requests.aclose()

    # Reconfiguration

    def check_reconfigure(self, old: NetworkConfig, new: NetworkConfig) -> None:
        """Check that every port that `new` adds can be bound and that the handler count may change. Raises
        ConfigError with the listener or the key.
        """
        if new.num_io_threads != old.num_io_threads and not self._parts.mode.resizable:
            raise ConfigError(
                "num.io.threads",
                new.num_io_threads,
                f"{old.num_io_threads} until restart: socket.server.mode=automq binds each connection to a "
                "handler",
            )
        removed, added = self._changes(old, new)
        freed = {listener.acceptor.address[1] for listener in self.listeners if listener.name in removed}
        for endpoint in added:
            if endpoint.port not in freed:
                options = socket_options(new.for_listener(endpoint.name))
                check_bindable(endpoint.name, endpoint.host, endpoint.port, options)

    def check_tls(self, network: NetworkConfig, tls: TlsConfig) -> Steps[None]:
        """Check that every TLS listener can use these keys. Raises ConfigError."""
        for endpoint in network.resolved_listeners():
            if endpoint.protocol.is_encrypted:
                Certificates(tls.of(endpoint))
                yield

    def apply_tls(self, tls: TlsConfig) -> None:
        """Use these keys for new connections. Call it before `reconfigure`, which may add listeners."""
        self._factory.set_tls(tls)
        for listener in self.listeners:
            if listener.certificates is None or listener.ending:
                continue
            try:
                listener.certificates.adopt(tls.of(listener.endpoint))
            except ConfigError as error:
                logger.error(
                    "cannot reload the keys of a listener",
                    extra={"listener": listener.name, "reason": str(error)},
                )

    def reconfigure(self, old: NetworkConfig, new: NetworkConfig) -> None:
        """Apply the settings. The caller then invalidates the cached responses. If a port has been taken
        since `check_reconfigure`, only its listener is missing.
        """
        if self._processor_nursery is None or self._acceptor_nursery is None:
            return  # the broker is stopping; the next start reads the new settings
        self._factory.reconfigure(new)
        removed, added = self._changes(old, new)
        for listener in self.listeners:
            if listener.name in removed and not listener.ending:
                listener.end()
                logger.info("listener removed", extra=_log_fields(listener))
        endpoints = {endpoint.name: endpoint for endpoint in new.resolved_listeners()}
        for listener in self.listeners:
            if not listener.ending:
                self._factory.advertise(listener, endpoints[listener.name])
                listener.resize(self._factory.processors_of(listener.name))
        for endpoint in added:
            try:
                listener = self._factory.listener(endpoint)
            except ConfigError as error:
                _log_unable(endpoint.name, error)
                continue
            self.listeners.append(listener)
            logger.info("listener added", extra=_log_fields(listener))
            self._serve(listener, self._processor_nursery)
            self._accept(listener, self._acceptor_nursery)
        for plane in self.planes.values():
            if plane.name is not Plane.CONTROL and new.num_io_threads != plane.handlers.size:
                plane.handlers.resize(new.num_io_threads)

    def _changes(self, old: NetworkConfig, new: NetworkConfig) -> tuple[set[str], list[ListenerConfig]]:
        """Return the names of listeners to remove, and the listeners to add; a listener with a new address is
        in both. A port that the system chose equals port 0 and its own number.
        """
        bound = {each.name: each.acceptor.address[1] for each in self.listeners if not each.ending}
        was = {each.name: each for each in old.resolved_listeners()}
        to_be = {each.name: each for each in new.resolved_listeners()}
        kept = {
            name
            for name, each in to_be.items()
            if name in was
            and was[name].host == each.host
            and each.port in (was[name].port, 0, bound.get(name))
        }
        return set(was) - kept, [each for name, each in to_be.items() if name not in kept]

    def client_endpoints(self) -> tuple[ClientEndpoint, ...]:
        """Return the data plane listeners as clients reach them."""
        return tuple(
            self._factory.client_endpoint(each.endpoint)
            for each in self.listeners
            if each.endpoint.plane is Plane.DATA and not each.ending
        )

    def processors(self) -> Iterator[Processor]:
        """Iterate over all processors, retiring ones included."""
        for listener in self.listeners:
            yield from listener.all_processors()

    def channels(self) -> Iterator[Channel]:
        """Iterate over all open connections."""
        for processor in self.processors():
            yield from processor.selector

    def selectors(self, server: Server | None = None) -> Iterator[tuple[str, Selector]]:
        """Iterate over (listener name, selector) pairs of one server's listeners, or of all listeners."""
        for listener in self.listeners:
            if server is not None and listener.endpoint.plane.server is not server:
                continue
            for processor in listener.all_processors():
                yield listener.name, processor.selector

    def client_of(self, connection_id: str) -> str | None:
        """Return the client id of an open connection, or ""; None if there is no such connection."""
        for channel in self.channels():
            if channel.id == connection_id:
                return channel.client_id or ""
        return None

    def close_connection(self, connection_id: str) -> None:
        """Close a connection for an operator, if it is still open."""
        for _, selector in self.selectors():
            for channel in selector:
                if channel.id == connection_id:
                    selector.close_channel(channel, "closed by an operator", logging.INFO)
                    return

    def limit_connections(self, config: ConnectionConfig) -> None:
        """Apply connection limits on each server."""
        for each in self.resources.values():
            each.gate.configure(config)

    def log_requests(self, config: RequestLogConfig) -> None:
        """Set which requests are written to the log."""
        self.request_log.configure(config)
        self._renew_metrics()

    def count_by_client(self, is_wanted: bool) -> None:
        """Turn `client_usage` on or off."""
        if is_wanted is not self.client_usage.is_enabled:
            self.client_usage.enable(is_wanted)
            self._renew_metrics()

    def on_renewed_metrics(self, renew: Callable[[], None]) -> None:
        """Call `renew` when the routes' metrics change, for routes that no listener has."""
        self._renewals.append(renew)

    def _renew_metrics(self) -> None:
        for listener in self.listeners:
            listener.routes.renew_metrics()
        for renew in self._renewals:
            renew()

    def time_requests(self, is_timed: bool) -> None:
        """Turn request time measurement, which the request quota needs, on or off."""
        quota = self._parts.quotas.request
        # If the inter-broker listener is only the default one, clients use it too.
        named = self._factory.config.inter_broker_listener_name
        exempt = self.gate.quotas.protected if named else frozenset[str]()
        self.measure(self._parts.mode.request_time(quota, self._parts.clock, exempt) if is_timed else None)

    def measure(self, request_time: RequestTime | None) -> None:
        """Attribute the thread's time to clients, or stop doing so (None)."""
        self._factory.measure(request_time)
        for plane in self.planes.values():
            plane.handlers.measure(request_time)
        for processor in self.processors():
            processor.measure(request_time)

    def wrap_handlers(self, wrapper: Wrapper | None) -> None:
        """Wrap the request handlers of every listener, or remove the wrapper (None)."""
        self._factory.wrap_handlers(wrapper)
        for listener in self.listeners:
            listener.routes.wrap_handlers(wrapper)

    def clear_caches(self) -> None:
        """Invalidate cached responses."""
        for listener in self.listeners:
            listener.routes.clear_caches()

    # Tasks

    def _serve(self, listener: Listener, nursery: TaskStarter) -> None:
        nursery.start_soon(self._serve_listener, listener, name=f"listener-{listener.name}")

    async def _serve_listener(self, listener: Listener) -> None:
        await listener.serve()
        self.listeners.remove(listener)
        if listener.name not in {each.name for each in self.listeners}:
            del self._factory.endpoints[listener.name]
            self.resources[listener.endpoint.plane.server].gate.remove_listener(listener.name)

    def _accept(self, listener: Listener, nursery: TaskStarter) -> None:
        nursery.start_soon(listener.accept, self._ready, name=listener.acceptor_task)

    def _resources_of(self, listener: str) -> ServerResources:
        return self.resources[self._factory.config.plane_of(listener).server]

    def _closed(self, channel: Channel, reason: str) -> None:
        """Release everything the connection holds. A step that raises does not skip the others."""
        resources = self._resources_of(channel.listener)
        attempt = partial(self.failures.attempt, FailedStep.CLOSE, channel.id)
        counted = None if channel.is_balancers else channel.address
        attempt(resources.gate.release, channel.listener, counted)
        attempt(resources.users.release, channel)
        attempt(resources.unauthenticated.forget, channel)
        for observer in self.observers:
            attempt(observer.closed, channel, reason)
        attempt(self._end_send, channel)
        attempt(self.throttling.forget, channel)
        attempt(self._parts.disconnected, channel.id)
        attempt(self.accounts.closed, channel)
        attempt(channel.abandon)
        attempt(channel.responder.check_drained)

    def _end_send(self, channel: Channel) -> None:
        """Record the response in progress as slow, and charge the connection's remaining thread time."""
        send = channel.send
        if isinstance(send, ResponseSend):
            request = send.request
            request.route.metrics.record_slow(request, request.taken, self._parts.clock.ns(), send.written)
        if self._factory.request_time is not None:
            self._factory.request_time.close(channel)


def _log_fields(listener: Listener) -> dict[str, object]:
    return {"listener": listener.name, "port": listener.acceptor.address[1]}


def _log_unable(listener: str, error: ConfigError) -> None:
    """Log, in Kafka's words, that a port cannot be bound or a listener's keys cannot be used."""
    logger.error(f"Unable to start acceptor for {listener}", extra={"reason": str(error)})

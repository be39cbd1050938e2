"""Listeners, their acceptors and processors, and the handlers behind them. (Kafka: SocketServer, the broker's
and the controller's)

Made by `server`, run by `app`: processors and handlers outlive the front, so that what is in
hand is finished when accepting has stopped. Making it binds every port and starts nothing. While it runs,
`reconfigure` follows the settings: listeners come and go, processors and handlers become more or fewer.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial

import trio

from broker.api.broker import Broker
from broker.config.listeners import Listener as ListenerConfig
from broker.config.listeners import Plane as PlaneName
from broker.config.listeners import Server
from broker.config.sections import ConnectionConfig, NetworkConfig, RequestLogConfig, TlsConfig
from broker.errors import ConfigError
from broker.network.acceptor.acceptor import check_bindable
from broker.network.acceptor.user_gate import UserGates
from broker.network.clock import TrioClock
from broker.network.connection.channel import Channel
from broker.network.failures import Failures, Place
from broker.network.handling.request_time import RequestTime
from broker.network.handling.routes import Wrapper
from broker.network.listener import Listener
from broker.network.metrics.client_accounts import ClientAccounts
from broker.network.observers import ConnectionObservers
from broker.network.processor import Processor
from broker.network.reaper import Reaper
from broker.network.selector import Selector
from broker.network.server_factory import ServerFactory, socket_options
from broker.network.server_mode import KAFKA, ServerMode
from broker.network.server_resources import ServerResources
from broker.network.supervisor import Supervisor, TaskStarter
from broker.quotas.connections import ConnectionQuotas
from broker.security.tls import Certificates

logger = logging.getLogger(__name__)


async def ready_at_once(_listener: str) -> None:
    """The readiness of a listener whose authorizer has nothing to load. (Kafka: a completed authorizer
    future)
    """


class SocketServer:
    """All listeners. `requests` and `handlers` are the data plane's; `listeners` has those too that were
    removed and still finish what they have.

    `resources` has connection quotas and request memory for the broker's listeners, and others for the
    controller's where there are any; `gate`, `users`, `memory` and `frames` are the broker's.
    """

    def __init__(
        self,
        config: NetworkConfig,
        tls: TlsConfig,
        max_receive_before_login: int,
        broker: Broker,
        connections: Mapping[Server, ConnectionQuotas],
        clock: TrioClock,
        reapers: Sequence[Reaper],
        mode: ServerMode = KAFKA,
    ) -> None:
        """Binds every port. `connections` has the quotas of every server that has a listener. Raises
        ConfigError naming the listener where a port cannot be bound.
        """
        self.observers = ConnectionObservers()
        self.failures = Failures()
        self.resources = {
            name: ServerResources(
                name,
                config,
                quotas,
                clock,
                selectors=partial(self.selectors, name),
                observers=self.observers,
                failures=self.failures,
                deliver=lambda: self.handlers.deliver(),
            )
            for name, quotas in connections.items()
        }
        own = self.resources[Server.BROKER]
        self.gate, self.users, self.memory, self.frames = own.gate, own.users, own.memory, own.frames
        broker.logins = UserGates(lambda listener: self._resources_of(listener).users)
        self._clock = clock
        self.listeners: list[Listener] = []
        self._broker = broker
        self._mode = mode
        self._factory = factory = ServerFactory(
            config,
            tls,
            max_receive_before_login,
            broker,
            clock,
            resources=self.resources,
            reapers=reapers,
            on_close=self._closed,
            observers=self.observers,
            mode=mode,
            failures=self.failures,
        )
        self.metrics = factory.metrics
        self.departed = factory.departed
        self.request_log = factory.request_log
        self.client_usage = factory.client_usage
        self.throttling = factory.throttling
        self.accounts = ClientAccounts(self.channels, clock)
        self.responders = factory.responders
        self.planes = factory.planes
        self.requests = self.planes[PlaneName.DATA].requests
        self.handlers = self.planes[PlaneName.DATA].handlers
        self._back: TaskStarter | None = None
        self._front: TaskStarter | None = None
        self._ready: Callable[[str], Awaitable[None]] = ready_at_once
        try:
            for endpoint in config.resolved_listeners():
                self.listeners.append(factory.listener(endpoint))
        except BaseException:
            for listener in self.listeners:
                listener.end()
            raise

    def start_handlers(self, nursery: TaskStarter) -> None:
        for plane in self.planes.values():
            plane.handlers.start(nursery)

    def start_processors(self, nursery: TaskStarter) -> None:
        self._back = nursery
        for each in self.resources.values():
            if each.memory is not None:
                nursery.start_soon(each.memory.reaper.run, name=each.memory.reaper.name)
        for listener in self.listeners:
            self._serve(listener, nursery)

    async def start_connection_quotas(self, nursery: Supervisor) -> None:
        """Returns once the hosts of `max.connections.per.ip.overrides` have been looked up."""
        for each in self.resources.values():
            await nursery.start(each.gate.run, name=each.gate_task)

    def start_acceptors(
        self, nursery: TaskStarter, ready: Callable[[str], Awaitable[None]] = ready_at_once
    ) -> None:
        """Lets each listener accept as soon as `ready` of its name has returned. Until then clients connect,
        for the port is bound, and wait. (Kafka: enableRequestProcessing)
        """
        logger.info("Enabling request processing.")
        self._front, self._ready = nursery, ready
        for listener in self.listeners:
            self._accept(listener, nursery)

    async def wait_started(self) -> None:
        """Until every listener accepts."""
        for listener in list(self.listeners):
            await listener.started.wait()

    def remove_config_listeners(self) -> None:
        """The front is about to be cancelled: no listener comes or goes any more."""
        logger.info("Stopping socket server request processors")
        self._front = None

    async def drain(self) -> None:
        """Stops reading, then waits until all requests in hand are answered. The caller sets the deadline."""
        async with trio.open_nursery() as nursery:
            for processor in self.processors():
                nursery.start_soon(processor.drain)

    async def end_requests(self) -> None:
        """Called when the processors are gone. What is queued is still handled, then every handler ends."""
        logger.info("Stopped socket server request processors")
        for plane in self.planes.values():
            await plane.requests.aclose()

    # What holds while it runs

    def check_reconfigure(self, old: NetworkConfig, new: NetworkConfig) -> None:
        """Whether every port that `new` adds can be had, and handlers may become more or fewer. Raises
        ConfigError naming the listener or the key.
        """
        if new.num_io_threads != old.num_io_threads and not self._mode.resizable:
            raise ConfigError(
                "num.io.threads",
                new.num_io_threads,
                f"{old.num_io_threads} until the next start: with socket.server.mode=automq a connection has "
                "its handler",
            )
        leaving, coming = self._moves(old, new)
        freed = {listener.acceptor.address[1] for listener in self.listeners if listener.name in leaving}
        for endpoint in coming:
            if endpoint.port not in freed:
                options = socket_options(new.for_listener(endpoint.name))
                check_bindable(endpoint.name, endpoint.host, endpoint.port, options)

    def check_tls(self, network: NetworkConfig, tls: TlsConfig) -> None:
        """Whether every listener that speaks TLS can be served with these keys. Raises ConfigError."""
        for endpoint in network.resolved_listeners():
            if endpoint.protocol.is_encrypted:
                Certificates(tls.of(endpoint))

    def apply_tls(self, tls: TlsConfig) -> None:
        """New connections are served with these keys. Before `reconfigure`, which may add listeners."""
        self._factory.tls = tls
        for listener in self.listeners:
            if listener.certificates is None or listener.ending:
                continue
            try:
                listener.certificates.adopt(tls.of(listener.endpoint))
            except ConfigError as error:
                logger.error(
                    "a listener keeps its keys", extra={"listener": listener.name, "reason": str(error)}
                )

    def reconfigure(self, old: NetworkConfig, new: NetworkConfig) -> None:
        """Follows the settings; who calls it has kept answers forgotten afterwards. A port that was free when
        it was asked for and is no longer costs its listener alone.
        """
        if self._back is None or self._front is None:
            return  # the broker stops; its next start goes by the new settings
        self._factory.config = new
        leaving, coming = self._moves(old, new)
        for listener in self.listeners:
            if listener.name in leaving and not listener.ending:
                listener.end()
                logger.info("a listener is removed", extra=_place(listener))
        endpoints = {endpoint.name: endpoint for endpoint in new.resolved_listeners()}
        for listener in self.listeners:
            if not listener.ending:
                self._factory.tell(listener, endpoints[listener.name])
                listener.resize(self._factory.processors_of(listener.name))
        for endpoint in coming:
            try:
                listener = self._factory.listener(endpoint)
            except ConfigError as error:
                logger.error("a listener could not be added", extra={"reason": str(error)})
                continue
            self.listeners.append(listener)
            logger.info("a listener was added", extra=_place(listener))
            self._serve(listener, self._back)
            self._accept(listener, self._front)
        for plane in self.planes.values():
            if plane.name is not PlaneName.CONTROL and new.num_io_threads != plane.handlers.size:
                plane.handlers.resize(new.num_io_threads)

    def _moves(self, old: NetworkConfig, new: NetworkConfig) -> tuple[set[str], list[ListenerConfig]]:
        """Names of listeners that go, and listeners that come; one that gets another address does both. A
        port that the system chose is the same as port 0, and as itself when it is said.
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

    def bootstrap(self) -> tuple[str, ...]:
        """What clients of the data plane are told, by listener."""
        endpoints = self._broker.endpoints
        return tuple(
            f"{endpoints[each.name].host}:{endpoints[each.name].port}"
            for each in self.listeners
            if each.endpoint.plane is PlaneName.DATA and not each.ending
        )

    def processors(self) -> Iterator[Processor]:
        """Those that retire too."""
        for listener in self.listeners:
            yield from listener.all_processors()

    def channels(self) -> Iterator[Channel]:
        """Every open connection."""
        for processor in self.processors():
            yield from processor.selector

    def selectors(self, server: Server | None = None) -> Iterator[tuple[str, Selector]]:
        """With the name of the listener whose connections each has; of one server's listeners, or of all."""
        for listener in self.listeners:
            if server is not None and listener.endpoint.plane.server is not server:
                continue
            for processor in listener.all_processors():
                yield listener.name, processor.selector

    def limit_connections(self, config: ConnectionConfig) -> None:
        """The limits that hold from now on, on each server."""
        for each in self.resources.values():
            each.gate.configure(config)

    def log_requests(self, config: RequestLogConfig) -> None:
        """Which requests are written to the log from now on."""
        self.request_log.configure(config)
        for listener in self.listeners:
            listener.routes.recount()

    def count_by_client(self, is_wanted: bool) -> None:
        """Whether `client_usage` is kept from now on."""
        if is_wanted is not self.client_usage.is_kept:
            self.client_usage.is_kept = is_wanted
            for listener in self.listeners:
                listener.routes.recount()

    def time_requests(self, is_timed: bool) -> None:
        """Whether a request quota is to be kept from now on."""
        quota = self._broker.quotas.request
        # A listener that is the brokers' own by default alone is one that clients use.
        named = self._factory.config.inter_broker_listener_name
        exempt = self.gate.quotas.protected if named else frozenset[str]()
        self.measure(RequestTime(quota, self._clock, exempt) if is_timed else None)

    def measure(self, request_time: RequestTime | None) -> None:
        """Splits the thread's time among clients from now on, or no longer (None)."""
        self._factory.request_time = request_time
        for plane in self.planes.values():
            plane.handlers.measure(request_time)
        for processor in self.processors():
            processor.measure(request_time)
        self._factory.cache_allowed = request_time is None
        for listener in self.listeners:
            listener.routes.allow_cache(request_time is None)

    def wrap_handlers(self, wrapper: Wrapper | None) -> None:
        """Whether something stands before the handlers of requests from now on."""
        self._factory.wrapper = wrapper
        for listener in self.listeners:
            listener.routes.wrap_handlers(wrapper)

    def forget_answers(self) -> None:
        """The metadata image has changed: kept answers may no longer be true."""
        for listener in self.listeners:
            listener.routes.forget_answers()

    # Tasks

    def _serve(self, listener: Listener, nursery: TaskStarter) -> None:
        nursery.start_soon(self._serve_listener, listener, name=f"listener-{listener.name}")

    async def _serve_listener(self, listener: Listener) -> None:
        await listener.serve()
        self.listeners.remove(listener)
        if listener.name not in {each.name for each in self.listeners}:
            del self._broker.endpoints[listener.name]
            self.resources[listener.endpoint.plane.server].gate.remove_listener(listener.name)

    def _accept(self, listener: Listener, nursery: TaskStarter) -> None:
        nursery.start_soon(listener.accept, self._ready, name=listener.acceptor_task)

    def _resources_of(self, listener: str) -> ServerResources:
        return self.resources[self._factory.config.plane_of(listener).server]

    def _closed(self, channel: Channel, reason: str) -> None:
        """Takes each step whatever becomes of the others, so that no count and no buffer stays behind."""
        resources = self._resources_of(channel.listener)
        attempt = partial(self.failures.attempt, Place.CLOSE, channel.id)
        attempt(resources.gate.release, channel.listener, channel.address)
        attempt(resources.users.release, channel)
        attempt(resources.unauthenticated.forget, channel)
        attempt(self.observers.closed, channel, reason)
        attempt(self._end_send, channel)
        attempt(self.throttling.forget, channel)
        attempt(self._broker.telemetry.manager.disconnected, channel.id)
        attempt(self.accounts.closed, channel)
        attempt(channel.abandon)
        attempt(channel.responder.settled)

    def _end_send(self, channel: Channel) -> None:
        """Counts the response that was being written, and charges what the connection has cost to the end."""
        send = channel.send
        if send is not None and send.request is not None:
            request = send.request
            request.route.metrics.record_slow(request, request.taken, self._clock.ns(), send.written)
        if self._factory.request_time is not None:
            self._factory.request_time.close(channel)


def _place(listener: Listener) -> dict[str, object]:
    return {"listener": listener.name, "port": listener.acceptor.address[1]}

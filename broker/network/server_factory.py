"""Creates planes, listeners and processors, and what they share. (Kafka: the constructors and fields of
SocketServer and its acceptors)

Used only by `socket_server`, at the start and for every listener added later. Starts no task; creating a
listener binds its port. `ServerMode` has the classes that a socket server is built of; `server` chooses one:
Kafka's mode is here, `network.automq.server_mode` has the other one (`socket.server.mode`).
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from broker.api.registry import Registry
from broker.api.requests.callbacks import Callbacks
from broker.api.requests.services import AdvertisedListener, Endpoints, HandlerServices
from broker.api.security.client_security import ClientSecurity
from broker.common.clock import Clock
from broker.common.errors import ConfigError
from broker.common.proxy_headers import ProxyHeaders
from broker.config.listeners import Address, ListenerConfig, Plane, Server
from broker.config.sections import NetworkConfig, NodeConfig, TlsConfig
from broker.config.sections.network import NO_PROXY, REQUIRED_PROXY
from broker.controller.rows.client_endpoint import ClientEndpoint
from broker.network.acceptor.acceptor import Acceptor, SocketOptions
from broker.network.acceptor.connection_gate import ConnectionGate
from broker.network.acceptor.user_gate import UserGate, UserGates
from broker.network.clock import TrioClock
from broker.network.connection.channel import Channel
from broker.network.connection.frame_pool import FramePool, Unmapping
from broker.network.failures import Failures
from broker.network.handling.handler_pool import Completion, HandlerPool
from broker.network.handshakes import certificates_of
from broker.network.leased_receive import LeasedFrames
from broker.network.listener import Listener
from broker.network.memory_pool import MemoryPool, memory_limit
from broker.network.observers import ConnectionObservers
from broker.network.processor import Processor, ProcessorServices, ProcessorSettings
from broker.network.requests.client_usage import UsageTaps
from broker.network.requests.request_channel import RequestChannel, Requests
from broker.network.requests.request_log import RequestLog
from broker.network.requests.request_metrics import AllMetrics, Taps
from broker.network.requests.request_time import RequestTime
from broker.network.requests.routes import Routes, Wrapper
from broker.network.responder import Responder
from broker.network.selector import Selector
from broker.network.throttling import Throttling
from broker.network.unauthenticated import UnauthenticatedConnections
from broker.protocol.api_key import ApiKey
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.connections import ConnectionQuotas

logger = logging.getLogger(__name__)


class ServerMode(msgspec.Struct, frozen=True):
    """`requests` and `callbacks` take `queued.max.requests` and the number of handlers; the other fields take
    the arguments of the classes in this package. `resizable` says whether the number of handlers may change
    at run time.
    """

    requests: Callable[[int, int], Requests]
    callbacks: Callable[[int, int], Callbacks]
    processor: Callable[..., Processor]
    handlers: type[HandlerPool]
    throttling: Callable[..., Throttling]
    resizable: bool = True
    request_time: type[RequestTime] = RequestTime


KAFKA: Final = ServerMode(
    lambda capacity, _handlers: RequestChannel(capacity),
    lambda capacity, _handlers: Callbacks(capacity),
    Processor,
    HandlerPool,
    Throttling,
)

CONTROL_PLANE_QUEUE: Final = 20
CONTROL_PLANE_HANDLERS: Final = 1
CONTROL_PLANE_PROCESSORS: Final = 1
"""Kafka's values, which are constants there (SocketServer.scala of 3.9: `new RequestChannel(20, ...)`)."""

CONTROLLER_APIS: Final = frozenset(
    {
        ApiKey.SASL_HANDSHAKE,
        ApiKey.API_VERSIONS,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.UNREGISTER_CONTROLLER,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    }
)
"""The served APIs among those that Kafka's messages mark with `"listeners": ["controller"]`. Fetch is left
out: there it reads only the metadata log, for other brokers, and Weir has none.
"""


class ServerPlane(msgspec.Struct, frozen=True):
    """`processors` is the number per listener; None means num.network.threads."""

    name: Plane
    requests: Requests
    handlers: HandlerPool
    registry: Registry
    processors: int | None


def served_by(name: Plane, registry: Registry) -> Registry:
    """Return the APIs that a plane serves."""
    return registry.only(CONTROLLER_APIS) if name is Plane.CONTROLLER else registry


LOOPBACK: Final = "127.0.0.1"
"""The advertised host of a listener on all addresses that sets none."""


class ServedApis(msgspec.Struct, frozen=True):
    """The APIs that clients can call, the services of their handlers, and the addresses of the listeners."""

    registry: Registry
    services: HandlerServices
    endpoints: Endpoints


class SocketServerParts(msgspec.Struct, frozen=True):
    """What a socket server is made with. The configurations are those of the start, and
    `max_receive_before_login` is in bytes. `connections` maps every server that has a listener to its quotas.
    `disconnected` is called with the id of each closed connection.
    """

    network: NetworkConfig
    tls: TlsConfig
    max_receive_before_login: int
    node: NodeConfig
    apis: ServedApis
    completion: Completion
    security: ClientSecurity
    quotas: ClientQuotas
    connections: Mapping[Server, ConnectionQuotas]
    logins: UserGates
    failures: Failures
    clock: TrioClock
    disconnected: Callable[[str], None]
    mode: ServerMode = KAFKA


class ServerResources:
    """The connection quotas and the request memory of one socket server: the broker's, or the controller's if
    it has listeners, as BrokerServer and ControllerServer each create a SocketServer. Both use the same keys
    and rules per address with separate counts, so that one server cannot use up the other's resources. The
    control plane of KIP-291 belongs to the broker's server, as in Kafka up to 3.9.

    `memory` is None if `queued.max.request.bytes` is 0 or -1; `frames` is the buffer pool of requests, and
    is `memory` itself if that is set.

    `selectors` returns (listener name, selector) pairs of this server. `deliver` writes the responses of
    delayed logins.
    """

    def __init__(
        self,
        name: Server,
        parts: SocketServerParts,
        observers: ConnectionObservers,
        selectors: Callable[[], Iterable[tuple[str, Selector]]],
        deliver: Callable[[], None],
    ) -> None:
        quotas, clock = parts.connections[name], parts.clock
        prefix = task_name_prefix(name)
        self.gate = ConnectionGate(quotas, clock, selectors, observers, parts.failures, prefix)
        self.users = UserGate(self.gate, deliver, prefix)
        self.unauthenticated = UnauthenticatedConnections(
            self.gate.unauthenticated, clock, quotas.counted, self.gate.reject_on
        )
        self.unmapping = Unmapping(clock, prefix)
        self.memory = _bounded(parts.network, clock, prefix, self.unmapping)
        self.frames: FramePool = self.memory or FramePool(self.unmapping.begin)
        self.gate_task = f"{prefix}connection-quotas"


def task_name_prefix(name: Server) -> str:
    """Return the prefix of the names of a server's tasks."""
    return "" if name is Server.BROKER else f"{name}-"


def _bounded(config: NetworkConfig, clock: Clock, prefix: str, unmapping: Unmapping) -> LeasedFrames | None:
    """Return the bounded memory of a server's requests (KIP-72), or None if unbounded. By default only large
    requests count, since accounting costs more than handling a small request.
    """
    size = config.request_memory(memory_limit())
    if size is None:
        return None
    memory = MemoryPool(size, config.socket_request_max_bytes)
    only_large = config.queued_max_request_bytes is None
    return LeasedFrames(
        memory,
        config.queued_request_stall_timeout_ms,
        clock,
        prefix,
        only_large=only_large,
        unmap=unmapping.begin,
    )


class EndedProcessors:
    """The bytes received and sent by processors that have ended."""

    def __init__(self) -> None:
        self.bytes_in = self.bytes_out = 0


class ServerFactory:
    """State that all planes share, and each socket server's own (`resources`). `responders` are the
    responders of all processors. Changed settings apply to what is created afterwards.
    """

    def __init__(
        self,
        parts: SocketServerParts,
        resources: Mapping[Server, ServerResources],
        observers: ConnectionObservers,
        on_close: Callable[[Channel, str], None],
    ) -> None:
        self.request_time: RequestTime | None = None
        """Set while a request quota exists."""
        self.config = parts.network
        self._tls = parts.tls
        self.endpoints = parts.apis.endpoints
        self._parts = parts
        self.request_log = RequestLog(parts.clock)
        self.client_usage = UsageTaps()
        self.metrics = AllMetrics(self._taps)
        self.throttling = parts.mode.throttling(parts.quotas, parts.clock, observers, parts.failures)
        self.responders: list[Responder] = []
        self.ended_processors = EndedProcessors()
        self._resources = resources
        self._on_close = on_close
        self._observers = observers
        self._wrapper: Wrapper | None = None
        """Wraps the request handlers, if set."""
        self._next_id = 0
        wanted = {endpoint.plane for endpoint in self.config.resolved_listeners()}
        self.planes: dict[Plane, ServerPlane] = {}
        for name in Plane:  # the data plane is first
            if name in wanted:
                self.planes[name] = self._plane(name)

    def reconfigure(self, config: NetworkConfig) -> None:
        """Set the network settings."""
        self.config = config

    def set_tls(self, tls: TlsConfig) -> None:
        """Set the keys of new listeners."""
        self._tls = tls

    def measure(self, request_time: RequestTime | None) -> None:
        """Attribute the thread's time to clients, or not (None). Measured requests are not cached."""
        self.request_time = request_time

    def wrap_handlers(self, wrapper: Wrapper | None) -> None:
        """Set the wrapper of the request handlers."""
        self._wrapper = wrapper

    def listener(self, endpoint: ListenerConfig) -> Listener:
        """Create a listener with its port bound and its processors. Raises ConfigError with its name."""
        config = self.config.for_listener(endpoint.name)
        certificates = certificates_of(self._tls, endpoint)
        listener = Listener(
            endpoint,
            self._acceptor(endpoint, config),
            Routes(
                self.planes[endpoint.plane].registry,
                self._parts.apis.services,
                self.metrics.of,
                authorizes=self._parts.security.authorizer is not None,
            ),
            self._processor,
            self._forget_processor,
            self._parts.node.drain_timeout_ms / 1000,
            certificates,
        )
        listener.routes.wrap_handlers(self._wrapper)
        self.advertise(listener, endpoint)
        listener.resize(self.processors_of(endpoint.name))
        logger.info(f"Created {endpoint.plane} acceptor and processors for endpoint : {endpoint.name}")
        return listener

    def _acceptor(self, endpoint: ListenerConfig, config: NetworkConfig) -> Acceptor:
        gate = self._resources[endpoint.plane.server].gate
        own = gate.add_listener(endpoint.name, proxy_headers(config))
        try:
            return Acceptor(endpoint.name, endpoint.host, endpoint.port, socket_options(config), own)
        except ConfigError:
            gate.remove_listener(endpoint.name)
            raise

    def advertise(self, listener: Listener, endpoint: ListenerConfig) -> None:
        """Advertise the listener's address to clients; its port is bound."""
        listener.endpoint = endpoint
        self._parts.logins.add_listener(endpoint.name, self._resources[endpoint.plane.server].users)
        self.endpoints[endpoint.name] = AdvertisedListener(
            endpoint.advertised_host or LOOPBACK,
            endpoint.advertised_port or listener.acceptor.address[1],
            self.planes[endpoint.plane].registry,
            is_controller=endpoint.plane is Plane.CONTROLLER,
        )

    def client_endpoint(self, listener: ListenerConfig) -> ClientEndpoint:
        """Return how clients reach an advertised listener."""
        advertised, protocol = self.endpoints[listener.name], listener.protocol
        security = self._parts.security.config.for_listener(listener.name)
        return ClientEndpoint(
            str(Address(advertised.host, advertised.port)),
            str(protocol),
            security.sasl_enabled_mechanisms if protocol.has_login else (),
            needs_certificate=protocol.is_encrypted and self._tls.of(listener).client_auth == "required",
            creates_topics=self._parts.security.creates_topics(listener.name),
        )

    def processors_of(self, listener: str) -> int:
        """Return the number of processors of a listener."""
        fixed = self.planes[self.config.plane_of(listener)].processors
        return fixed or self.config.for_listener(listener).num_network_threads

    def _plane(self, name: Plane) -> ServerPlane:
        control = name is Plane.CONTROL
        size = CONTROL_PLANE_HANDLERS if control else self.config.num_io_threads
        capacity = CONTROL_PLANE_QUEUE if control else self.config.queued_max_requests
        requests = self._parts.mode.requests(capacity, size)
        handlers = self._parts.mode.handlers(
            name,
            size,
            requests,
            self._parts.completion,
            responders=self.responders,
            throttling=self.throttling,
            clock=self._parts.clock,
            frames=self._resources[name.server].frames,
            failures=self._parts.failures,
            main=None if name is Plane.DATA else self.planes[Plane.DATA].handlers,
        )
        registry = served_by(name, self._parts.apis.registry)
        return ServerPlane(name, requests, handlers, registry, CONTROL_PLANE_PROCESSORS if control else None)

    def _processor(self, listener: Listener) -> Processor:
        config = self.config.for_listener(listener.name)
        plane = self.planes[listener.endpoint.plane]
        resources = self._resources[plane.name.server]
        processor_id, self._next_id = self._next_id, self._next_id + 1
        node = self._parts.node.node_id
        processor = self._parts.mode.processor(
            processor_id,
            f"{plane.name}-kafka-network-thread-{node}-{listener.task_label}-{processor_id}",
            ProcessorSettings(
                listener=listener.name,
                requires_login=listener.endpoint.protocol.has_login,
                max_frame=config.socket_request_max_bytes,
                max_frame_before_login=self._parts.max_receive_before_login,
                max_idle_ms=config.connections_max_idle_ms,
                failed_login_delay_ms=config.connection_failed_authentication_delay_ms,
                authentication_timeout_ms=config.connection_authentication_timeout_ms,
                logins_end=self._parts.security.config.logins_end(listener.name),
                certificates=listener.certificates,
            ),
            ProcessorServices(
                routes=listener.routes,
                requests=plane.requests,
                clock=self._parts.clock,
                frames=resources.frames,
                logins=resources.users,
                unauthenticated=resources.unauthenticated,
                failures=self._parts.failures,
                on_open=self._opened,
                on_close=self._on_close,
                on_drop=listener.acceptor.gate.release,
            ),
        )
        processor.measure(self.request_time)
        self.responders.append(processor.responder)
        return processor

    def _opened(self, channel: Channel) -> None:
        for observer in self._observers:
            observer.opened(channel)

    def _taps(self, name: str) -> Taps:
        """Return the taps on the requests of one API."""
        taps = self.request_log.tap(name), self.client_usage.tap(name)
        return tuple(each for each in taps if each is not None)

    def _forget_processor(self, processor: Processor) -> None:
        """Remove a processor's responder; later responses are dropped with their requests."""
        self.responders.remove(processor.responder)
        self.ended_processors.bytes_in += processor.selector.counts.closed_bytes_in
        self.ended_processors.bytes_out += processor.selector.counts.closed_bytes_out


def proxy_headers(config: NetworkConfig) -> ProxyHeaders | None:
    """Return what reads the PROXY headers of a listener with this configuration, None if it has none."""
    if config.proxy_protocol == NO_PROXY:
        return None
    return ProxyHeaders(
        config.proxy_protocol_trusted_addresses,
        requires=config.proxy_protocol == REQUIRED_PROXY,
        timeout_s=config.connection_authentication_timeout_ms / 1000,
    )


def socket_options(config: NetworkConfig) -> SocketOptions:
    return SocketOptions(
        config.socket_send_buffer_bytes,
        config.socket_receive_buffer_bytes,
        config.socket_listen_backlog_size,
        config.socket_listen_reuse_port,
    )

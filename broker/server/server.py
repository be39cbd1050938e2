"""What a broker and a gateway have in common: one server, which `app` runs.

`broker` and `gateway` build the parts in the order in which they need each other. The methods here connect
those that both have to the network, to the views and to changes.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import trio
from msgspec.structs import replace

from broker.api.registry import Registry
from broker.api.requests.callbacks import Callbacks
from broker.api.requests.change_limits import ControllerMutations
from broker.api.requests.retry_storm import RetryStormGate
from broker.api.requests.services import Endpoints, HandlerServices, control_services
from broker.api.security.client_security import ClientSecurity
from broker.common.version import VERSION
from broker.config.listeners import Server as ServerName
from broker.controller.commands import CloseConnection
from broker.controller.control import Subscriber, plan_close
from broker.controller.rows.broker import ServerInfo
from broker.monitoring.events.writer import EventWriter
from broker.monitoring.prometheus.page import PrometheusPage
from broker.network.acceptor.user_gate import UserGates
from broker.network.clock import LoopIdle, TrioClock
from broker.network.failures import Failures
from broker.network.handling.handler_pool import Completion
from broker.network.reaper import Reaper
from broker.network.requests.request_log import RequestLog
from broker.network.server_factory import ServedApis, ServerMode, SocketServerParts
from broker.network.socket_server import SocketServer
from broker.network.supervisor import TaskStarter
from broker.partitions.event_log import EventBuffer, EventOrigin
from broker.quotas.guarded_callback import GuardedCallback
from broker.quotas.remote_use import NO_REMOTE_USE
from broker.security.console_links import ConsoleLink, ConsoleLinkFile
from broker.security.delegation_tokens import DelegationTokens
from broker.security.unknown_users import UnknownUsers
from broker.server.listeners import (
    ClientMetricsListener,
    QuotaListener,
    register_network_listeners,
    register_quota_listeners,
    register_security_listeners,
    response_listener,
    unknown_users_listener,
)
from broker.server.parts.control import ServerMetadata, ServerQuotas, ServerTelemetry
from broker.server.task_tree import OwnedResources, TaskTree
from broker.views.console import Views
from broker.views.live_quotas import LiveQuotas
from broker.views.live_server import LiveServer
from broker.views.parts import LogParts, ServerParts
from broker.views.topics import LogViews, TopicViews
from broker.views.upstream_views import UpstreamViewSource

logger = logging.getLogger(__name__)

RELEASE_EVERY_S: Final = 0.05


class ServerViews:
    """The Prometheus page, the task tree, and the views of the console and the REST API.

    `info` has the addresses at which the server is reached. `loop_idle` is an instrument of Trio.
    """

    def __init__(
        self,
        metadata: ServerMetadata,
        parts: ServerParts,
        logs: LogParts | None = None,
        upstream: UpstreamViewSource | None = None,
    ) -> None:
        """`logs` are a broker's; `upstream` is a gateway's."""
        control = metadata.control
        self._socket_server = parts.server
        self._directory = metadata.config.log.dirs[0]
        self._console_link: ConsoleLinkFile | None = None
        self.loop_idle = parts.loop
        self.prometheus = PrometheusPage(
            parts, lambda: control.config.quotas.metrics_max_entities, logs, upstream
        )
        self.task_tree = TaskTree(parts.clock, OwnedResources(parts, metadata.node_id, logs))
        topics = TopicViews(lambda: control.image) if upstream is None else upstream.contents.topics
        if logs is not None:
            topics = LogViews(
                lambda: control.image,
                logs.partitions,
                logs.groups,
                logs.cleaner,
                logs.transactions,
                logs.dead_letters,
            )
        self.info = ServerInfo(metadata.node_id, VERSION, (), "")
        self.views = Views(
            control,
            LiveServer(
                parts,
                topics,
                self.task_tree.rows,
                metadata.config.automq.pipeline_high,
                None if upstream is None else upstream.upstream_of,
            ),
            LiveQuotas(parts, lambda: NO_REMOTE_USE if upstream is None else upstream.shares.remote_use()),
            topics,
            metadata.writer,
            lambda: self.info,
            parts.telemetry,
            upstream,
            None if logs is None else logs.authorizer,
        )

    def update_bootstrap(self) -> None:
        """Update the advertised addresses in `info`."""
        self.info = replace(self.info, endpoints=self._socket_server.client_endpoints())

    def console_started(self, link: ConsoleLink) -> None:
        """Show the console's address, and accept links from `weir console-link` until `close`."""
        self.info = replace(self.info, console=link.url)
        try:
            self._console_link = ConsoleLinkFile(self._directory, link)
        except OSError as error:
            logger.warning(
                "weir console-link cannot make links",
                extra={"directory": self._directory, "reason": str(error)},
            )

    def close(self) -> None:
        if self._console_link is not None:
            self._console_link.close()


class Server(ABC):
    """The parts of one server. A subclass sets those that are declared here without a value."""

    callbacks: Callbacks
    events: EventWriter
    mode: ServerMode
    registry: Registry
    retry_storm: RetryStormGate
    security: ClientSecurity
    socket_server: SocketServer
    telemetry: ServerTelemetry

    def __init__(
        self,
        metadata: ServerMetadata,
        callback: GuardedCallback | None,
        clock: TrioClock,
        *,
        shared: bool = False,
    ) -> None:
        """`shared`: other gateways have parts of each client's limit."""
        self.clock = clock
        self.metadata = metadata
        self.control = metadata.control
        self.config = metadata.config
        self.server_quotas = ServerQuotas(self.config, callback, clock, shared=shared)
        self.quotas = self.server_quotas.clients
        self.connections = self.server_quotas.connections[ServerName.BROKER]
        self.unknown_users = UnknownUsers(metadata.store.scram_secret, self.control.image.scram)
        self.failures = Failures()
        self.endpoints: Endpoints = {}
        self.logins = UserGates()
        self.mutations = ControllerMutations(self.quotas.mutation, clock)

    @property
    def is_replicated(self) -> bool:
        """Whether changes of the metadata need more than this process."""
        return False

    @property
    def is_ready(self) -> bool:
        """Whether clients can be served, as far as that depends on others than this process."""
        return True

    @property
    @abstractmethod
    def reapers(self) -> Sequence[Reaper]:
        """The reapers of delayed requests."""

    @abstractmethod
    def start_storage(self, nursery: TaskStarter) -> None:
        """Start the tasks that outlive all requests."""

    @abstractmethod
    async def metadata_ready(self) -> None:
        """Wait until changes may be made."""

    async def may_accept(self, listener: str) -> None:  # noqa: B027 - nothing to wait for
        """Wait until a listener may accept connections."""

    @abstractmethod
    def start_ports(self, nursery: TaskStarter) -> None:
        """Start the tasks that open ports beside those of `listeners`."""

    def close(self) -> None:
        """Save the usage of quotas, and close the stores."""
        self.server_quotas.close()
        self.metadata.close()
        self.server_views.close()

    def deliver(self) -> None:
        """Let the handlers complete the requests whose responses were posted to `callbacks`."""
        self.socket_server.handlers.deliver()

    def start_drain(self, nursery: TaskStarter) -> None:
        """Start the task that lets clients go; a broker has none."""
        return

    async def drain(self) -> None:
        """Let clients go, for a stop. The listeners are closed."""
        await self.finish_requests()

    async def finish_requests(self) -> None:
        """Finish requests in progress, for at most `shutdown.drain.timeout.ms`, and close each connection
        with its last response; complete delayed operations with the response of a timeout.
        """
        with trio.move_on_after(self.config.broker.drain_timeout_ms / 1000) as deadline:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._release_all_delayed)
                await self.socket_server.drain()
                nursery.cancel_scope.cancel()
        if deadline.cancelled_caught:
            logger.warning("the drain timed out with requests in progress")

    async def _release_all_delayed(self) -> None:
        """Complete delayed operations until cancelled: a request that was in the request channel begins to
        wait later.
        """
        while True:
            self.release_delayed()
            await trio.sleep(RELEASE_EVERY_S)

    def release_delayed(self) -> None:
        """Complete every delayed request at shutdown, with the response of a timeout."""
        self.socket_server.wrap_handlers(None)
        self.retry_storm.delayed.complete_all(self.clock.ms())
        self.deliver()

    def _make_callbacks(self) -> Callbacks:
        network = self.config.network
        return self.mode.callbacks(network.queued_max_requests, network.num_io_threads)

    def _control_services(self, tokens: DelegationTokens) -> HandlerServices:
        return control_services(
            self.config.broker.node_id,
            self.endpoints,
            self.control,
            self.mutations,
            self.security,
            self.unknown_users,
            tokens,
            self.logins,
            self.callbacks,
            self.telemetry.state,
        )

    def _bind_sockets(
        self,
        services: HandlerServices,
        completion: Completion,
        disconnected: Callable[[str], None],
    ) -> SocketServer:
        """Build the network that calls the handlers. Binds the ports of `listeners`."""
        config = self.config
        RequestLog.check(config.request_log)
        with self.metadata.explaining_dynamic_settings():
            server = SocketServer(
                SocketServerParts(
                    config.network,
                    config.tls,
                    config.security.sasl_server_max_receive_size,
                    config.broker,
                    ServedApis(self.registry, services, self.endpoints),
                    completion,
                    self.security,
                    self.quotas,
                    self.server_quotas.connections,
                    self.logins,
                    self.failures,
                    self.clock,
                    disconnected,
                    self.mode,
                )
            )
        server.limit_connections(config.connections)
        server.log_requests(config.request_log)
        return server

    def _make_events(
        self, buffer: EventBuffer, append: Callable[[int], Awaitable[None]], origin: EventOrigin
    ) -> EventWriter:
        return EventWriter(
            buffer,
            append,
            origin,
            self.clock,
            self.control,
            self.quotas.throttle_compliance,
            self.socket_server,
            self.config.events,
        )

    def _make_views(
        self, events: EventBuffer, logs: LogParts | None = None, upstream: UpstreamViewSource | None = None
    ) -> None:
        """Make the views, /metrics and the task tree. `logs` are a broker's; `upstream` is a gateway's."""
        parts = ServerParts(
            self.clock,
            LoopIdle(self.clock),
            self.socket_server,
            self.quotas,
            self.retry_storm,
            self.callbacks,
            self.telemetry.state,
            events,
        )
        self.server_views = ServerViews(self.metadata, parts, logs, upstream)
        self.views, self.prometheus = self.server_views.views, self.server_views.prometheus

    def _follow_metadata(self, *others: Subscriber) -> None:
        """Apply the metadata image to the parts, and every later change of it; to `others` after quotas."""
        control, image, server = self.control, self.control.image, self.socket_server
        quotas = QuotaListener(
            image,
            self.clock,
            self.config.broker.node_id,
            server,
            self.quotas,
            self.server_quotas.connections.values(),
        )
        client_metrics = ClientMetricsListener(image, self.telemetry.state.manager)
        control.subscribe(response_listener(server))
        control.subscribe(quotas.on_metadata_update)
        for each in others:
            control.subscribe(each)
        control.subscribe(client_metrics.on_metadata_update)
        control.subscribe(unknown_users_listener(self.unknown_users))

    def _follow_settings(self) -> None:
        """Apply every later change of a dynamic setting. Let operators close connections."""
        live, server = self.control.live, self.socket_server
        register_network_listeners(live, server, self.server_views.update_bootstrap)
        live.on_change(lambda config: config.events, lambda _old, new: self.events.apply_config(new))
        register_quota_listeners(live, self.quotas, self.retry_storm, server, self.clock)
        register_security_listeners(live, self.security)
        self.control.add_planner(CloseConnection, partial(plan_close, server))

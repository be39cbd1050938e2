"""Builds all services of one broker and connects them. Starts no task.

Called by `app`, which runs them. `BrokerServer.__init__` is the tour: the stores, the quotas, the requests
that wait, the handlers' services, the network, telemetry and events, the views, and what follows changes. The
functions below it build one part each.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Final

from broker.api import registry
from broker.api.client_security import ClientSecurity
from broker.api.delayed_operations import DelayedFetches, DelayedProduce
from broker.api.group_requests import expire_groups, release_groups
from broker.api.retry_storm import RETRY_STORM, RetryStormGate
from broker.api.services import Endpoints, GroupServices, TelemetryServices, handler_services
from broker.clock import Clock
from broker.config.listeners import Server
from broker.config.load import Configuration
from broker.config.sections import TelemetryConfig
from broker.config.table import BrokerConfig
from broker.config_listeners.metadata import MetadataListener
from broker.config_listeners.settings import (
    hold_back_retries,
    register_network_listeners,
    register_quota_listeners,
    register_security_listeners,
    register_storage_listeners,
)
from broker.console_views.live import LiveViews
from broker.console_views.task_stats import OwnedResources
from broker.console_views.task_tree import TaskTree
from broker.control.closing import CloseConnection, plan_close
from broker.control.control import Control
from broker.control.dynamic_config import explaining_dynamic_settings, warn_of_inert_settings
from broker.control.views import Place, Views
from broker.disk.log_mover import LogMover
from broker.disk.metadata_writer import MetadataWriter
from broker.disk.stores import open_logs, open_metadata
from broker.disk.tasks import BackgroundThreads
from broker.events.writer import EventWriter
from broker.groups.messages import Now
from broker.metrics.window import Window
from broker.network.acceptor.user_gate import UserGates
from broker.network.automq.server_mode import automq
from broker.network.clock import LoopIdle, TrioClock
from broker.network.failures import Failures
from broker.network.failures import Place as FailurePlace
from broker.network.handling.handler_pool import Completion
from broker.network.metrics.request_log import RequestLog
from broker.network.reaper import Reaper
from broker.network.server_factory import KAFKA, ServedApis
from broker.network.socket_server import SocketServer
from broker.prometheus.page import PrometheusPage
from broker.protocol.api_key import ApiKey
from broker.purgatory.purgatory import Purgatory
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.connections import ConnectionQuotas
from broker.quotas.guarded_callback import GuardedCallback, load_callback
from broker.quotas.replication import ReplicationQuotas
from broker.security.console_links import ConsoleLink, ConsoleLinkFile
from broker.security.unknown_users import UnknownUsers
from broker.services.event_log import EventLog
from broker.services.group_service import GroupService
from broker.services.partitions import Partitions
from broker.telemetry.receiver import load_receivers
from broker.telemetry.state import Telemetry
from broker.telemetry_export.otlp import OtlpExporter, http_sender
from broker.telemetry_export.pushes import PushReader
from broker.version import VERSION

logger = logging.getLogger(__name__)

TELEMETRY_APIS: Final = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)


class BrokerServer:
    """The parts of one broker. Raises ConfigError or OSError if they cannot be built."""

    def __init__(self, configuration: Configuration, clock: TrioClock) -> None:
        self.clock = clock
        self._console_link: ConsoleLinkFile | None = None
        callback = _quota_callback(configuration, clock)

        # The stores: the metadata log and its image, and the logs of partitions.
        self.metadata = open_metadata(configuration, clock.wall_ms())
        self.writer = MetadataWriter(self.metadata, clock)
        with self._explaining_dynamic_settings(configuration):
            self.control = Control(self.metadata.image, configuration, self.writer)
        warn_of_inert_settings(self.metadata.image)
        config = self.config = self.control.config
        node_id = config.broker.node_id
        self.log = open_logs(config.log, config.topic_settings)
        self.partitions = Partitions(self.log, lambda: self.control.config.topic_settings)

        # Quotas, and the roles of clients.
        self.quotas = _client_quotas(config, callback, clock)
        self.connection_quotas = _connection_quotas(config)
        self.connections = self.connection_quotas[Server.BROKER]
        self.replication = ReplicationQuotas(config.replication, node_id)
        self.security = ClientSecurity(config.security)
        self.unknown_users = UnknownUsers(self.metadata.scram_secret, self.metadata.image.scram)

        # Requests that wait, and groups. Every handler pool delivers through the socket server's.
        mode = automq(config.automq) if config.automq.server_mode == "automq" else KAFKA
        self.callbacks = mode.callbacks(config.network.queued_max_requests, config.network.num_io_threads)
        self.fetches = DelayedFetches(self.callbacks, config.fetch.fetch_purge_interval)
        self.produces: Purgatory[DelayedProduce] = Purgatory("Produce", config.fetch.produce_purge_interval)
        self.purgatories = (self.fetches, self.produces)
        self.retry_storm = RetryStormGate(self.callbacks, clock)
        self.failures = Failures()
        self.groups = GroupServices(
            self.control,
            GroupService(config.groups, self.partitions),
            self.callbacks,
            self.security,
        )
        self.reapers = _expiration_reapers(
            node_id,
            clock,
            self.fetches,
            self.retry_storm,
            self.groups,
            self.failures,
            deliver=lambda: self.socket_server.handlers.deliver(),
        )

        # Storage in the background.
        self.background = BackgroundThreads(config.log.background_threads)
        self.mover = LogMover(self.log, self.replication.alter_log_dirs, self.background, clock)

        # Client telemetry.
        self.telemetry = Telemetry(config.telemetry)
        manager = self.telemetry.manager
        self.telemetry_reaper = Reaper("client-metrics-reaper", manager.next_deadline, manager.expire, clock)

        # The handlers' services, and the network that calls the handlers.
        self.endpoints: Endpoints = {}
        logins = UserGates()
        self.registry = _served_apis(config.telemetry)
        self.services = handler_services(
            clock=clock,
            config=config,
            endpoints=self.endpoints,
            control=self.control,
            partitions=self.partitions,
            fetches=self.fetches,
            groups=self.groups,
            quotas=self.quotas,
            replication=self.replication,
            security=self.security,
            unknown_users=self.unknown_users,
            logins=logins,
            callbacks=self.callbacks,
            telemetry=TelemetryServices(self.telemetry, self.telemetry_reaper.poke),
        )
        RequestLog.check(config.request_log)
        with self._explaining_dynamic_settings(configuration):
            self.socket_server = SocketServer(
                config.network,
                config.tls,
                config.security.sasl_server_max_receive_size,
                config.broker,
                ServedApis(self.registry, self.services, self.endpoints),
                Completion(node_id, self.partitions, self.callbacks, self.fetches, self.produces),
                self.security,
                self.quotas,
                self.connection_quotas,
                logins,
                self.failures,
                clock,
                self.reapers,
                manager.disconnected,
                mode,
            )
        self.partitions.on_offline(self.socket_server.clear_caches)
        self.socket_server.limit_connections(config.connections)
        hold_back_retries(self.retry_storm, self.socket_server, config.broker_quotas)
        self.socket_server.log_requests(config.request_log)

        # Events and pushed metrics, which leave as topics, through receivers and over OTLP.
        self.events = EventWriter(
            EventLog(self.partitions),
            node_id,
            clock,
            self.control,
            self.fetches,
            self.quotas.throttle_compliance,
            self.socket_server,
            config.events,
        )
        self.push_reader = PushReader(
            node_id,
            self.telemetry,
            self.callbacks,
            self.socket_server.handlers,
            self.events.log,
            load_receivers(config.telemetry.receivers, _config_texts(configuration)),
            clock,
        )
        self.exporter = _otlp_exporter(self.telemetry, config.telemetry)

        # Metrics, and the views of the console.
        self.loop_idle = LoopIdle(clock)
        self.prometheus = PrometheusPage(
            clock,
            self.socket_server,
            self.loop_idle,
            self.quotas,
            self.retry_storm,
            self.callbacks,
            self.replication,
            self.partitions,
            self.purgatories,
            self.events.log,
            self.telemetry,
            lambda: self.control.config.quotas.metrics_max_entities,
        )
        owned_resources = OwnedResources(
            self.socket_server,
            self.loop_idle,
            node_id,
            self.callbacks,
            self.purgatories,
            self.retry_storm,
            self.quotas,
            self.groups.groups,
            self.partitions,
            self.telemetry,
        )
        self.task_tree = TaskTree(clock, owned_resources)
        live_views = LiveViews(
            clock,
            self.socket_server,
            self.quotas,
            self.partitions,
            self.groups.groups,
            self.loop_idle,
            self.task_tree.rows,
            self.retry_storm,
            self.callbacks,
            config.automq.pipeline_high,
        )
        self.place = Place(VERSION, (), "")
        self.views = Views(self.control, live_views, self.writer, lambda: self.place, self.telemetry)

        # What follows changes of the metadata and of the configuration.
        listener = MetadataListener(
            self.metadata.image,
            clock=clock,
            node_id=node_id,
            server=self.socket_server,
            partitions=self.partitions,
            fetches=self.fetches,
            groups=self.groups,
            quotas=self.quotas,
            connections=tuple(self.connection_quotas.values()),
            replication=self.replication,
            unknown_users=self.unknown_users,
            telemetry=manager,
        )
        self.groups.groups.load(Now(clock.ms(), clock.wall_ms()))
        live = self.control.live
        register_network_listeners(live, self.socket_server, self.update_bootstrap)
        live.on_change(lambda config: config.events, lambda _old, new: self.events.apply_config(new))
        register_quota_listeners(live, self.quotas, self.retry_storm, self.socket_server, clock)
        register_security_listeners(live, self.security)
        register_storage_listeners(
            self.control, self.partitions, self.log, self.replication, self.mover, self.background
        )
        self.control.prepare(listener.prepare)
        self.control.subscribe(listener.follow)
        self.control.add_planner(CloseConnection, partial(plan_close, self.socket_server))

    def close(self) -> None:
        """Flush appended records and close the stores."""
        for error in self.log.close():
            logger.error("a log was not closed cleanly", extra={"reason": str(error)})
        self.metadata.close()
        if self._console_link is not None:
            self._console_link.close()
        if self.quotas.callback is not None:
            self.quotas.callback.close()

    def console_started(self, link: ConsoleLink) -> None:
        """Show the console's address, and accept links from `weir console-link` until `close`."""
        self.place = replace(self.place, console=link.url)
        directory = self.config.log.dirs[0]
        try:
            self._console_link = ConsoleLinkFile(directory, link)
        except OSError as error:
            logger.warning(
                "weir console-link cannot make links", extra={"directory": directory, "reason": str(error)}
            )

    def update_bootstrap(self) -> None:
        """Update the advertised addresses in `place`."""
        self.place = replace(self.place, bootstrap=self.socket_server.bootstrap())

    def release_delayed(self) -> None:
        """Complete every delayed request at shutdown, with the response of a timeout."""
        now_ms = self.clock.ms()
        self.fetches.complete_all(now_ms)
        release_groups(self.groups)
        self.socket_server.wrap_handlers(None)
        self.retry_storm.complete_all(now_ms)
        self.socket_server.handlers.deliver()

    def expire_sensors(self) -> None:
        """Forget the quota sensors of clients and addresses that are idle."""
        now_ms = self.clock.ms()
        self.quotas.expire(now_ms)
        for connections in self.connection_quotas.values():
            connections.expire(now_ms)

    def _explaining_dynamic_settings(self, configuration: Configuration) -> AbstractContextManager[None]:
        return explaining_dynamic_settings(self.metadata.image, configuration.config.broker.node_id)


def _quota_callback(configuration: Configuration, clock: Clock) -> GuardedCallback | None:
    """Build the callback of `client.quota.callback.class`. Raises ConfigError."""
    name = configuration.config.quotas.callback_class
    if not name:
        return None
    return GuardedCallback(load_callback(name, _config_texts(configuration)), name, clock.ms)


def _config_texts(configuration: Configuration) -> dict[str, str]:
    """Return the configuration as text, for classes that an operator provides."""
    node = str(configuration.config.broker.node_id)
    return {"broker.id": node, "node.id": node, **configuration.static, **configuration.unknown}


def _client_quotas(config: BrokerConfig, callback: GuardedCallback | None, clock: Clock) -> ClientQuotas:
    settings = config.quotas
    quotas = ClientQuotas(
        Window(settings.window_num, settings.window_size_seconds * 1000),
        Window(settings.controller_window_num, settings.controller_window_size_seconds * 1000),
        longest_throttle_ms=settings.longest_throttle_ms,
        paced=settings.bandwidth_algorithm == "paced",
        burst_ms=settings.burst_ms,
        callback=callback,
    )
    quotas.configure_broker(config.broker_quotas, clock.ms())
    return quotas


def _connection_quotas(config: BrokerConfig) -> dict[Server, ConnectionQuotas]:
    """Return the quotas of the broker's socket server and, if it has listeners, the controller's."""
    window = Window(config.quotas.window_num, config.quotas.window_size_seconds * 1000)
    return {
        server: ConnectionQuotas(
            window,
            protected=config.network.inter_broker_listener if server is Server.BROKER else None,
            broker_wide_ip=config.automq.server_mode == "automq",
            ipv6_prefix=config.connections.ipv6_prefix_length,
        )
        for server in config.network.servers
    }


def _expiration_reapers(
    node_id: int,
    clock: TrioClock,
    fetches: DelayedFetches,
    retry_storm: RetryStormGate,
    groups: GroupServices,
    failures: Failures,
    deliver: Callable[[], None],
) -> Sequence[Reaper]:
    """Return the reapers that expire delayed operations and `deliver` the responses."""

    def expire_fetches(now_ms: int) -> None:
        fetches.complete_expired(now_ms)
        deliver()

    def expire_responses(now_ms: int) -> None:
        retry_storm.complete_expired(now_ms)
        deliver()

    def report_timer(group: str, error: Exception) -> None:
        failures.report(FailurePlace.GROUP_TIMER, error, group=group)

    def expire_members(now_ms: int) -> None:
        expire_groups(groups, now_ms, clock.wall_ms(), report_timer)
        deliver()

    return (
        Reaper(f"ExpirationReaper-{node_id}-Fetch", fetches.next_deadline, expire_fetches, clock),
        Reaper(RETRY_STORM, retry_storm.delayed.next_deadline, expire_responses, clock),
        Reaper("group-coordinator-timer", groups.groups.next_deadline, expire_members, clock),
    )


def _served_apis(config: TelemetryConfig) -> registry.Registry:
    """Return the APIs that clients can call."""
    every = registry.load()
    return every if config.enabled else every.without(TELEMETRY_APIS)


def _otlp_exporter(telemetry: Telemetry, config: TelemetryConfig) -> OtlpExporter | None:
    return OtlpExporter(telemetry.export_queue, http_sender(config)) if config.otlp_endpoint else None

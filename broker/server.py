"""Builds all services of one broker and connects them. Starts no task.

Called by `app`, which runs them.
"""

import logging
import resource
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from broker.api import registry
from broker.api.automatic_topics import own_topic
from broker.api.broker import Broker
from broker.api.delayed_fetch import expire_fetches
from broker.api.group_answers import expire_groups
from broker.api.retry_storm import RETRY_STORM, expire_delayed_answers
from broker.config.listeners import Server
from broker.config.load import Configuration
from broker.config.sections import LogConfig
from broker.config.table import BrokerConfig
from broker.config_listeners.metadata import MetadataListener
from broker.config_listeners.settings import hold_back_retries, register_config_listeners
from broker.console_views.live import LiveViews
from broker.console_views.task_stats import owned_resources
from broker.console_views.task_tree import TaskTree
from broker.control.adoption import changes_to_adopt, check_all_known, check_metadata_exists
from broker.control.closing import CloseConnection, plan_close
from broker.control.control import Control
from broker.control.forgetting import blaming_dynamic, changes_to_forget, not_forgotten
from broker.control.inert import warn_of_kept
from broker.control.reading import ControlViews
from broker.control.views import Place
from broker.disk.log_mover import LogMover
from broker.disk.metadata_writer import MetadataWriter
from broker.disk.tasks import BackgroundThreads
from broker.events.writer import EventWriter
from broker.groups.messages import Now
from broker.log.directories import PartitionFolder, partition_folders
from broker.log.permissions import Exposure
from broker.log.recovery import Recovery
from broker.log.store import LogStore
from broker.metadata.actor import COMMAND_LINE
from broker.metadata.secret_key import DEFAULT_FILE, KeyFiles
from broker.metadata.store import MetadataStore
from broker.metrics.window import Window
from broker.network.automq.server_mode import automq
from broker.network.clock import LoopIdle, TrioClock
from broker.network.failures import Place as FailurePlace
from broker.network.metrics.request_log import RequestLog
from broker.network.reaper import Reaper
from broker.network.server_factory import KAFKA
from broker.network.socket_server import SocketServer
from broker.prometheus.page import PrometheusPage
from broker.protocol.api_key import ApiKey
from broker.purgatory.purgatory import Purgatory
from broker.quotas.callback_class import load_callback
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.connections import ConnectionQuotas
from broker.quotas.guarded import GuardedCallback
from broker.quotas.replication import ReplicationQuotas
from broker.security.console_link_file import ConsoleLink, ConsoleLinkFile
from broker.security.plain import PlainAuthenticator
from broker.security.unknown_users import UnknownUsers
from broker.services.event_log import EventLog
from broker.services.fetch_sessions import FetchSessions
from broker.services.group_service import GroupService
from broker.services.partitions import Partitions
from broker.services.producer_ids import ProducerIds
from broker.telemetry.receiver import load_receivers
from broker.telemetry.state import Telemetry
from broker.telemetry_export.otlp import OtlpExporter, http_sender
from broker.telemetry_export.pushes import PushReader
from broker.version import VERSION

logger = logging.getLogger(__name__)

TELEMETRY_APIS: Final = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)

METADATA_FILE: Final = "weir-metadata.sqlite"


class BrokerServer:
    """The parts of one broker. Raises ConfigError or OSError if they cannot be built."""

    def __init__(self, configuration: Configuration, clock: TrioClock) -> None:
        self.clock = clock
        self._console_link: ConsoleLinkFile | None = None
        callback = _quota_callback(configuration, clock)
        self.metadata = _open_metadata(configuration, clock.wall_ms())
        self.writer = MetadataWriter(self.metadata, clock)
        for warning in not_forgotten(configuration.forget, self.metadata.image):
            logger.warning(warning)
        forgotten = changes_to_forget(configuration.forget, self.metadata.image)
        if forgotten:
            self.metadata.commit(forgotten, COMMAND_LINE, clock.wall_ms())
        blame = partial(blaming_dynamic, self.metadata.image, configuration.config.broker.node_id)
        with blame():
            self.control = Control(self.metadata.image, configuration, self.writer)
        warn_of_kept(self.metadata.image)
        config = self.config = self.control.config
        self.log = _log_store(config.log)
        _report(self.log.open(config.topic_settings))
        window = Window(config.quotas.window_num, config.quotas.window_size_seconds * 1000)
        self.connection_quotas = {
            server: ConnectionQuotas(
                window,
                protected=config.network.inter_broker_listener if server is Server.BROKER else None,
                broker_wide_ip=config.automq.server_mode == "automq",
                ipv6_prefix=config.connections.ipv6_prefix_length,
            )
            for server in config.network.servers
        }
        self.connections = self.connection_quotas[Server.BROKER]
        self.quotas = ClientQuotas(
            window,
            Window(config.quotas.controller_window_num, config.quotas.controller_window_size_seconds * 1000),
            longest_throttle_ms=config.quotas.longest_throttle_ms,
            paced=config.quotas.bandwidth_algorithm == "paced",
            burst_ms=config.quotas.burst_ms,
            callback=callback,
        )
        self.quotas.configure_broker(config.broker_quotas, clock.ms())
        self.partitions = Partitions(self.log, lambda: self.control.config.topic_settings)
        mode = automq(config.automq) if config.automq.server_mode == "automq" else KAFKA
        self.broker = Broker(
            clock=clock,
            config=config.broker,
            topic_defaults=config.topics,
            group_config=config.groups,
            fetch_config=config.fetch,
            security_config=config.security,
            registry=_served_apis(config.telemetry.enabled),
            control=self.control,
            partitions=self.partitions,
            quotas=self.quotas,
            replication=ReplicationQuotas(config.replication, config.broker.node_id),
            fetches=Purgatory("Fetch", config.fetch.fetch_purge_interval),
            produces=Purgatory("Produce", config.fetch.produce_purge_interval),
            sessions=FetchSessions(config.fetch.max_incremental_sessions),
            groups=GroupService(config.groups, self.partitions),
            producer_ids=ProducerIds(),
            plain=PlainAuthenticator.from_jaas(config.security.plain_jaas),
            unknown_users=UnknownUsers(self.metadata.scram_secret, self.metadata.image.scram),
            callbacks=mode.callbacks(config.network.queued_max_requests, config.network.num_io_threads),
            telemetry=Telemetry(config.telemetry),
        )
        self.background = BackgroundThreads(config.log.background_threads)
        self.mover = LogMover(self.log, self.broker.replication.alter_log_dirs, self.background, clock)
        self.reapers = self._reapers()
        manager = self.broker.telemetry.manager
        self.telemetry_reaper = Reaper("client-metrics-reaper", manager.next_deadline, manager.expire, clock)
        self.broker.telemetry.on_expiry_moved(self.telemetry_reaper.poke)
        RequestLog.check(config.request_log)
        with blame():
            self.socket_server = SocketServer(
                config.network,
                config.tls,
                config.security.sasl_server_max_receive_size,
                self.broker,
                self.connection_quotas,
                clock,
                self.reapers,
                mode,
            )
        self.partitions.offline_changed = self.socket_server.clear_caches
        self.socket_server.limit_connections(config.connections)
        hold_back_retries(self.broker, self.socket_server, config.broker_quotas)
        self.socket_server.log_requests(config.request_log)
        self.events = EventWriter(EventLog(self.partitions), self.broker, self.socket_server, config.events)
        self.push_reader = PushReader(
            self.broker,
            self.socket_server.handlers,
            self.events.log,
            load_receivers(config.telemetry.receivers, _config_texts(configuration)),
            clock,
        )
        self.forwarder = (
            OtlpExporter(self.broker.telemetry.export_queue, http_sender(config.telemetry))
            if config.telemetry.otlp_endpoint
            else None
        )
        self.loop_idle = LoopIdle(clock)
        self.prometheus = PrometheusPage(
            clock,
            self.broker,
            self.socket_server,
            self.loop_idle,
            self.quotas,
            self.broker.replication,
            self.partitions,
            self.broker.purgatories,
            self.events.log,
            self.broker.telemetry,
            lambda: self.control.config.quotas.metrics_max_entities,
        )
        self.place = Place(VERSION, (), "")
        self.task_tree = TaskTree(clock, owned_resources(self.socket_server, self.broker, self.loop_idle))
        live_views = LiveViews(
            clock,
            self.socket_server,
            self.quotas,
            self.partitions,
            self.broker.groups,
            self.loop_idle,
            self.task_tree.rows,
            self.broker,
        )
        self.broker.views = ControlViews(
            self.control, live_views, self.writer, lambda: self.place, self.broker.telemetry
        )
        listener = MetadataListener(
            self.broker, self.socket_server, tuple(self.connection_quotas.values()), self.metadata.image
        )
        self.broker.groups.load(Now(clock.ms(), clock.wall_ms()))
        register_config_listeners(
            self.broker,
            self.socket_server,
            self.log,
            self.events,
            self.mover,
            self.background,
            self.update_bootstrap,
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

    def keep_console_link(self, link: ConsoleLink) -> None:
        """Accept links from `weir console-link` until the broker is closed."""
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

    def _reapers(self) -> list[Reaper]:
        """Return the reapers that expire delayed operations and deliver the responses."""
        broker = self.broker

        def expire_parked(now_ms: int) -> None:
            expire_fetches(broker, now_ms)
            self.socket_server.handlers.deliver()

        def expire_delayed(now_ms: int) -> None:
            expire_delayed_answers(broker, now_ms)
            self.socket_server.handlers.deliver()

        def report_timer(group: str, error: Exception) -> None:
            self.socket_server.failures.report(FailurePlace.GROUP_TIMER, error, group=group)

        def expire_members(now_ms: int) -> None:
            expire_groups(broker, now_ms, self.clock.wall_ms(), report_timer)
            self.socket_server.handlers.deliver()

        node = self.config.broker.node_id
        return [
            Reaper(f"ExpirationReaper-{node}-Fetch", broker.fetches.next_deadline, expire_parked, self.clock),
            Reaper(RETRY_STORM, broker.delayed_answers.next_deadline, expire_delayed, self.clock),
            Reaper("group-coordinator-timer", broker.groups.next_deadline, expire_members, self.clock),
        ]


def _open_metadata(configuration: Configuration, now_wall_ms: int) -> MetadataStore:
    """Open the metadata, which must list every partition on disk. Raises MetadataUnusable, OSError."""
    directories, rebuild = configuration.config.log.dirs, configuration.rebuild_metadata
    path = Path(directories[0]) / METADATA_FILE
    path.parent.mkdir(0o750, parents=True, exist_ok=True)
    folders = partition_folders(directories)
    if not rebuild:
        check_metadata_exists(path, folders)
    security = configuration.config.security
    keys = KeyFiles(path.with_name(DEFAULT_FILE), security.secret_key_file, security.secret_old_key_file)
    store = MetadataStore.open(path, now_wall_ms, salvage=rebuild, keys=keys, forget=configuration.forget)
    try:
        if rebuild:
            _adopt(store, folders, configuration.config, now_wall_ms)
        else:
            check_all_known(path, store, folders)
    except BaseException:
        store.close()
        raise
    return store


def _adopt(
    store: MetadataStore, folders: list[PartitionFolder], config: BrokerConfig, now_wall_ms: int
) -> None:
    """Create topics for partitions that the metadata does not list. Raises MetadataUnusable."""

    def settings_of(name: str) -> dict[str, str] | None:
        own = own_topic(name, config.groups, config.events)
        return None if own is None else {key: value for key, value in own.configs if value is not None}

    changes = changes_to_adopt(store, folders, settings_of)
    if changes:
        store.commit(changes, COMMAND_LINE, now_wall_ms)
    for name in dict.fromkeys(change.entity for change in changes):
        topic = store.image.topics[name]
        logger.warning("a topic was adopted", extra={"topic": name, "partitions": topic.partitions})


def _log_store(config: LogConfig) -> LogStore:
    """Open the log store with as many open files as RLIMIT_NOFILE allows beside connections."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    store = LogStore(config, descriptors)
    if store.max_open_files < config.max_open_files:
        logger.warning(
            "log.max.open.files is more than half of RLIMIT_NOFILE",
            extra={
                "configured": config.max_open_files,
                "limit": descriptors,
                "in_force": store.max_open_files,
            },
        )
    return store


def _quota_callback(configuration: Configuration, clock: TrioClock) -> GuardedCallback | None:
    """Build the callback of `client.quota.callback.class`. Raises ConfigError."""
    name = configuration.config.quotas.callback_class
    if not name:
        return None
    return GuardedCallback(load_callback(name, _config_texts(configuration)), name, clock.ms)


def _config_texts(configuration: Configuration) -> dict[str, str]:
    """Return the configuration as text, for classes that an operator provides."""
    node = str(configuration.config.broker.node_id)
    return {"broker.id": node, "node.id": node, **configuration.static, **configuration.unknown}


def _served_apis(telemetry: bool) -> registry.Registry:
    """Return the APIs that clients can call."""
    every = registry.load()
    return every if telemetry else every.without(TELEMETRY_APIS)


def _report(recovery: Recovery) -> None:
    """Log the result of recovery."""
    for directory in recovery.unclean:
        logger.warning(
            "the last stop was not clean",
            extra={"directory": directory, "checked_bytes": recovery.scanned_bytes},
        )
    for gone in recovery.offline:
        logger.error(
            "a log directory is offline",
            extra={"directory": gone.directory, "reason": str(gone.error)},
        )
    for exposed in recovery.exposed:
        _report_exposed(exposed)
    for two in recovery.duplicates:
        logger.warning(
            "a partition exists in two log directories",
            extra={
                "partition": f"{two.topic}-{two.partition}",
                "kept": two.directory,
                "put_aside": two.renamed_to,
            },
        )
    for cut in recovery.truncated:
        logger.warning(
            "truncated an incomplete batch at the end of a log",
            extra={
                "partition": f"{cut.topic}-{cut.partition}",
                "end": cut.end_offset,
                "bytes": cut.bytes_cut,
            },
        )
    for damage in recovery.damage:
        logger.error("damaged records are not served", extra={"where": str(damage)})
    for gap in recovery.missing:
        logger.error("records are missing", extra=gap._asdict())
    for lost in recovery.unreadable:
        logger.error(
            "a partition is offline",
            extra={"partition": f"{lost.topic}-{lost.partition}", "reason": str(lost.error)},
        )


def _report_exposed(exposed: Exposure) -> None:
    directory = exposed.directory
    if exposed.tightened:
        logger.info(
            "made files private that other users could read",
            extra={"directory": directory, "changed": exposed.tightened},
        )
    if exposed.error is not None:
        reason = str(exposed.error)
        logger.warning(
            "a file remains readable by other users", extra={"directory": directory, "reason": reason}
        )
    if exposed.mode:
        logger.warning(
            "other users of this machine can list a log directory",
            extra={"directory": directory, "mode": f"{exposed.mode:04o}", "way_out": f"chmod o= {directory}"},
        )

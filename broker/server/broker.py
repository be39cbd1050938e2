"""Builds all services of one broker and connects them. Starts no task.

Called by `app`, which runs them. `BrokerServer.__init__` is the tour; `server.parts` has the parts, and the
functions below it connect them to the network and to changes.
"""

from collections.abc import Sequence
from typing import Final

from broker.api import registry
from broker.api.requests.services import log_services
from broker.api.security.client_security import ClientSecurity
from broker.common.slice_runner import OneAtATime, run_slices
from broker.config.load import Configuration
from broker.config.sections import SecurityConfig, TelemetryConfig
from broker.controller.control import Control
from broker.controller.group_changes import GroupChanges
from broker.controller.topic_records import TopicRecords
from broker.controller.transaction_changes import TransactionChanges
from broker.coordinator.group.messages import Now
from broker.log.partition import PartitionLog
from broker.monitoring.events.writer import LocalTopics
from broker.network.automq.server_mode import automq
from broker.network.clock import TrioClock
from broker.network.handling.handler_pool import Completion
from broker.network.reaper import Reaper
from broker.network.server_factory import KAFKA
from broker.network.socket_server import SocketServer
from broker.network.supervisor import TaskStarter
from broker.partitions.event_log import EventLog, EventOrigin
from broker.protocol.api_key import ApiKey
from broker.security.acl.authorizer import Authorizer
from broker.security.delegation_tokens import DelegationTokens
from broker.server.listeners import (
    TopicListener,
    acl_listener,
    delegation_token_listener,
    hold_back_retries,
    register_storage_listeners,
)
from broker.server.parts.control import (
    EXPIRY_TASK,
    ServerMetadata,
    ServerTelemetry,
    closing_on_failure,
    quota_callback,
    remove_expired_tokens,
)
from broker.server.parts.dead_letters import DEAD_LETTERS
from broker.server.parts.share_groups import SHARE_GROUP_STATES
from broker.server.parts.storage import DelayedRequests, ServerStorage
from broker.server.parts.streams_topics import STREAMS_TOPICS
from broker.server.server import Server
from broker.views.parts import LogParts

TELEMETRY_APIS: Final = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)


class BrokerServer(Server):
    """The parts of one broker. Raises ConfigError or OSError if they cannot be built."""

    def __init__(self, configuration: Configuration, clock: TrioClock) -> None:
        callback = quota_callback(configuration, clock)
        metadata = ServerMetadata(configuration, clock)
        with closing_on_failure(metadata.close):
            super().__init__(metadata, callback, clock)
            self.storage = ServerStorage(self.config, self.control, clock)
            # The next start would recover the logs otherwise, as after a crash.
            with closing_on_failure(self.storage.close):
                self._build(configuration)

    def _build(self, configuration: Configuration) -> None:
        """Build what needs the metadata and the logs."""
        clock, config = self.clock, self.config
        self.log, self.partitions = self.storage.log, self.storage.partitions

        self.authorizer = _authorizer(config.security, self.control)
        self.security = ClientSecurity(config.security, self.authorizer)

        self.tokens = DelegationTokens(
            config.security.delegation_token_secret_key, self.control.image.delegation_tokens
        )

        self.mode = automq(config.automq) if config.automq.server_mode == "automq" else KAFKA
        self.callbacks = self._make_callbacks()
        self.delayed = DelayedRequests(
            config,
            self.control,
            self.partitions,
            self.security,
            self.callbacks,
            self.failures,
            clock,
            self.deliver,
            self.quotas,
            self.mutations,
        )
        self.fetches, self.produces = self.delayed.fetches, self.delayed.produces
        self.retry_storm = self.delayed.retry_storm
        event_log = EventLog(self.partitions)
        origin = EventOrigin(config.broker.node_id, lambda: self.control.image.cluster_id)
        self.telemetry = ServerTelemetry(
            configuration, config.telemetry, event_log, self.callbacks, self.deliver, clock, origin
        )

        self.registry = _served_apis(config.telemetry)
        self.socket_server = self._start_network()
        topics = LocalTopics(event_log, self.control, self.fetches, self.deliver)
        self.events = self._make_events(event_log, topics.append, origin)
        self.delayed.transactions.on_abort = self.events.aborted

        groups = self.delayed.groups.groups
        self._make_views(
            event_log,
            LogParts(
                self.partitions,
                groups,
                self.delayed.transactions,
                self.storage.replication,
                self.storage.cleaner.manager,
                self.delayed.purgatories,
                self.authorizer,
                self.delayed.share.dead_letters.writer.counts,
            ),
        )

        self._apply_metadata()
        self.server_quotas.usage.resume()
        now = Now(clock.ms(), clock.wall_ms())
        groups.load(now)
        self.delayed.transactions.load(now)
        self.delayed.share.persister.load()
        self._follow_settings()
        self._add_operations()

    def close(self) -> None:
        """Save the usage of quotas, flush appended records and close the stores."""
        self.server_quotas.close()
        self.storage.close()
        self.metadata.close()
        self.server_views.close()

    @property
    def reapers(self) -> Sequence[Reaper]:
        """The reapers of delayed requests."""
        return self.delayed.reapers

    def start_storage(self, nursery: TaskStarter) -> None:
        """Start the tasks of the logs, of share groups and of the metadata."""
        self.storage.start(nursery, self.socket_server.handlers)
        nursery.start_soon(self.delayed.share_states.run, name=SHARE_GROUP_STATES)
        nursery.start_soon(self.delayed.share.dead_letters.run, name=DEAD_LETTERS)
        nursery.start_soon(self.delayed.streams_topics.run, name=STREAMS_TOPICS)
        if self.tokens.enabled:
            interval_ms = self.config.security.delegation_token_expiry_check_interval_ms
            nursery.start_soon(remove_expired_tokens, self.control, interval_ms, self.clock, name=EXPIRY_TASK)

    async def metadata_ready(self) -> None:
        """Return at once: the metadata is a broker's own."""

    def start_ports(self, nursery: TaskStarter) -> None:
        """Start nothing: all ports of a broker are those of `listeners`."""

    def release_delayed(self) -> None:
        """Complete every delayed request at shutdown, with the response of a timeout."""
        self.delayed.release_waiting()
        super().release_delayed()

    def _disconnected(self, connection_id: str) -> None:
        self.telemetry.state.manager.disconnected(connection_id)
        self.delayed.share.disconnected(connection_id)

    def _start_network(self) -> SocketServer:
        """Build the handlers' services and the network that calls the handlers. Binds every port."""
        config, delayed = self.config, self.delayed
        services = {
            **self._control_services(self.tokens),
            **log_services(
                self.clock,
                config,
                self.endpoints,
                self.partitions,
                self.fetches,
                delayed.groups,
                self.quotas,
                self.storage.replication,
            ),
            **delayed.share.services,
        }
        completion = Completion(
            config.broker.node_id, self.partitions, self.callbacks, self.fetches, self.produces
        )
        server = self._bind_sockets(services, completion, self._disconnected)
        self.partitions.on_offline(server.clear_caches)
        hold_back_retries(self.retry_storm, server, config.broker_quotas)
        return server

    def _apply_metadata(self) -> None:
        """Apply the metadata image to the parts, and every later change of it."""
        control, image, server = self.control, self.control.image, self.socket_server
        topics = TopicListener(
            image,
            self.clock,
            server,
            self.partitions,
            self.fetches,
            self.delayed.groups,
            self.storage.replication,
        )
        control.prepare(topics.prepare)
        self._follow_metadata(topics.on_metadata_update)
        control.subscribe(delegation_token_listener(self.tokens))
        if self.authorizer is not None:
            control.subscribe(acl_listener(self.authorizer))

    def _add_operations(self) -> None:
        """Let operators read and produce records, change groups, and abort transactions."""
        clock = self.clock

        def grown(log: PartitionLog) -> None:
            self.fetches.complete(log)
            self.deliver()

        TopicRecords(self.partitions, OneAtATime().run, clock.ms, clock.wall_ms, grown).register(self.control)
        groups = self.delayed.groups.groups

        def now() -> Now:
            return Now(clock.ms(), clock.wall_ms())

        GroupChanges(groups, self.delayed.share_states, self.partitions, run_slices, now).register(
            self.control
        )
        TransactionChanges(self.delayed.transactions, now).register(self.control)

    def _follow_settings(self) -> None:
        super()._follow_settings()
        register_storage_listeners(
            self.control,
            self.partitions,
            self.log,
            self.storage.replication,
            self.storage.mover,
            self.storage.background,
            self.storage.cleaner,
        )


def _authorizer(config: SecurityConfig, control: Control) -> Authorizer | None:
    if not config.authorizer_class_name:
        return None
    return Authorizer(control.image.acls, config.super_users, is_open=config.allow_everyone_if_no_acl_found)


def _served_apis(config: TelemetryConfig) -> registry.Registry:
    """Return the APIs that clients can call."""
    every = registry.load()
    return every if config.enabled else every.without(TELEMETRY_APIS)

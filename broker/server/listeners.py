"""Applies committed changes of metadata and settings to the running server. (Kafka: MetadataPublisher)

The listeners of metadata apply the image of the start when they are built. Control calls them after each
commit and before its response, so that the change is in force when the client receives the response.
`QuotaListener` and `ClientMetricsListener` need no logs.

Each `register_...` function registers the listeners of one area of dynamic settings. Other dynamic keys take
effect because their users read `Control.config` each time. See `DynamicConfig.on_change` for when these
callbacks run.
"""

import logging
from collections.abc import Callable, Iterable, Sequence

from broker.api.requests.delayed_operations import DelayedFetches
from broker.api.requests.group_replies import forget_states, forget_topics
from broker.api.requests.retry_storm import RetryStormGate
from broker.api.requests.services import GroupServices
from broker.api.security.client_security import ClientSecurity
from broker.common.clock import Clock
from broker.common.errors import ApiError
from broker.common.slices import Steps, run_through
from broker.config.sections import (
    BrokerQuotaConfig,
    NetworkConfig,
    ReplicationConfig,
    SecurityConfig,
    TlsConfig,
)
from broker.config.sections.network import check_dynamic_change, check_threads
from broker.config.sections.topics import topic_throttles
from broker.controller.control import Control, Subscriber
from broker.controller.dynamic_config import DynamicConfig
from broker.log.store import LogStore
from broker.metadata.changes import Delta, QuotaChange, ShadowChange
from broker.metadata.image import Image, Topic
from broker.network.requests.request_log import RequestLog
from broker.network.socket_server import SocketServer
from broker.partitions.partitions import Partitions
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.connections import ConnectionQuotas
from broker.quotas.entity import Entity
from broker.quotas.replication import ReplicationQuotas
from broker.security.acl.authorizer import Authorizer
from broker.security.delegation_tokens import DelegationTokens
from broker.security.plain import PlainAuthenticator
from broker.security.unknown_users import UnknownUsers
from broker.server.disk.log_cleaner import LogCleaner
from broker.server.disk.log_mover import LogMover
from broker.server.disk.tasks import BackgroundThreads
from broker.telemetry.manager import TelemetryManager
from broker.telemetry.subscription import read_subscription

logger = logging.getLogger(__name__)

Tls = tuple[NetworkConfig, TlsConfig]


class QuotaListener:
    """Applies the limits of clients and addresses, and shows the topics to a quota callback."""

    def __init__(
        self,
        image: Image,
        clock: Clock,
        node_id: int,
        server: SocketServer,
        quotas: ClientQuotas,
        connections: Iterable[ConnectionQuotas],
    ) -> None:
        self._clock = clock
        self._node_id = node_id
        self._server = server
        self._quotas = quotas
        self._connections = tuple(connections)
        self._times_requests = False
        changes = [
            QuotaChange(entry.entity, key, limit.value)
            for entry in image.quotas.values()
            for key, limit in entry.limits.items()
        ]
        marks = [ShadowChange(entry.entity, True) for entry in image.quotas.values() if entry.shadow]
        run_through(self._apply_quotas(changes, marks))
        self._update_topics(image)

    def on_metadata_update(self, _old: Image, new: Image, delta: Delta) -> Steps[None]:
        """Apply the changed limits, an address per step."""
        if delta.quotas or delta.shadows:
            yield from self._apply_quotas(delta.quotas, delta.shadows)
        if delta.topics:
            self._update_topics(new)

    def _apply_quotas(self, quotas: Sequence[QuotaChange], marks: Sequence[ShadowChange]) -> Steps[None]:
        """Apply all client limits at once, and the limits of addresses one after the other."""
        limits: list[tuple[Entity, str, float | None]] = []
        for change in quotas:
            entity = Entity.of(change.entity)
            if entity.ip is None:
                limits.append((entity, change.key, change.value))
            else:
                for connections in self._connections:
                    connections.set_ip_rate(entity.ip, change.value)
            yield
        if limits or marks:
            shadows = ((Entity.of(mark.entity), mark.is_shadow) for mark in marks)
            drafts = yield from self._quotas.draft(limits, shadows)
            yield from self._quotas.switch(drafts, self._clock.ms())
        self._time_requests()
        yield from self._server.throttling.apply_rules(self._server.channels)

    def _update_topics(self, image: Image) -> None:
        """A quota callback can return other limits after a change of topics."""
        quotas, now_ms = self._quotas, self._clock.ms()
        if quotas.callback is not None:
            partitions = {name: topic.partitions for name, topic in image.topics.items()}
            quotas.update_cluster_metadata(image.cluster_id, self._node_id, partitions, now_ms)

    def _time_requests(self) -> None:
        """Measure request times while a rule limits them."""
        is_limited = self._quotas.request.active
        if is_limited is not self._times_requests:
            self._times_requests = is_limited
            self._server.time_requests(is_limited)


class TopicListener:
    """Hosts the partitions of topics, and deletes those of deleted topics with their committed offsets."""

    def __init__(
        self,
        image: Image,
        clock: Clock,
        server: SocketServer,
        partitions: Partitions,
        fetches: DelayedFetches,
        groups: GroupServices,
        replication: ReplicationQuotas,
    ) -> None:
        self._clock = clock
        self._server = server
        self._partitions = partitions
        self._fetches = fetches
        self._groups = groups
        self._replication = replication
        partitions.begin(image)
        self._mark_throttled(image, image.topics)

    def prepare(self, _old: Image, new: Image, delta: Delta) -> Steps[None]:
        """Create the topics and partitions of a commit before any client can see them."""
        for name in delta.topics:
            self._mark_throttled(new, (name,))
            yield
        if delta.topics:
            yield from self._partitions.host_in_steps(new, delta.topics)

    def on_metadata_update(self, old: Image, new: Image, delta: Delta) -> Steps[None]:
        """Delete topics and their committed offsets, a few per step."""
        if not delta.topics:
            return
        partitions, clock = self._partitions, self._clock
        gone: dict[str, Topic] = {}
        for name in delta.topics:
            topic = old.topics.get(name)
            if topic is not None and (name not in new.topics or new.topics[name].topic_id != topic.topic_id):
                gone[name] = topic
            yield
        if gone:
            yield from partitions.delete_in_steps(new, gone, self._fetches.complete)
            yield from partitions.host_in_steps(new, gone)
            yield from forget_topics(self._groups, gone, clock.ms, clock.wall_ms)
            ids = {topic.topic_id for topic in gone.values()}
            yield from forget_states(self._groups, ids, clock.ms, clock.wall_ms)
            self._server.clear_caches()
            yield
        self._server.handlers.deliver()

    def _mark_throttled(self, image: Image, names: Iterable[str]) -> None:
        for name in names:
            topic = image.topics.get(name)
            self._replication.mark(name, None if topic is None else topic_throttles(topic.configs))


class ClientMetricsListener:
    """Applies the subscriptions to client metrics."""

    def __init__(self, image: Image, telemetry: TelemetryManager) -> None:
        self._telemetry = telemetry
        run_through(self._apply(image, image.client_metrics))

    def on_metadata_update(self, _old: Image, new: Image, delta: Delta) -> Steps[None]:
        """Apply the changed subscriptions, one per step."""
        return self._apply(new, delta.client_metrics)

    def _apply(self, image: Image, names: Iterable[str]) -> Steps[None]:
        for name in names:
            entry = image.client_metrics.get(name)
            subscription = None
            try:
                if entry is not None:
                    subscription = yield from read_subscription(name, entry.configs)
            except ApiError as error:
                # An earlier version has taken patterns that are refused now.
                refused = {"subscription": name, "reason": error.message}
                logger.error("A subscription is invalid, no client has it", extra=refused)
            self._telemetry.on_metadata_update({name: subscription})
            yield


def response_listener(server: SocketServer) -> Subscriber:
    """Return a listener that clears the cached responses, whenever something changes that they contain."""

    def on_metadata_update(_old: Image, _new: Image, delta: Delta) -> None:
        if delta.topics or delta.broker_configs or delta.scram or delta.acls:
            server.clear_caches()

    return on_metadata_update


def unknown_users_listener(unknown_users: UnknownUsers) -> Subscriber:
    """Return a listener that keeps the answers to unknown users like those to existing users."""

    def on_metadata_update(old: Image, new: Image, delta: Delta) -> Steps[None]:
        if delta.scram:
            yield from unknown_users.on_metadata_update(old.scram, new.scram, delta.scram)

    return on_metadata_update


def delegation_token_listener(tokens: DelegationTokens) -> Subscriber:
    """Return a listener that knows created delegation tokens and forgets removed ones, a token per step."""

    def on_metadata_update(_old: Image, new: Image, delta: Delta) -> Steps[None]:
        for token_id in delta.delegation_tokens:
            if token_id in new.delegation_tokens:
                tokens.add(token_id)
            else:
                tokens.remove(token_id)
            yield

    return on_metadata_update


def acl_listener(authorizer: Authorizer) -> Subscriber:
    """Return a listener that applies created and deleted ACLs, all those of a change at one moment."""

    def on_metadata_update(_old: Image, _new: Image, delta: Delta) -> Steps[None]:
        if delta.acls:
            created = [each.acl for each in delta.acls if each.is_created]
            deleted = [each.acl for each in delta.acls if not each.is_created]
            yield from authorizer.update(created, deleted)

    return on_metadata_update


def hold_back_retries(gate: RetryStormGate, server: SocketServer, config: BrokerQuotaConfig) -> None:
    """Enable or disable the delay of repeated errors; responses that are already delayed stay so."""
    gate.storm.max_delay_ms = config.retry_storm_max_delay_ms
    if not config.retry_storm_backoff:
        gate.storm.forget()
    server.wrap_handlers(gate if config.retry_storm_backoff else None)


def register_network_listeners(
    live: DynamicConfig, server: SocketServer, listeners_changed: Callable[[], None]
) -> None:
    """Register listeners for changes of sockets, TLS, connection limits and the request log.

    `listeners_changed` is called when the advertised addresses change.
    """

    def check_listeners(old: NetworkConfig, new: NetworkConfig) -> None:
        check_dynamic_change(old, new)
        server.check_reconfigure(old, new)

    def apply_network(old: NetworkConfig, new: NetworkConfig) -> None:
        server.reconfigure(old, new)
        listeners_changed()

    def check_tls(_old: Tls, new: Tls) -> Steps[None]:
        return server.check_tls(*new)

    # Before the listeners, because one change can add a listener together with its keys.
    live.on_change(
        lambda config: (config.network, config.tls), lambda _old, new: server.apply_tls(new[1]), check_tls
    )
    live.on_change(lambda config: config.network, apply_network, check_listeners)
    live.on_change(
        lambda config: config.request_log,
        lambda _old, new: server.log_requests(new),
        lambda _old, new: RequestLog.check(new),
    )
    live.on_change(lambda config: config.connections, lambda _old, new: server.limit_connections(new))


def register_quota_listeners(
    live: DynamicConfig, quotas: ClientQuotas, retry_storm: RetryStormGate, server: SocketServer, clock: Clock
) -> None:
    """Register listeners for the longest throttle, the broker's own quota and retry-storm back-off."""

    def apply_broker_quotas(_old: object, new: BrokerQuotaConfig) -> None:
        quotas.configure_broker(new, clock.ms())
        hold_back_retries(retry_storm, server, new)

    live.on_change(
        lambda config: config.quotas, lambda _old, new: quotas.set_longest_throttle(new.longest_throttle_ms)
    )
    live.on_change(lambda config: config.broker_quotas, apply_broker_quotas)


def register_security_listeners(live: DynamicConfig, security: ClientSecurity) -> None:
    """Register a listener for the users, mechanisms and roles of Kafka clients."""

    def check_security(_old: SecurityConfig, new: SecurityConfig) -> None:
        PlainAuthenticator.from_jaas(new.plain_jaas)

    live.on_change(lambda config: config.security, lambda _old, new: security.configure(new), check_security)


def register_storage_listeners(
    control: Control,
    partitions: Partitions,
    log: LogStore,
    replication: ReplicationQuotas,
    mover: LogMover,
    background: BackgroundThreads,
    cleaner: LogCleaner,
) -> None:
    """Register listeners for the defaults of topics, replication quotas, and the settings of logs."""
    live = control.live

    def apply_topic_settings(_old: object, _new: object) -> Steps[None]:
        return partitions.host_in_steps(control.image, control.image.topics)

    def apply_replication(_old: object, new: ReplicationConfig) -> None:
        replication.configure(new)
        mover.poke()

    live.on_change(lambda config: config.topic_settings, apply_topic_settings)
    live.on_change(lambda config: config.replication, apply_replication)
    live.on_change(
        lambda config: config.log.background_threads,
        lambda _old, new: background.resize(new),
        lambda old, new: check_threads("background.threads", old, new),
    )
    live.on_change(lambda config: config.log, lambda _old, new: log.reconfigure(new))
    live.on_change(
        lambda config: config.cleaner,
        lambda _old, new: cleaner.reconfigure(new),
        lambda old, new: check_threads("log.cleaner.threads", old.threads, new.threads),
    )

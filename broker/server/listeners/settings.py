"""Applies dynamic settings to the running broker. Called by `server` once.

Each function registers the listeners of one area. Other dynamic keys take effect because their users read
`Control.config` each time. See `DynamicConfig.on_change` for when these callbacks run.
"""

from collections.abc import Callable

from broker.api.requests.retry_storm import RetryStormGate
from broker.api.security.client_security import ClientSecurity
from broker.common.clock import Clock
from broker.common.slices import Steps
from broker.config.sections import (
    BrokerQuotaConfig,
    NetworkConfig,
    ReplicationConfig,
    SecurityConfig,
    TlsConfig,
)
from broker.config.sections.network import check_dynamic_change, check_threads
from broker.controller.control import Control
from broker.controller.dynamic_config import DynamicConfig
from broker.log.store import LogStore
from broker.network.requests.request_log import RequestLog
from broker.network.socket_server import SocketServer
from broker.partitions.partitions import Partitions
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.replication import ReplicationQuotas
from broker.security.plain import PlainAuthenticator
from broker.server.disk.log_cleaner import LogCleaner
from broker.server.disk.log_mover import LogMover
from broker.server.disk.tasks import BackgroundThreads

Tls = tuple[NetworkConfig, TlsConfig]


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

"""Applies dynamic settings to the running broker. Called by `server` once.

Each package with dynamic settings has an entry here. Other dynamic keys take effect because their users read
`Control.config` each time. See `DynamicConfig.on_change` for when these callbacks run.
"""

from collections.abc import Callable

from broker.api.broker import Broker
from broker.api.retry_storm import RetryStormGate
from broker.config.sections import (
    BrokerQuotaConfig,
    NetworkConfig,
    ReplicationConfig,
    SecurityConfig,
    TlsConfig,
)
from broker.config.sections.network import check_dynamic_change, check_threads
from broker.disk.log_mover import LogMover
from broker.disk.tasks import BackgroundThreads
from broker.events.writer import EventWriter
from broker.log.store import LogStore
from broker.network.metrics.request_log import RequestLog
from broker.network.socket_server import SocketServer
from broker.security.plain import PlainAuthenticator
from broker.steps import Steps

Tls = tuple[NetworkConfig, TlsConfig]


def hold_back_retries(broker: Broker, server: SocketServer, config: BrokerQuotaConfig) -> None:
    """Enable or disable the delay of repeated errors; responses that are already delayed stay so."""
    broker.retry_storm.max_delay_ms = config.retry_storm_max_delay_ms
    if not config.retry_storm_backoff:
        broker.retry_storm.forget()
    server.wrap_handlers(RetryStormGate(broker) if config.retry_storm_backoff else None)


def register_config_listeners(
    broker: Broker,
    server: SocketServer,
    log: LogStore,
    events: EventWriter,
    mover: LogMover,
    background: BackgroundThreads,
    listeners_changed: Callable[[], None],
) -> None:
    """Register all listeners; `listeners_changed` is called when the advertised addresses change."""
    control, quotas, partitions = broker.control, broker.quotas, broker.partitions
    on_change = control.live.on_change

    def check_listeners(old: NetworkConfig, new: NetworkConfig) -> None:
        check_dynamic_change(old, new)
        server.check_reconfigure(old, new)

    def apply_network(old: NetworkConfig, new: NetworkConfig) -> None:
        server.reconfigure(old, new)
        listeners_changed()

    def apply_topic_settings(_old: object, _new: object) -> Steps[None]:
        return partitions.host_in_steps(control.image, control.image.topics)

    def apply_replication(_old: object, new: ReplicationConfig) -> None:
        broker.replication.configure(new)
        mover.poke()

    def apply_broker_quotas(_old: object, new: BrokerQuotaConfig) -> None:
        quotas.configure_broker(new, broker.clock.ms())
        server.throttling.poke()
        hold_back_retries(broker, server, new)

    def apply_security(_old: SecurityConfig, new: SecurityConfig) -> None:
        """Applies to new logins; existing sessions continue."""
        broker.security_config = new
        broker.plain = PlainAuthenticator.from_jaas(new.plain_jaas)

    def check_security(_old: SecurityConfig, new: SecurityConfig) -> None:
        PlainAuthenticator.from_jaas(new.plain_jaas)

    def check_tls(_old: Tls, new: Tls) -> None:
        server.check_tls(*new)

    # Before the listeners, because one change can add a listener together with its keys.
    on_change(
        lambda config: (config.network, config.tls), lambda _old, new: server.apply_tls(new[1]), check_tls
    )
    on_change(lambda config: config.network, apply_network, check_listeners)
    on_change(
        lambda config: config.request_log,
        lambda _old, new: server.log_requests(new),
        lambda _old, new: RequestLog.check(new),
    )
    on_change(lambda config: config.events, lambda _old, new: events.apply_config(new))
    on_change(lambda config: config.connections, lambda _old, new: server.limit_connections(new))
    on_change(lambda config: config.topic_settings, apply_topic_settings)
    on_change(
        lambda config: config.quotas, lambda _old, new: quotas.set_longest_throttle(new.longest_throttle_ms)
    )
    on_change(lambda config: config.broker_quotas, apply_broker_quotas)
    on_change(lambda config: config.security, apply_security, check_security)
    on_change(lambda config: config.replication, apply_replication)
    on_change(
        lambda config: config.log.background_threads,
        lambda _old, new: background.resize(new),
        lambda old, new: check_threads("background.threads", old, new),
    )
    on_change(lambda config: config.log, lambda _old, new: log.reconfigure(new))

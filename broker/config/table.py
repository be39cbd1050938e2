"""All configuration keys, collected from the sections. For broker.config.load, .reference and DescribeConfigs
in broker.controller.
"""

from dataclasses import dataclass, field
from typing import Any, Final, get_type_hints

from broker.config.sections import (
    AlertConfig,
    AutomqConfig,
    BrokerQuotaConfig,
    ConnectionConfig,
    ConsoleConfig,
    ConsumerGroupConfig,
    EventConfig,
    FetchConfig,
    GatewayConfig,
    GroupConfig,
    KerberosConfig,
    LogCleanerConfig,
    LogConfig,
    NetworkConfig,
    NodeConfig,
    QuotaConfig,
    ReplicationConfig,
    RequestLogConfig,
    SecurityConfig,
    ShareCoordinatorConfig,
    ShareGroupConfig,
    SharePartitionConfig,
    StreamsGroupConfig,
    TelemetryConfig,
    TlsConfig,
    TopicDefaults,
    TopicSettings,
    TransactionConfig,
    UpstreamConfig,
)
from broker.config.setting import Setting, settings_of, split_listener


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """All sections of one broker; broker.server.broker passes them to the parts."""

    broker: NodeConfig = field(default_factory=NodeConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    automq: AutomqConfig = field(default_factory=AutomqConfig)
    connections: ConnectionConfig = field(default_factory=ConnectionConfig)
    log: LogConfig = field(default_factory=LogConfig)
    cleaner: LogCleanerConfig = field(default_factory=LogCleanerConfig)
    topics: TopicDefaults = field(default_factory=TopicDefaults)
    topic_settings: TopicSettings = field(default_factory=TopicSettings)
    fetch: FetchConfig = field(default_factory=FetchConfig)
    groups: GroupConfig = field(default_factory=GroupConfig)
    consumer_groups: ConsumerGroupConfig = field(default_factory=ConsumerGroupConfig)
    share_groups: ShareGroupConfig = field(default_factory=ShareGroupConfig)
    streams_groups: StreamsGroupConfig = field(default_factory=StreamsGroupConfig)
    transactions: TransactionConfig = field(default_factory=TransactionConfig)
    share_partitions: SharePartitionConfig = field(default_factory=SharePartitionConfig)
    share_coordinator: ShareCoordinatorConfig = field(default_factory=ShareCoordinatorConfig)
    quotas: QuotaConfig = field(default_factory=QuotaConfig)
    broker_quotas: BrokerQuotaConfig = field(default_factory=BrokerQuotaConfig)
    replication: ReplicationConfig = field(default_factory=ReplicationConfig)
    telemetry: TelemetryConfig = field(default_factory=TelemetryConfig)
    request_log: RequestLogConfig = field(default_factory=RequestLogConfig)
    events: EventConfig = field(default_factory=EventConfig)
    console: ConsoleConfig = field(default_factory=ConsoleConfig)
    alerts: AlertConfig = field(default_factory=AlertConfig)
    security: SecurityConfig = field(default_factory=SecurityConfig)
    kerberos: KerberosConfig = field(default_factory=KerberosConfig)
    tls: TlsConfig = field(default_factory=TlsConfig)
    upstream: UpstreamConfig = field(default_factory=UpstreamConfig)
    gateway: GatewayConfig = field(default_factory=GatewayConfig)


SECTION_TYPES: Final[dict[str, type]] = get_type_hints(BrokerConfig)

SETTINGS: Final[dict[str, Setting]] = {
    described.key: described for section in SECTION_TYPES.values() for _, described in settings_of(section)
}
"""By the first spelling of each key."""

SPELLINGS: Final[dict[str, Setting]] = {
    key: described for described in SETTINGS.values() for key, _ in described.spellings
}
"""By every spelling."""


GATEWAY_KEYS: Final = frozenset(
    described.key for section in (UpstreamConfig, GatewayConfig) for _, described in settings_of(section)
)
"""Keys without effect at a broker that is no gateway."""


def setting_of(key: str) -> Setting | None:
    """Return the setting of `key`, in any spelling or for one listener; None if the key is unknown."""
    listener, bare = split_listener(key)
    if listener is None:
        known = SPELLINGS.get(key)
        return None if known is None or known.per_listener else known
    known = SETTINGS.get(bare)
    return known if known is not None and (known.per_listener or known.listener_too) else None


def read_value(key: str, text: str) -> Any:
    """Parse `text` for this key, which must exist. Raises ConfigError."""
    known = setting_of(key)
    assert known is not None, key
    if split_listener(key)[0] is None:
        return known.read_spelling(key, text)
    return known.read(text, key=key)

"""The configuration sections: small frozen dataclasses with each field's key beside it.

broker.config.load fills them; broker.server.broker passes each package only its own section. In a test,
`LogConfig()` has all defaults, and `LogConfig(dirs=(tmp_path,))` its own directory.
"""

from broker.config.sections.broker import AlertConfig, EventConfig, NodeConfig, RequestLogConfig
from broker.config.sections.connections import ConnectionConfig
from broker.config.sections.console import ConsoleConfig
from broker.config.sections.fetch import FetchConfig
from broker.config.sections.gateway import GatewayConfig, UpstreamConfig
from broker.config.sections.groups import ConsumerGroupConfig, GroupConfig
from broker.config.sections.log import LogCleanerConfig, LogConfig
from broker.config.sections.network import AutomqConfig, NetworkConfig
from broker.config.sections.quotas import BrokerQuotaConfig, QuotaConfig, ReplicationConfig, TopicThrottles
from broker.config.sections.security import KerberosConfig, SecurityConfig
from broker.config.sections.share_groups import ShareCoordinatorConfig, ShareGroupConfig, SharePartitionConfig
from broker.config.sections.streams_groups import StreamsGroupConfig
from broker.config.sections.telemetry import TelemetryConfig
from broker.config.sections.tls import TlsConfig
from broker.config.sections.topics import TopicDefaults, TopicSettings
from broker.config.sections.transactions import TransactionConfig

__all__ = [
    "AlertConfig",
    "AutomqConfig",
    "BrokerQuotaConfig",
    "ConnectionConfig",
    "ConsoleConfig",
    "ConsumerGroupConfig",
    "EventConfig",
    "FetchConfig",
    "GatewayConfig",
    "GroupConfig",
    "KerberosConfig",
    "LogCleanerConfig",
    "LogConfig",
    "NetworkConfig",
    "NodeConfig",
    "QuotaConfig",
    "ReplicationConfig",
    "RequestLogConfig",
    "SecurityConfig",
    "ShareCoordinatorConfig",
    "ShareGroupConfig",
    "SharePartitionConfig",
    "StreamsGroupConfig",
    "TelemetryConfig",
    "TlsConfig",
    "TopicDefaults",
    "TopicSettings",
    "TopicThrottles",
    "TransactionConfig",
    "UpstreamConfig",
]

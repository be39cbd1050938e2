"""What each room of the broker is told: one small frozen dataclass per room, every field with its key beside
it.

Filled by broker.config.load; handed out by broker.house, to each room its own and never the whole. In a test,
`LogConfig()` is a room with every default, and `LogConfig(dirs=(tmp_path,))` one with a directory of its own.
"""

from broker.config.rooms.automq import AutomqConfig
from broker.config.rooms.broker import BrokerConfig
from broker.config.rooms.broker_quotas import BrokerQuotaConfig
from broker.config.rooms.connections import ConnectionConfig
from broker.config.rooms.console import ConsoleConfig
from broker.config.rooms.events import EventConfig
from broker.config.rooms.fetch import FetchConfig
from broker.config.rooms.groups import GroupConfig
from broker.config.rooms.log import LogConfig
from broker.config.rooms.network import NetworkConfig
from broker.config.rooms.quotas import QuotaConfig
from broker.config.rooms.replication import ReplicationConfig, TopicThrottles
from broker.config.rooms.request_log import RequestLogConfig
from broker.config.rooms.security import SecurityConfig
from broker.config.rooms.telemetry import TelemetryConfig
from broker.config.rooms.tls import TlsConfig
from broker.config.rooms.topics import TopicDefaults, TopicSettings

__all__ = [
    "AutomqConfig",
    "BrokerConfig",
    "BrokerQuotaConfig",
    "ConnectionConfig",
    "ConsoleConfig",
    "EventConfig",
    "FetchConfig",
    "GroupConfig",
    "LogConfig",
    "NetworkConfig",
    "QuotaConfig",
    "ReplicationConfig",
    "RequestLogConfig",
    "SecurityConfig",
    "TelemetryConfig",
    "TlsConfig",
    "TopicDefaults",
    "TopicSettings",
    "TopicThrottles",
]

"""Every key there is, collected from the rooms. For broker.config.load, .reference and broker.control's
DescribeConfigs.
"""

from dataclasses import dataclass, field
from typing import Final

from broker.config.rooms import (
    BrokerConfig,
    ConsoleConfig,
    FetchConfig,
    GroupConfig,
    LogConfig,
    NetworkConfig,
    QuotaConfig,
    SecurityConfig,
    TopicDefaults,
    TopicSettings,
)
from broker.config.setting import Setting, settings_of


@dataclass(frozen=True, slots=True)
class Rooms:
    """All rooms of one broker; broker.app takes them apart."""

    broker: BrokerConfig = field(default_factory=BrokerConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    log: LogConfig = field(default_factory=LogConfig)
    topics: TopicDefaults = field(default_factory=TopicDefaults)
    topic_settings: TopicSettings = field(default_factory=TopicSettings)
    fetch: FetchConfig = field(default_factory=FetchConfig)
    groups: GroupConfig = field(default_factory=GroupConfig)
    quotas: QuotaConfig = field(default_factory=QuotaConfig)
    console: ConsoleConfig = field(default_factory=ConsoleConfig)
    security: SecurityConfig = field(default_factory=SecurityConfig)


ROOM_TYPES: Final[dict[str, type]] = {
    "broker": BrokerConfig,
    "network": NetworkConfig,
    "log": LogConfig,
    "topics": TopicDefaults,
    "topic_settings": TopicSettings,
    "fetch": FetchConfig,
    "groups": GroupConfig,
    "quotas": QuotaConfig,
    "console": ConsoleConfig,
    "security": SecurityConfig,
}

SETTINGS: Final[dict[str, Setting]] = {
    described.key: described for room in ROOM_TYPES.values() for _, described in settings_of(room)
}
"""By the first spelling of each key."""

SPELLINGS: Final[dict[str, Setting]] = {
    key: described for described in SETTINGS.values() for key, _ in described.spellings
}
"""By every spelling, the coarser and the older ones too."""

"""The settings of one group, of whatever type: `kafka-configs.sh --entity-type groups`. (Kafka: GroupConfig)

Called by `controller` to alter and to describe them.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from broker.config.sections.groups import CONSUMER, HEARTBEAT, SESSION, ConsumerGroupConfig
from broker.config.sections.share_groups import (
    ISOLATION_LEVEL,
    LOCK_DURATION,
    OFFSET_RESET,
    SHARE,
    ShareGroupConfig,
    SharePartitionConfig,
)
from broker.config.setting import Setting
from broker.config.table import SETTINGS

_OF_BROKER: Final = (
    f"{CONSUMER}.{SESSION}",
    f"{CONSUMER}.{HEARTBEAT}",
    f"{SHARE}.{SESSION}",
    f"{SHARE}.{HEARTBEAT}",
    f"{SHARE}.{LOCK_DURATION}",
)
"""The settings whose defaults are settings of the broker."""

GROUP_SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType(
    {key: SETTINGS[f"group.{key}"] for key in _OF_BROKER}
    | {OFFSET_RESET.key: OFFSET_RESET, ISOLATION_LEVEL.key: ISOLATION_LEVEL}
)
"""The setting that has the default and the kind of each setting of a group."""


def check_group_configs(
    configs: Mapping[str, str],
    consumer: ConsumerGroupConfig,
    share: ShareGroupConfig,
    partitions: SharePartitionConfig,
) -> None:
    """Check the settings of one group. Raises ConfigError."""
    for key, text in configs.items():
        GROUP_SETTINGS[key].read(text, key=key)
    consumer.times.check_group(configs, CONSUMER)
    share.times.check_group(configs, SHARE)
    partitions.record_lock_duration.check_group(configs, f"{SHARE}.{LOCK_DURATION}")

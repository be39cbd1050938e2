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
from broker.config.sections.streams_groups import (
    ASSIGNMENT_INTERVAL,
    ASSIGNOR_NAME,
    INITIAL_DELAY,
    OFFLOAD,
    RACK_TAGS,
    RECOVERY_LAG,
    STANDBY_REPLICAS,
    STREAMS,
    TASK_OFFSET_INTERVAL,
    WARMUP_REPLICAS,
    StreamsGroupConfig,
    check_streams_group,
)
from broker.config.setting import Setting
from broker.config.table import SETTINGS

_OF_BROKER: Final = (
    f"{CONSUMER}.{SESSION}",
    f"{CONSUMER}.{HEARTBEAT}",
    f"{SHARE}.{SESSION}",
    f"{SHARE}.{HEARTBEAT}",
    f"{SHARE}.{LOCK_DURATION}",
    f"{STREAMS}.{SESSION}",
    f"{STREAMS}.{HEARTBEAT}",
    STANDBY_REPLICAS,
    INITIAL_DELAY,
    ASSIGNMENT_INTERVAL,
    OFFLOAD,
    TASK_OFFSET_INTERVAL,
    WARMUP_REPLICAS,
    RACK_TAGS,
    RECOVERY_LAG,
)
"""The settings whose defaults are settings of the broker."""

GROUP_SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType(
    {key: SETTINGS[f"group.{key}"] for key in _OF_BROKER}
    | {each.key: each for each in (OFFSET_RESET, ISOLATION_LEVEL, ASSIGNOR_NAME)}
)
"""The setting that has the default and the kind of each setting of a group."""


def check_group_configs(
    configs: Mapping[str, str],
    consumer: ConsumerGroupConfig,
    share: ShareGroupConfig,
    partitions: SharePartitionConfig,
    streams: StreamsGroupConfig,
) -> None:
    """Check the settings of one group. Raises ConfigError."""
    for key, text in configs.items():
        GROUP_SETTINGS[key].read(text, key=key)
    consumer.times.check_group(configs, CONSUMER)
    share.times.check_group(configs, SHARE)
    partitions.record_lock_duration.check_group(configs, f"{SHARE}.{LOCK_DURATION}")
    check_streams_group(configs, streams)

"""The settings of one group, of whatever type: `kafka-configs.sh --entity-type groups`. (Kafka: GroupConfig)

Called by `controller` to alter and to describe them.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from broker.config.kinds import integer
from broker.config.sections.groups import ASSIGNMENT, CONSUMER, HEARTBEAT, SESSION, ConsumerGroupConfig
from broker.config.sections.share_groups import (
    DEAD_LETTER_RECORDS,
    DEAD_LETTER_TOPIC,
    DELIVERY_LIMIT,
    ISOLATION_LEVEL,
    LOCK_DURATION,
    MAX_LOCKS,
    OFFSET_RESET,
    RENEW_ACKNOWLEDGE,
    SHARE,
    ShareGroupConfig,
    SharePartitionConfig,
)
from broker.config.sections.streams_groups import (
    ASSIGNOR_NAME,
    INITIAL_DELAY,
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

OFFLOAD: Final = "assignor.offload.enable"

_OF_BROKER: Final = (
    f"{CONSUMER}.{SESSION}",
    f"{CONSUMER}.{HEARTBEAT}",
    f"{CONSUMER}.{ASSIGNMENT}",
    f"{CONSUMER}.{OFFLOAD}",
    f"{SHARE}.{SESSION}",
    f"{SHARE}.{HEARTBEAT}",
    f"{SHARE}.{ASSIGNMENT}",
    f"{SHARE}.{OFFLOAD}",
    f"{SHARE}.{LOCK_DURATION}",
    f"{SHARE}.{DELIVERY_LIMIT}",
    f"{SHARE}.{MAX_LOCKS}",
    f"{STREAMS}.{SESSION}",
    f"{STREAMS}.{HEARTBEAT}",
    STANDBY_REPLICAS,
    INITIAL_DELAY,
    f"{STREAMS}.{ASSIGNMENT}",
    f"{STREAMS}.{OFFLOAD}",
    TASK_OFFSET_INTERVAL,
    WARMUP_REPLICAS,
    RACK_TAGS,
    RECOVERY_LAG,
)
"""The settings whose defaults are settings of the broker."""

_KINDS: Final = {
    f"{SHARE}.{LOCK_DURATION}": integer(1_000),
    f"{SHARE}.{DELIVERY_LIMIT}": integer(2),
    f"{SHARE}.{MAX_LOCKS}": integer(100),
}
"""The kinds of those whose range is not that of the broker's setting, which other settings limit."""


def _of_broker(key: str) -> Setting:
    setting = SETTINGS[f"group.{key}"]
    return replace(setting, kind=_KINDS.get(key, setting.kind))


GROUP_SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType(
    {key: _of_broker(key) for key in _OF_BROKER}
    | {
        each.key: each
        for each in (
            OFFSET_RESET,
            ISOLATION_LEVEL,
            RENEW_ACKNOWLEDGE,
            DEAD_LETTER_TOPIC,
            DEAD_LETTER_RECORDS,
            ASSIGNOR_NAME,
        )
    }
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
    partitions.check_group(configs)
    check_streams_group(configs, streams)

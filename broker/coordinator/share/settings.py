"""The settings of one share group, from its own configs and the broker's. (Kafka: GroupConfig)

`share_partitions` reads them whenever it needs them, so that a change applies from the next acquisition on.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from broker.config.sections.share import LOCK_DURATION, SharePartitionConfig
from broker.config.sections.share_groups import ISOLATION_LEVEL, LATEST, OFFSET_RESET, READ_COMMITTED, SHARE

RECORD_LOCK_DURATION: Final = f"{SHARE}.{LOCK_DURATION}"


class ShareSettings(NamedTuple):
    """`auto_offset_reset` is `latest`, `earliest`, or `by_duration:` with an ISO 8601 duration."""

    record_lock_duration_ms: int = 30_000
    auto_offset_reset: str = LATEST
    is_committed: bool = False
    """Whether the group reads committed records only."""


SettingsOf = Callable[[str], ShareSettings]
"""Returns the settings of a group by its id."""


def share_settings(configs: Mapping[str, str], config: SharePartitionConfig) -> ShareSettings:
    """Return the settings of a group with these configs of its own, which are valid. A lock duration outside
    the broker's range, which may have changed since, counts as the limit.
    """
    return ShareSettings(
        config.record_lock_duration.of_group(configs, RECORD_LOCK_DURATION),
        configs.get(OFFSET_RESET.key, LATEST).strip(),
        configs.get(ISOLATION_LEVEL.key, "").strip() == READ_COMMITTED,
    )

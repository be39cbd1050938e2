"""The settings of one share group, from its own configs and the broker's. (Kafka: GroupConfig)

`share_partitions` reads them whenever it needs them, so that a change applies from the next acquisition on.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from broker.config.sections.share import SharePartitionConfig

RECORD_LOCK_DURATION: Final = "share.record.lock.duration.ms"
AUTO_OFFSET_RESET: Final = "share.auto.offset.reset"
ISOLATION_LEVEL: Final = "share.isolation.level"

LATEST: Final = "latest"
EARLIEST: Final = "earliest"
BY_DURATION: Final = "by_duration:"
READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"

_DURATION: Final = re.compile(
    r"P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,9}))?S)?)?", re.IGNORECASE
)
_MS: Final = (86_400_000, 3_600_000, 60_000, 1_000)


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
    own = configs.get(RECORD_LOCK_DURATION)
    lock_ms = config.record_lock_duration_ms
    if own is not None:
        lock_ms = min(max(int(own), config.min_record_lock_duration_ms), config.max_record_lock_duration_ms)
    return ShareSettings(
        lock_ms,
        configs.get(AUTO_OFFSET_RESET, LATEST),
        configs.get(ISOLATION_LEVEL, READ_UNCOMMITTED).lower() == READ_COMMITTED,
    )


def duration_ms(reset: str) -> int | None:
    """Return the milliseconds of `by_duration:P...`; None for another reset, or an invalid duration."""
    if not reset.lower().startswith(BY_DURATION):
        return None
    text = reset[len(BY_DURATION) :]
    found = _DURATION.fullmatch(text)
    if found is None or len(text) < 3:
        return None
    *whole, fraction = found.groups()
    total = sum(int(number or 0) * factor for number, factor in zip(whole, _MS, strict=True))
    return total + int((fraction or "").ljust(3, "0")[:3] or 0)

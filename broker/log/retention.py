"""Selects the segments that a partition may delete (Kafka's deleteOldSegments).

The criteria are age, size and the log start offset. Called by PartitionLog.retire. Changes nothing.
"""

from collections.abc import Sequence
from typing import Final

from broker.config.sections.topics import TopicSettings
from broker.log import disk
from broker.log.segment import Segment

UNLIMITED: Final = -1


def expired(
    segments: Sequence[Segment],
    settings: TopicSettings,
    *,
    log_start_offset: int,
    now_wall_ms: int,
) -> int:
    """Return how many of the oldest segments may be deleted.

    Raises OSError.

    All of them only if the active segment's newest record is also too old: the caller then rolls first.
    """
    count = 0
    if settings.deletes:
        count = max(
            _too_old(segments, settings.retention_ms, now_wall_ms),
            _too_many(segments, settings.retention_bytes),
        )
    while count < len(segments) - 1 and segments[count + 1].base_offset <= log_start_offset:
        count += 1
    return count


def _too_old(segments: Sequence[Segment], retention_ms: int, now_wall_ms: int) -> int:
    if retention_ms == UNLIMITED:
        return 0
    count = 0
    for segment in segments:
        if segment is segments[-1] and segment.size == 0:
            break
        timestamp, _ = segment.newest()
        if timestamp < 0:
            timestamp = disk.modified_ms(segment.path)
        if now_wall_ms - timestamp <= retention_ms:
            break
        count += 1
    return count


def _too_many(segments: Sequence[Segment], retention_bytes: int) -> int:
    """Return how many segments exceed the size limit, never counting the active one."""
    if retention_bytes == UNLIMITED:
        return 0
    excess = sum(segment.size for segment in segments) - retention_bytes
    count = 0
    for segment in segments[:-1]:
        excess -= segment.size
        if excess < 0:
            break
        count += 1
    return count

"""Selects the segments that a partition may delete (Kafka's deleteOldSegments), and detects forward jumps of
the wall clock, so that a wrong time does not delete records.

PartitionLog.retire calls `expired`, which decides by age, size and the log start offset; the store asks
ClockSteps before each round. Changes nothing on disk.
"""

import logging
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
    most: int,
) -> int:
    """Return how many of the oldest segments may be deleted, at most `most`.

    Raises OSError.

    All of them only if the active segment's newest record is also too old: the caller then rolls first.
    """
    count = 0
    if settings.deletes:
        count = max(
            _too_old(segments, settings.retention_ms, now_wall_ms, most),
            _too_many(segments, settings.retention_bytes),
        )
    count = min(count, most)
    while count < min(len(segments) - 1, most) and segments[count + 1].base_offset <= log_start_offset:
        count += 1
    return count


def _too_old(segments: Sequence[Segment], retention_ms: int, now_wall_ms: int, most: int) -> int:
    if retention_ms == UNLIMITED:
        return 0
    count = 0
    for segment in segments:
        if count == most:
            break
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


logger = logging.getLogger(__name__)

MAX_STEP_MS: Final = 24 * 3_600_000
"""Maximum forward step that retention accepts at once. Kafka has no such guard."""


class ClockSteps:
    """Compares the wall clock with the monotonic clock between calls.

    The first call cannot detect an earlier step.
    """

    def __init__(self) -> None:
        self._ahead_ms: int | None = None
        self._until_ms: int | None = None

    def is_trusted(self, now_wall_ms: int, now_ms: int, wait_ms: int) -> bool:
        """Return whether retention may use `now_wall_ms`.

        After a forward step of more than MAX_STEP_MS it may not for `wait_ms`; a backward step of that size
        ends the wait.
        """
        ahead_ms = now_wall_ms - now_ms
        step_ms = 0 if self._ahead_ms is None else ahead_ms - self._ahead_ms
        self._ahead_ms = ahead_ms
        if step_ms > MAX_STEP_MS:
            self._until_ms = now_ms + wait_ms
            logger.warning(
                "wall clock jumped forward: retention paused", extra={"step_ms": step_ms, "wait_ms": wait_ms}
            )
        elif step_ms < -MAX_STEP_MS and self._until_ms is not None:
            self._until_ms = None
            logger.warning("wall clock moved back: retention resumed", extra={"step_ms": step_ms})
        if self._until_ms is not None and now_ms >= self._until_ms:
            self._until_ms = None
        return self._until_ms is None

"""Finds the part of a log that can be cleaned, and whether it is due (Kafka's
LogCleanerManager.cleanableOffsets and LogToClean).

Called by `manager` for every compacted log, on the event loop's thread. Reads headers where a lag is set.
"""

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from broker.config.kinds import LONG_MAX
from broker.log import disk
from broker.log.partition import PartitionLog
from broker.log.segment import Segment

_base_offset = attrgetter("base_offset")


class Cleanable(NamedTuple):
    """The dirty part of a log that may be cleaned now.

    Offsets from `first_dirty` to before `end`, which is the base offset of a segment; `cleanable_bytes` are
    in them, `clean_bytes` before them. `delay_ms`: how long max.compaction.lag.ms has been exceeded, or 0.
    `is_reset`: the checkpoint was outside the log.
    """

    log: PartitionLog
    first_dirty: int
    end: int
    clean_bytes: int
    cleanable_bytes: int
    delay_ms: int
    is_reset: bool

    @property
    def ratio(self) -> float:
        """The share of dirty bytes, from 0 to 1."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        if self.delay_ms > 0 and self.cleanable_bytes > 0:
            return True
        return self.ratio > self.log.settings.min_cleanable_dirty_ratio


def assess(log: PartitionLog, checkpoint: int | None, now_wall_ms: int) -> Cleanable:
    """Return the cleanable part of a log. `checkpoint`: the end of the last pass. Raises OSError."""
    start = log.log_start_offset
    first_dirty = start if checkpoint is None else checkpoint
    is_reset = not start <= first_dirty <= log.high_watermark
    if is_reset:
        first_dirty = start
    *closed, active = log.segments
    dirty = _from(closed, active, first_dirty)
    limit = min(log.last_stable_offset, active.base_offset)
    if log.settings.min_compaction_lag_ms > 0:
        latest_ms = now_wall_ms - log.settings.min_compaction_lag_ms
        recent = next((each for each in dirty if _newest_ms(each) > latest_ms), None)
        if recent is not None:
            limit = min(limit, recent.base_offset)
    uncleanable = _from(closed, active, max(first_dirty, limit))
    end = uncleanable[0].base_offset if uncleanable else active.base_offset
    return Cleanable(
        log,
        first_dirty,
        end,
        sum(each.size for each in closed if each.base_offset < first_dirty),
        sum(each.size for each in dirty if each.base_offset < end),
        _delay_ms(dirty, log.settings.max_compaction_lag_ms, now_wall_ms),
        is_reset,
    )


def _from(closed: Sequence[Segment], active: Segment, offset: int) -> Sequence[Segment]:
    """Return the closed segments from the one that includes `offset` on."""
    if offset >= active.base_offset:
        return ()
    return closed[max(bisect_right(closed, offset, key=_base_offset) - 1, 0) :]


def _newest_ms(segment: Segment) -> int:
    newest, _ = segment.newest()
    return newest if newest >= 0 else disk.modified_ms(segment.path)


def _delay_ms(dirty: Sequence[Segment], max_lag_ms: int, now_wall_ms: int) -> int:
    if max_lag_ms == LONG_MAX:
        return 0
    firsts = (next(segment.batches(), None) for segment in dirty)
    times = [
        each.header.max_timestamp for each in firsts if each is not None and each.header.max_timestamp > 0
    ]
    return max(now_wall_ms - max_lag_ms - min(times), 0) if times else 0

"""Selects the log that the cleaner compacts next, and records what it has done (Kafka's LogCleanerManager).

Created by the composition root; `broker.server.disk.log_cleaner` asks it for work and reports results, and
the metrics and the console read it. Used only from the event loop's thread. `assess` finds the part of a log
that can be cleaned, and whether it is due; it reads headers where a lag is set.

A partition whose pass failed, because bytes are damaged or the disk refuses, is uncleanable until the next
start, as in Kafka.
"""

import logging
import os
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from broker.common.slices import Steps
from broker.config.kinds import LONG_MAX
from broker.log import disk
from broker.log.directories import LogDirectory
from broker.log.partition import PartitionLog
from broker.log.segment import Segment
from broker.log.store import LogStore

logger = logging.getLogger(__name__)

_base_offset = attrgetter("base_offset")


@dataclass(slots=True)
class CleanerStats:
    """Counts of one pass: bytes read for the offset map; bytes and records read and written by the copies.

    `keyless` counts records without a key, which were removed. Times in ms; `utilization` is that of the
    offset map.
    """

    map_bytes_read: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    keyless: int = 0
    index_ms: int = 0
    elapsed_ms: int = 0
    utilization: float = 0.0


class LastRun(NamedTuple):
    """The last pass over a log: when it ended, the offsets whose keys it read, and what it did."""

    ended_wall_ms: int
    first_dirty: int
    end_offset: int
    stats: CleanerStats


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


class CleanerManager:
    """The state of all passes.

    `uncleanable` has the reason of each failure. `last_of_thread` are the statistics of each thread's last
    pass, and `max_dirty_ratio` and `max_delay_ms` those of the last choice; `chosen_wall_ms` is its time, or
    None.
    """

    def __init__(self, store: LogStore) -> None:
        self.store = store
        self.in_progress: set[PartitionLog] = set()
        self.uncleanable: dict[PartitionLog, str] = {}
        self.runs: dict[PartitionLog, LastRun] = {}
        self.last_of_thread: dict[int, CleanerStats] = {}
        self.max_dirty_ratio = 0.0
        self.max_delay_ms = 0
        self.chosen_wall_ms: int | None = None

    def checkpoint(self, log: PartitionLog) -> int | None:
        """Return the offset up to which the log has been cleaned; None if it never was."""
        points = self.store.directories.of(log).cleaner_points
        return points.offsets.get((log.topic, log.index))

    def assess(self, log: PartitionLog, now_wall_ms: int) -> Cleanable:
        """Return what of a log can be cleaned. Raises OSError."""
        return assess(log, self.checkpoint(log), now_wall_ms)

    def choose(self, now_wall_ms: int) -> Steps[Cleanable | None]:
        """Return the dirtiest log that is due, which is then in progress until `done` or `fail`."""
        self._forget_deleted()
        self.chosen_wall_ms = now_wall_ms
        best: Cleanable | None = None
        dirtiest, delay_ms = 0.0, 0
        for log in list(self.store):
            yield
            if not self._may_clean(log):
                continue
            try:
                part = self.assess(log, now_wall_ms)
            except OSError as error:
                self.fail(log, str(error))
                continue
            dirtiest, delay_ms = max(dirtiest, part.ratio), max(delay_ms, part.delay_ms)
            if part.is_due and (best is None or part.ratio > best.ratio):
                best = part
        self.max_dirty_ratio, self.max_delay_ms = dirtiest, delay_ms
        if best is None or not self._may_clean(best.log):
            return None
        if best.is_reset and "delete" not in best.log.settings.cleanup_policy:
            logger.warning(
                "the cleaner's checkpoint is outside the log: cleaning begins at the log start offset",
                extra={"partition": _name(best.log), "start": best.first_dirty},
            )
        self.in_progress.add(best.log)
        return best

    def _may_clean(self, log: PartitionLog) -> bool:
        return (
            log.settings.compacts
            and log.adopted
            and log.offline is None
            and not log.deleted
            and log not in self.in_progress
            and log not in self.uncleanable
            and log not in self.store.moves.running
        )

    def uncleanable_in(self, directory: LogDirectory) -> list[PartitionLog]:
        """Return the logs of a directory that cannot be compacted."""
        return [
            log
            for log in self.uncleanable
            if not log.deleted and os.path.dirname(log.directory) == directory.path
        ]

    def dirty_bytes(self, log: PartitionLog) -> int:
        """Return the bytes of closed segments that were written since the last pass."""
        point = self.checkpoint(log) or 0
        closed = zip(log.segments, log.segments[1:], strict=False)
        return sum([each.size for each, following in closed if following.base_offset > point])

    def may_replace(self, log: PartitionLog) -> bool:
        """Return whether a copy may be put in place: not while the log moves to another directory."""
        return log not in self.store.moves.running

    def done(self, part: Cleanable, run: LastRun, thread: int) -> None:
        """Note a complete pass, so that the next one begins at its end. Raises OSError."""
        log = part.log
        self.in_progress.discard(log)
        self.runs[log] = run
        self.last_of_thread[thread] = run.stats
        points = self.store.directories.of(log).cleaner_points
        points.set((log.topic, log.index), run.end_offset)

    def leave(self, log: PartitionLog) -> None:
        """Note a pass that ended early without an error; it begins anew when due."""
        self.in_progress.discard(log)

    def fail(self, log: PartitionLog, reason: str) -> None:
        """Note that a log cannot be cleaned, with an error line."""
        self.in_progress.discard(log)
        self.uncleanable[log] = reason
        logger.error(
            "a log cannot be compacted until the next start",
            extra={"partition": _name(log), "reason": reason},
        )

    def _forget_deleted(self) -> None:
        for logs in (self.uncleanable, self.runs):
            for log in [each for each in logs if each.deleted]:
                del logs[log]


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


def _name(log: PartitionLog) -> str:
    return f"{log.topic}-{log.index}"

"""Selects the log that the cleaner compacts next, and records what it has done (Kafka's LogCleanerManager).

Created by the composition root; `broker.server.disk.log_cleaner` asks it for work and reports results, and
the metrics and the console read it. Used only from the event loop's thread.

A partition whose pass failed, because bytes are damaged or the disk refuses, is uncleanable until the next
start, as in Kafka.
"""

import logging
import os
from typing import NamedTuple

from broker.common.slices import Steps
from broker.log.cleaner.cleanable import Cleanable, assess
from broker.log.cleaner.cleaning import CleanerStats
from broker.log.directories import LogDirectory
from broker.log.partition import PartitionLog
from broker.log.store import LogStore

logger = logging.getLogger(__name__)


class LastRun(NamedTuple):
    """The last pass over a log: when it ended, the offsets whose keys it read, and what it did."""

    ended_wall_ms: int
    first_dirty: int
    end_offset: int
    stats: CleanerStats


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


def _name(log: PartitionLog) -> str:
    return f"{log.topic}-{log.index}"

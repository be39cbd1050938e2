"""Metrics of the log cleaner, with the names of Kafka's LogCleaner and LogCleanerManager."""

from collections.abc import Iterator
from typing import Final

from broker.log.cleaner.manager import CleanerManager
from broker.metrics.families import FamilySamples, Kind, Sample

MANAGER: Final = "kafka_log_logcleanermanager"
CLEANER: Final = "kafka_log_logcleaner"


def compaction_families(manager: CleanerManager, now_wall_ms: int) -> Iterator[FamilySamples]:
    """Yield the families. Those of the cleaner are the maximum of the threads' last passes, as in Kafka."""
    last = list(manager.last_of_thread.values())
    read, written = sum(each.bytes_read for each in last), sum(each.bytes_written for each in last)
    since_ms = 0 if manager.chosen_wall_ms is None else now_wall_ms - manager.chosen_wall_ms
    counts, sizes = [], []
    for directory in manager.store.directories:
        failed = manager.uncleanable_in(directory)
        labels = (("logDirectory", directory.path),)
        counts.append(Sample(labels, len(failed)))
        sizes.append(Sample(labels, sum(manager.dirty_bytes(log) for log in failed)))
    for name, text, samples in (
        (
            f"{MANAGER}_max_dirty_percent",
            "The dirty share of the dirtiest compacted log, in percent",
            [Sample((), int(100 * manager.max_dirty_ratio))],
        ),
        (f"{MANAGER}_time_since_last_run_ms", "Time since a log was last chosen", [Sample((), since_ms)]),
        (f"{MANAGER}_uncleanable_partitions_count", "Partitions that cannot be compacted", counts),
        (f"{MANAGER}_uncleanable_bytes", "Dirty bytes of partitions that cannot be compacted", sizes),
        (
            f"{CLEANER}_max_buffer_utilization_percent",
            "How full the offset map of a last pass was, in percent",
            [Sample((), int(100 * max((each.utilization for each in last), default=0)))],
        ),
        (
            f"{CLEANER}_cleaner_recopy_percent",
            "Bytes that the last passes kept, in percent of those they read",
            [Sample((), int(100 * written / max(read, 1)))],
        ),
        (
            f"{CLEANER}_max_clean_time_secs",
            "How long the longest of the last passes took",
            [Sample((), max((each.elapsed_ms for each in last), default=0) // 1000)],
        ),
        (
            f"{CLEANER}_max_compaction_delay_secs",
            "How long max.compaction.lag.ms is exceeded by the log that exceeds it most",
            [Sample((), manager.max_delay_ms // 1000)],
        ),
    ):
        yield FamilySamples(name, text, Kind.GAUGE, samples)

"""Metrics of topics, of logs and their directories, of the log cleaner, of event topics, and of dead letters.
(Kafka: BrokerTopicMetrics, LogManager's gauges, ReplicaAlterLogDirsManager, LogCleaner, LogCleanerManager,
ShareGroupMetrics)

A series without the label `topic` is the total of all topics, including deleted ones, as in Kafka: sums
must select `topic!=""`. A partition that moves to another directory has a second log with
`is_future="true"`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from broker.coordinator.share.dead_letters import DeadLetterCounts
from broker.log import disk
from broker.log.cleaner.manager import CleanerManager
from broker.log.store import LogStore
from broker.metrics.families import MAX_SERIES, Families, FamilySamples, Sample, counter, gauge
from broker.partitions.event_log import EventBuffer
from broker.partitions.partitions import Partitions, TopicTraffic

TRAFFIC: Final = "kafka_server_brokertopicmetrics"

TRAFFIC_COUNTERS: Final[tuple[tuple[str, str, Callable[[TopicTraffic], int]], ...]] = (
    ("messagesin", "Records appended", lambda each: each.messages_in),
    ("bytesin", "Bytes of batches appended", lambda each: each.bytes_in),
    ("bytesout", "Bytes of batches sent to consumers", lambda each: each.bytes_out),
    ("totalproducerequests", "Appends to a partition, including failed ones", lambda each: each.appends),
    ("totalfetchrequests", "Reads of a partition for a fetch", lambda each: each.reads),
    ("failedproducerequests", "Appends that were refused or failed", lambda each: each.failed_appends),
    ("failedfetchrequests", "Reads that failed because of the broker", lambda each: each.failed_reads),
)


Labels = tuple[tuple[str, str], ...]


def topic_families(partitions: Partitions) -> Families:
    """In steps: a topic may be deleted between two of them, and is still on this page."""
    every, total = list(partitions.by_name.values()), partitions.gone
    traffic: list[tuple[Labels, TopicTraffic]] = []
    for topic in every:
        of_topic = yield from topic.traffic()
        total += of_topic
        if len(traffic) < MAX_SERIES:
            traffic.append(((("topic", topic.name),), of_topic))
        yield None
    traffic.insert(0, ((), total))
    for name, about, value_of in TRAFFIC_COUNTERS:
        yield counter(f"{TRAFFIC}_{name}_total", about, _totals(traffic, value_of))
    sizes, ends = [], []
    for topic in every[:MAX_SERIES]:
        for log in list(topic.open_logs.values()):
            yield None
            of_log = (("topic", log.topic), ("partition", str(log.index)))
            sizes.append(Sample(of_log, log.size))
            ends.append(Sample(of_log, log.high_watermark))
    for move in list(partitions.store.moves.running.values())[:MAX_SERIES]:
        log = move.partition
        future = (("topic", log.topic), ("partition", str(log.index)), ("is_future", "true"))
        sizes.append(Sample(future, move.size))
        ends.append(Sample(future, move.end_offset))
    yield gauge("kafka_log_log_size", "Bytes of a partition's log", sizes)
    yield gauge("kafka_log_log_logendoffset", "The next offset", ends)


def _totals(
    traffic: Iterable[tuple[Labels, TopicTraffic]], value_of: Callable[[TopicTraffic], int]
) -> Iterator[Sample]:
    return (Sample(labels, value_of(of)) for labels, of in traffic)


MANAGER: Final = "kafka_server_replicaalterlogdirsmanager"


def log_directory_families(store: LogStore) -> Iterator[FamilySamples]:
    """Yield the families. `topics` has the sizes of the copies."""
    offline = [
        Sample((("logDirectory", each.path),), int(each.offline is not None)) for each in store.directories
    ]
    lost = sum(each.value for each in offline)
    lag = max((move.lag for move in store.moves.running.values()), default=0)
    unusable = Counter(log.topic for log in store.offline)
    by_topic = [Sample((("topic", topic),), count) for topic, count in list(unusable.items())[:MAX_SERIES]]
    missing = [
        Sample((("topic", log.topic), ("partition", str(log.index))), log.missing)
        for log in list(store.gapped)[:MAX_SERIES]
    ]
    space = [(each.path, _space(each.path)) for each in store.directories if each.offline is None]
    of_volumes = [((("logDirectory", path),), known) for path, known in space if known is not None]
    yield gauge(
        "kafka_server_replicamanager_offlinereplicacount",
        "Partitions offline until the next start",
        len(store.offline),
    )
    yield gauge("weir_log_offline_partitions", "Partitions offline until the next start, by topic", by_topic)
    yield gauge(
        "weir_log_directory_free_bytes",
        "Free bytes of the volume",
        [Sample(labels, free) for labels, (_, free) in of_volumes],
    )
    yield gauge(
        "weir_log_directory_total_bytes",
        "Total bytes of the volume",
        [Sample(labels, total) for labels, (total, _) in of_volumes],
    )
    yield gauge("weir_log_missing_offsets", "Offsets whose records are lost", missing)
    yield gauge("kafka_log_logmanager_offlinelogdirectorycount", "Offline log directories", lost)
    yield gauge("kafka_log_logmanager_logdirectoryoffline", "1 if the log directory is offline", offline)
    yield gauge(f"{MANAGER}_maxlag", "Maximum lag of a running copy, in offsets", lag)
    yield gauge(f"{MANAGER}_failedpartitionscount", "Moves that failed", store.moves.failed)


def _space(path: str) -> tuple[int, int] | None:
    """Return total and free bytes of the volume; None if the system does not report them."""
    try:
        return disk.space(path)
    except OSError:
        return None


def event_families(log: EventBuffer) -> Iterator[FamilySamples]:
    topics = sorted(log.topics.items())
    written = [Sample((("topic", topic),), each.written) for topic, each in topics]
    dropped = [Sample((("topic", topic),), each.dropped) for topic, each in topics]
    yield counter("weir_events_written_total", "Records written to event topics", written)
    yield counter("weir_events_dropped_total", "Records dropped because the buffer was full", dropped)


CLEANER_MANAGER: Final = "kafka_log_logcleanermanager"
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
    yield gauge(
        f"{CLEANER_MANAGER}_max_dirty_percent",
        "The dirty share of the dirtiest compacted log, in percent",
        int(100 * manager.max_dirty_ratio),
    )
    yield gauge(f"{CLEANER_MANAGER}_time_since_last_run_ms", "Time since a log was last chosen", since_ms)
    yield gauge(
        f"{CLEANER_MANAGER}_uncleanable_partitions_count", "Partitions that cannot be compacted", counts
    )
    yield gauge(
        f"{CLEANER_MANAGER}_uncleanable_bytes", "Dirty bytes of partitions that cannot be compacted", sizes
    )
    yield gauge(
        f"{CLEANER}_max_buffer_utilization_percent",
        "How full the offset map of a last pass was, in percent",
        int(100 * max((each.utilization for each in last), default=0)),
    )
    yield gauge(
        f"{CLEANER}_cleaner_recopy_percent",
        "Bytes that the last passes kept, in percent of those they read",
        int(100 * written / max(read, 1)),
    )
    yield gauge(
        f"{CLEANER}_max_clean_time_secs",
        "How long the longest of the last passes took",
        max((each.elapsed_ms for each in last), default=0) // 1000,
    )
    yield gauge(
        f"{CLEANER}_max_compaction_delay_secs",
        "How long max.compaction.lag.ms is exceeded by the log that exceeds it most",
        manager.max_delay_ms // 1000,
    )


DEAD_LETTERS: Final[tuple[tuple[str, str, Callable[[DeadLetterCounts], int]], ...]] = (
    ("recordcount", "Dead letters written", lambda each: each.records),
    ("totalproducerequests", "Batches of dead letters, including failed ones", lambda each: each.batches),
    ("failedproducerequests", "Batches of dead letters that were given up", lambda each: each.failed),
)


def dead_letter_families(counts: Mapping[str, DeadLetterCounts]) -> Iterator[FamilySamples]:
    """Yield what each share group has written to its dead letter queue."""
    some = list(islice(counts.items(), MAX_SERIES))
    for name, about, value_of in DEAD_LETTERS:
        samples = [Sample((("group", group_id),), value_of(each)) for group_id, each in some]
        yield counter(f"kafka_server_sharegroupmetrics_deadletterqueue{name}_total", about, samples)

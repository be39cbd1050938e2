"""Metrics of the log directories and of moves between them. (Kafka: LogManager's gauges,
ReplicaAlterLogDirsManager)
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from broker.log import disk
from broker.log.store import LogStore
from broker.metrics.families import MAX_SERIES, FamilySamples, Kind, Sample

MANAGER: Final = "kafka_server_replicaalterlogdirsmanager"


def families(store: LogStore) -> Iterator[FamilySamples]:
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
    for name, text, samples in (
        (
            "kafka_server_replicamanager_offlinereplicacount",
            "Partitions offline until the next start",
            [Sample((), len(store.offline))],
        ),
        ("weir_log_offline_partitions", "Partitions offline until the next start, by topic", by_topic),
        (
            "weir_log_directory_free_bytes",
            "Free bytes of the volume",
            [Sample(labels, free) for labels, (_, free) in of_volumes],
        ),
        (
            "weir_log_directory_total_bytes",
            "Total bytes of the volume",
            [Sample(labels, total) for labels, (total, _) in of_volumes],
        ),
        ("weir_log_missing_offsets", "Offsets whose records are lost", missing),
        (
            "kafka_log_logmanager_offlinelogdirectorycount",
            "Offline log directories",
            [Sample((), lost)],
        ),
        ("kafka_log_logmanager_logdirectoryoffline", "1 if the log directory is offline", offline),
        (f"{MANAGER}_maxlag", "Maximum lag of a running copy, in offsets", [Sample((), lag)]),
        (f"{MANAGER}_failedpartitionscount", "Moves that failed", [Sample((), store.moves.failed)]),
    ):
        yield FamilySamples(name, text, Kind.GAUGE, samples)


def _space(path: str) -> tuple[int, int] | None:
    """Return total and free bytes of the volume; None if the system does not report them."""
    try:
        return disk.space(path)
    except OSError:
        return None

"""The directories of log.dirs and what moves between them. (Kafka: LogManager's gauges,
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
    """The copies themselves are shown among the logs, in `topics`."""
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
            "Partitions that cannot be used until the next start",
            [Sample((), len(store.offline))],
        ),
        ("weir_log_offline_partitions", "The same by topic", by_topic),
        (
            "weir_log_directory_free_bytes",
            "Bytes that the broker may still write to the volume",
            [Sample(labels, free) for labels, (_, free) in of_volumes],
        ),
        (
            "weir_log_directory_total_bytes",
            "Bytes of the volume",
            [Sample(labels, total) for labels, (total, _) in of_volumes],
        ),
        ("weir_log_missing_offsets", "Offsets whose records were there and are not", missing),
        (
            "kafka_log_logmanager_offlinelogdirectorycount",
            "Log directories that cannot be used",
            [Sample((), lost)],
        ),
        ("kafka_log_logmanager_logdirectoryoffline", "1 where it cannot be used", offline),
        (f"{MANAGER}_maxlag", "Offsets that the copy farthest behind lacks", [Sample((), lag)]),
        (f"{MANAGER}_failedpartitionscount", "Moves that met an error", [Sample((), store.moves.failed)]),
    ):
        yield FamilySamples(name, text, Kind.GAUGE, samples)


def _space(path: str) -> tuple[int, int] | None:
    """Bytes of the volume and those that are free; None where it does not say."""
    try:
        return disk.space(path)
    except OSError:
        return None

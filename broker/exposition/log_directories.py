"""The directories of log.dirs and what moves between them. (Kafka: LogManager's gauges,
ReplicaAlterLogDirsManager)
"""

from collections.abc import Iterator
from typing import Final

from broker.log.store import LogStore
from broker.metrics.registry import FamilySamples, Kind, Sample

MANAGER: Final = "kafka_server_replicaalterlogdirsmanager"


def families(store: LogStore) -> Iterator[FamilySamples]:
    """The copies themselves are shown among the logs, in `topics`."""
    offline = [
        Sample((("logDirectory", each.path),), int(each.offline is not None)) for each in store.directories
    ]
    lost = sum(each.value for each in offline)
    lag = max((move.lag for move in store.moves.running.values()), default=0)
    for name, text, samples in (
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

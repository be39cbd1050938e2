"""What Prometheus reads of the purgatories, under the names that Kafka's dashboards have.

Called when somebody looks. Kafka registers the gauges of all its purgatories whether anything ever waits in
them or not, and so does this.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from broker.metrics.registry import FamilySamples, Kind, Sample
from broker.purgatory.purgatory import Purgatory

NOTHING_WAITS: Final = ("DeleteRecords", "RemoteFetch", "RemoteListOffsets", "ShareFetch")
"""With one replica, without tiered storage and share groups these have no operations."""


def families(purgatories: Iterable[Purgatory[Any]]) -> Iterator[FamilySamples]:
    """Kafka: kafka.server:type=DelayedOperationPurgatory,name=*,delayedOperation=*"""
    figures = {each.name: (each.watched, each.delayed) for each in purgatories}
    figures |= dict.fromkeys(NOTHING_WAITS, (0, 0))
    prefix = "kafka_server_delayedoperationpurgatory"
    for index, (name, text) in enumerate(
        (
            ("purgatorysize", "Places in the lists of who waits for what, finished waits included"),
            ("numdelayedoperations", "Requests that wait, each with its time-out running"),
        )
    ):
        samples = [Sample((("delayedOperation", kind),), figure[index]) for kind, figure in figures.items()]
        yield FamilySamples(f"{prefix}_{name}", text, Kind.GAUGE, samples)

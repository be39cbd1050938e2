"""What Prometheus reads of the purgatories, under the names that Kafka's dashboards have.

Called when somebody looks. Only purgatories that exist have gauges: Kafka's DeleteRecords, RemoteFetch,
RemoteListOffsets and ShareFetch have no operations here, and a constant 0 would claim that they are watched.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from broker.metrics.families import FamilySamples, Kind, Sample
from broker.purgatory.purgatory import Purgatory


def families(purgatories: Iterable[Purgatory[Any]]) -> Iterator[FamilySamples]:
    """Kafka: kafka.server:type=DelayedOperationPurgatory,name=*,delayedOperation=*"""
    figures = {each.name: (each.watched, each.delayed) for each in purgatories}
    prefix = "kafka_server_delayedoperationpurgatory"
    for index, (name, text) in enumerate(
        (
            ("purgatorysize", "Places in the lists of who waits for what, finished waits included"),
            ("numdelayedoperations", "Requests that wait, each with its time-out running"),
        )
    ):
        samples = [Sample((("delayedOperation", kind),), figure[index]) for kind, figure in figures.items()]
        yield FamilySamples(f"{prefix}_{name}", text, Kind.GAUGE, samples)

"""The purgatories' Prometheus metrics, under the names that Kafka's dashboards use.

Called by a scrape. Only existing purgatories have gauges: Kafka's DeleteRecords, RemoteFetch,
RemoteListOffsets and ShareFetch have no operations here, and a constant 0 would be misleading.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from broker.metrics.families import FamilySamples, Kind, Sample
from broker.purgatory.purgatory import Purgatory


def families(purgatories: Iterable[Purgatory[Any]]) -> Iterator[FamilySamples]:
    """Yield Kafka's kafka.server:type=DelayedOperationPurgatory,name=*,delayedOperation=*"""
    figures = {each.name: (each.watched, each.delayed) for each in purgatories}
    prefix = "kafka_server_delayedoperationpurgatory"
    for index, (name, text) in enumerate(
        (
            ("purgatorysize", "Watched keys of delayed operations, including settled operations"),
            ("numdelayedoperations", "Delayed operations"),
        )
    ):
        samples = [Sample((("delayedOperation", kind),), figure[index]) for kind, figure in figures.items()]
        yield FamilySamples(f"{prefix}_{name}", text, Kind.GAUGE, samples)

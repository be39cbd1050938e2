"""What Prometheus reads of the broker, under the names that Kafka's dashboards already have. Made by `app`.

Families of the quotas come from `quotas.figures`; those of the network and the log from here.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from broker.metrics.prometheus import render
from broker.metrics.registry import FamilySamples, Kind, Sample
from broker.network.clock import TrioClock
from broker.network.request_metrics import Phase, RequestMetrics, quantile_ns
from broker.network.socket_server import SocketServer
from broker.purgatory import figures as purgatory_figures
from broker.purgatory.purgatory import Purgatory
from broker.quotas import figures as quota_figures
from broker.quotas.client_quotas import ClientQuotas
from broker.services.partitions import Partitions

QUANTILES = (0.5, 0.95, 0.99, 0.999)


class Exposition:
    """One page, made afresh each time it is read."""

    def __init__(
        self,
        clock: TrioClock,
        server: SocketServer,
        quotas: ClientQuotas,
        partitions: Partitions,
        purgatories: Iterable[Purgatory[Any]],
    ) -> None:
        self._clock = clock
        self._server = server
        self._quotas = quotas
        self._partitions = partitions
        self._purgatories = tuple(purgatories)

    def page(self) -> str:
        """The Prometheus text format, version 0.0.4."""
        return render(self._families()).decode()

    def _families(self) -> Iterator[FamilySamples]:
        yield from quota_figures.families(self._quotas, self._clock.ms())
        yield from self._requests()
        yield from self._network()
        yield from purgatory_figures.families(self._purgatories)
        yield from self._topics()

    def _requests(self) -> Iterator[FamilySamples]:
        metrics = [each for each in self._server.metrics.values() if each.requests]
        prefix = "kafka_network_requestmetrics"
        counters: tuple[tuple[str, str, Callable[[RequestMetrics], int]], ...] = (
            ("requests_total", "Requests answered", lambda each: each.requests),
            ("errors_total", "Requests that the broker failed to answer", lambda each: each.errors),
            ("requestbytes_total", "Bytes of requests", lambda each: each.bytes_in),
            ("responsebytes_total", "Bytes of responses", lambda each: each.bytes_out),
        )
        for name, text, value in counters:
            samples = [Sample((("request", each.name),), value(each)) for each in metrics]
            yield FamilySamples(f"{prefix}_{name}", text, Kind.COUNTER, samples)
        phases: tuple[tuple[str, str, Callable[[RequestMetrics], Phase]], ...] = (
            ("requestqueuetimems", "Milliseconds in the request queue", lambda each: each.queue),
            (
                "localtimems",
                "Milliseconds with a handler, and waiting for what it waits for",
                lambda e: e.local,
            ),
            ("totaltimems", "Milliseconds from the last byte in to the first byte out", lambda e: e.total),
        )
        for name, text, phase in phases:
            samples = [sample for each in metrics for sample in _quantiles(each, phase(each))]
            yield FamilySamples(f"{prefix}_{name}", text, Kind.SUMMARY, samples)

    def _network(self) -> Iterator[FamilySamples]:
        server = self._server
        counts = [
            Sample((("listener", listener.name), ("networkProcessor", str(processor.id))), count)
            for listener in server.listeners
            for processor in listener.processors
            for count in (len(processor.selector.channels),)
        ]
        yield FamilySamples(
            "kafka_server_socket_server_metrics_connection_count", "Open connections", Kind.GAUGE, counts
        )
        depth = [Sample((), server.requests.depth())]
        yield FamilySamples(
            "kafka_network_requestchannel_requestqueuesize", "Requests waiting", Kind.GAUGE, depth
        )
        waiting = [
            Sample((("processor", str(each.id)),), len(each.responder.responses))
            for each in server.processors()
        ]
        yield FamilySamples(
            "kafka_network_requestchannel_responsequeuesize", "Responses waiting", Kind.GAUGE, waiting
        )

    def _topics(self) -> Iterator[FamilySamples]:
        sizes, ends = [], []
        for topic in self._partitions.by_name.values():
            for log in topic.opened():
                labels = (("topic", log.topic), ("partition", str(log.index)))
                sizes.append(Sample(labels, log.size))
                ends.append(Sample(labels, log.log_end_offset))
        yield FamilySamples("kafka_log_log_size", "Bytes of a partition's log", Kind.GAUGE, sizes)
        yield FamilySamples("kafka_log_log_logendoffset", "The next offset", Kind.GAUGE, ends)


def _quantiles(metrics: RequestMetrics, phase: list[int]) -> Iterator[Sample]:
    name = ("request", metrics.name)
    for q in QUANTILES:
        yield Sample((name, ("quantile", str(q))), quantile_ns(phase, q) / 1e6)
    yield Sample((name,), sum(phase), "_count")

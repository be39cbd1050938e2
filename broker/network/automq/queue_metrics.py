"""Prometheus metrics of AutoMQ's mode; none in Kafka's mode. Called by the Prometheus exporter."""

from collections.abc import Iterator

from broker.metrics.families import FamilySamples, Kind, Sample
from broker.network.automq.request_queues import RequestQueues
from broker.network.handling.request_channel import Requests


def families(requests: Requests) -> Iterator[FamilySamples]:
    """Yield the permits of the size semaphore, and the depth of each handler's queue."""
    if not isinstance(requests, RequestQueues):
        return
    yield FamilySamples(
        "kafka_network_requestchannel_availablerequestsize",
        "Bytes of requests that may still come to wait for a handler",
        Kind.GAUGE,
        [Sample((), requests.sizes.available)],
    )
    yield FamilySamples(
        "kafka_network_requestchannel_handlerqueuesize",
        "Requests waiting, by handler",
        Kind.GAUGE,
        [Sample((("handler", str(index)),), depth) for index, depth in enumerate(requests.depths())],
    )

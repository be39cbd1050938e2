"""What requests cost, per API: how many, how large, how long. (Kafka: RequestMetrics)"""

from collections.abc import Callable, Iterator
from typing import Final

from broker.metrics.registry import FamilySamples, Kind, Sample
from broker.network.request_metrics import Phase, RequestMetrics, quantile_ns
from broker.network.socket_server import SocketServer

PREFIX: Final = "kafka_network_requestmetrics"
QUANTILES: Final = (0.5, 0.95, 0.99, 0.999)

COUNTERS: Final[tuple[tuple[str, str, Callable[[RequestMetrics], int]], ...]] = (
    ("requests_total", "Requests answered", lambda each: each.requests),
    ("errors_total", "Requests that the broker failed to answer", lambda each: each.errors),
    ("requestbytes_total", "Bytes of requests", lambda each: each.bytes_in),
    ("responsebytes_total", "Bytes of responses", lambda each: each.bytes_out),
)
PHASES: Final[tuple[tuple[str, str, Callable[[RequestMetrics], Phase]], ...]] = (
    ("requestqueuetimems", "Milliseconds in the request queue", lambda each: each.queue),
    (
        "localtimems",
        "Milliseconds with a handler, and waiting for what it waits for",
        lambda each: each.local,
    ),
    ("totaltimems", "Milliseconds from the last byte in to the first byte out", lambda each: each.total),
)


def families(server: SocketServer) -> Iterator[FamilySamples]:
    metrics = [each for each in server.metrics.values() if each.requests]
    for name, text, value in COUNTERS:
        counts = [Sample((("request", each.name),), value(each)) for each in metrics]
        yield FamilySamples(f"{PREFIX}_{name}", text, Kind.COUNTER, counts)
    for name, text, phase in PHASES:
        samples = [sample for each in metrics for sample in _quantiles(each, phase(each))]
        yield FamilySamples(f"{PREFIX}_{name}", text, Kind.SUMMARY, samples)


def _quantiles(metrics: RequestMetrics, phase: Phase) -> Iterator[Sample]:
    name = ("request", metrics.name)
    for q in QUANTILES:
        yield Sample((name, ("quantile", str(q))), quantile_ns(phase, q) / 1e6)
    yield Sample((name,), sum(phase), "_count")

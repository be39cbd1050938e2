"""Metrics of requests per API: count, size, durations, errors. (Kafka: RequestMetrics)

Quantiles are over the last five minutes, or since the previous scrape if that is longer; everything else is
since the start. An API without requests has no series.
"""

from collections.abc import Iterator
from itertools import chain, repeat
from math import nan
from typing import Final

from broker.common.errors import ErrorCode
from broker.metrics.families import QUANTILES, FamilySamples, MetricType, Sample, counter
from broker.metrics.histogram import quantiles
from broker.network.requests.request_log import RequestLog
from broker.network.requests.request_metrics import PHASES, AllMetrics, ApiMetrics, quantiles_ms
from broker.network.requests.routes import UNKNOWN_VERSION

PREFIX: Final = "kafka_network_requestmetrics"

ABOUT: Final = {
    "RequestQueueTimeMs": "Milliseconds from the request's last byte to its handler",
    "LocalTimeMs": "Milliseconds in the handler",
    "RemoteTimeMs": "Milliseconds of waiting for a timer, a commit or the disk",
    "ThrottleTimeMs": "Milliseconds that a quota throttles the connection, in parallel to the other phases",
    "ResponseQueueTimeMs": "Milliseconds of the response in the queue",
    "ResponseSendTimeMs": "Milliseconds from the response's first byte to its last",
    "TotalTimeMs": "Milliseconds from the request's last byte to the response's last",
}

ALWAYS_ZERO: Final = {
    "temporarymemorybytes": "Additional bytes to handle a request; always 0, as records stay compressed",
    "messageconversionstimems": "Milliseconds of down-conversion; always 0, only format 2 exists (KIP-724)",
}
"""Kafka's metrics of Produce and Fetch that are always 0 here."""

NOTHING: Final = [nan] * len(QUANTILES)

WITH_RECORDS: Final = ("Produce", "Fetch", "FetchConsumer", "FetchFollower")


def families(metrics: AllMetrics, now_ms: int) -> Iterator[FamilySamples]:
    """Yield the families; `now_ms` is monotonic."""
    apis = list(metrics)
    yield counter(
        f"{PREFIX}_requests_total",
        "Requests by version",
        [
            Sample((*_name(api), ("version", _version(version))), count)
            for api in apis
            for version, count in api.by_version().items()
        ],
    )
    yield counter(
        f"{PREFIX}_errors_total",
        "Error codes in responses; NONE counts responses without errors",
        [
            Sample((*_name(api), ("error", ErrorCode(code).name)), count)
            for api in apis
            for code, count in api.by_error().items()
        ],
    )
    for phase, attribute in PHASES.items():
        samples = chain.from_iterable(map(_times, apis, repeat(attribute), repeat(now_ms)))
        yield FamilySamples(f"{PREFIX}_{phase.lower()}", ABOUT[phase], MetricType.SUMMARY, samples)
    yield FamilySamples(
        f"{PREFIX}_requestbytes",
        "Bytes of a request without its size prefix",
        MetricType.SUMMARY,
        (each for api in apis for each in _sizes(api, now_ms)),
    )
    for name, about in ALWAYS_ZERO.items():
        zeros = [each for api in apis if api.name in WITH_RECORDS for each in _zeros(api)]
        yield FamilySamples(f"{PREFIX}_{name}", about, MetricType.SUMMARY, zeros)


def log_families(log: RequestLog) -> Iterator[FamilySamples]:
    """Yield the lines of the request log: written, and left out by its limit."""
    lines = (("written", log.written), ("left_out", log.left_out))
    yield counter(
        "weir_request_log_lines_total",
        "Requests selected for the request log: written, or left out by its limit",
        [Sample((("result", result),), count) for result, count in lines],
    )


def _times(api: ApiMetrics, phase: str, now_ms: int) -> Iterator[Sample]:
    recent, count = api.recent(phase, now_ms)
    for q, value in zip(QUANTILES, quantiles_ms(recent, QUANTILES), strict=True):
        yield _quantile(api, q, value)
    yield Sample(_name(api), count, "_count")


def _sizes(api: ApiMetrics, now_ms: int) -> Iterator[Sample]:
    recent, count = api.recent("size", now_ms)
    for q, value in zip(QUANTILES, quantiles(recent, QUANTILES) or NOTHING, strict=True):
        yield _quantile(api, q, value)
    yield Sample(_name(api), count, "_count")


def _zeros(api: ApiMetrics) -> Iterator[Sample]:
    yield from (_quantile(api, q, 0) for q in QUANTILES)
    yield Sample(_name(api), sum(api.counts("total")), "_count")


def _quantile(api: ApiMetrics, q: float, value: float) -> Sample:
    return Sample((*_name(api), ("quantile", str(q))), value)


def _name(api: ApiMetrics) -> tuple[tuple[str, str], ...]:
    return (("request", api.name),)


def _version(version: int) -> str:
    return "unknown" if version == UNKNOWN_VERSION else str(version)

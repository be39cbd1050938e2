"""What requests cost, per API: how many, how large, how long, how they ended. (Kafka: RequestMetrics)

Quantiles are of the last five minutes, or of the time since the page was last read where that is longer;
everything else is since the start. What has no request behind it has no series.
"""

from collections.abc import Iterator
from itertools import chain, repeat
from math import nan
from typing import Final

from broker.errors import ErrorCode
from broker.metrics.families import QUANTILES, FamilySamples, Kind, Sample
from broker.metrics.histogram import quantiles
from broker.network.handling.routes import UNKNOWN_VERSION
from broker.network.metrics.request_log import RequestLog
from broker.network.metrics.request_metrics import PHASES, AllMetrics, ApiMetrics, quantiles_ms

PREFIX: Final = "kafka_network_requestmetrics"

ABOUT: Final = {
    "RequestQueueTimeMs": "Milliseconds from the last byte in until a handler has the request",
    "LocalTimeMs": "Milliseconds with a handler",
    "RemoteTimeMs": "Milliseconds waiting for a timer, a commit or the disk",
    "ThrottleTimeMs": "Milliseconds that the connection is held for a quota, beside the other phases",
    "ResponseQueueTimeMs": "Milliseconds that the answer waits to be written",
    "ResponseSendTimeMs": "Milliseconds from the first byte to the last byte out",
    "TotalTimeMs": "Milliseconds from the last byte in to the last byte out",
}

NO_NUMBERS: Final = {
    "temporarymemorybytes": "Bytes that were needed besides the request; always 0, records stay packed",
    "messageconversionstimems": "Milliseconds of down-conversion; always 0, there is only format 2 (KIP-724)",
}
"""What Kafka has for Produce and Fetch, and this broker has no cause for."""

NOTHING: Final = [nan] * len(QUANTILES)

WITH_RECORDS: Final = ("Produce", "Fetch", "FetchConsumer", "FetchFollower")


def families(metrics: AllMetrics, now_ms: int) -> Iterator[FamilySamples]:
    """`now_ms` is monotonic."""
    apis = list(metrics)
    yield FamilySamples(
        f"{PREFIX}_requests_total",
        "Requests answered, by version",
        Kind.COUNTER,
        [
            Sample((*_name(api), ("version", _version(version))), count)
            for api in apis
            for version, count in api.by_version().items()
        ],
    )
    yield FamilySamples(
        f"{PREFIX}_errors_total",
        "Error codes in answers; NONE: answers without any",
        Kind.COUNTER,
        [
            Sample((*_name(api), ("error", ErrorCode(code).name)), count)
            for api in apis
            for code, count in api.by_error().items()
        ],
    )
    for phase, attribute in PHASES.items():
        samples = chain.from_iterable(map(_times, apis, repeat(attribute), repeat(now_ms)))
        yield FamilySamples(f"{PREFIX}_{phase.lower()}", ABOUT[phase], Kind.SUMMARY, samples)
    yield FamilySamples(
        f"{PREFIX}_requestbytes",
        "Bytes of a request, its size prefix not counted",
        Kind.SUMMARY,
        (each for api in apis for each in _sizes(api, now_ms)),
    )
    for name, about in NO_NUMBERS.items():
        zeros = [each for api in apis if api.name in WITH_RECORDS for each in _zeros(api)]
        yield FamilySamples(f"{PREFIX}_{name}", about, Kind.SUMMARY, zeros)


def log_families(log: RequestLog) -> Iterator[FamilySamples]:
    """The request log: how much of what was asked for its bound let through."""
    lines = (("written", log.written), ("left_out", log.left_out))
    yield FamilySamples(
        "weir_request_log_lines_total",
        "Requests that were to be logged, and were or were too many",
        Kind.COUNTER,
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

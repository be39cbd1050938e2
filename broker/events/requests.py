"""The requests of the past second: a row for each principal, client id and API.

Read from the network's `ClientUsage`; requests that processors serve from a request cache are counted by
API only.
"""

from collections.abc import Iterator
from typing import Final

from broker.events.source import encode, topic_of
from broker.metrics.histogram import top_of
from broker.network.metrics.client_usage import TIMED_PHASES, ApiClient, ApiUsage, ClientUsage, Histogram
from broker.network.metrics.request_metrics import TICK_NS, AllMetrics

VERSION: Final = 2
"""Version 1 called the source `cached` "by_heart"."""

CACHED: Final = "cached"
OTHERS: Final = "others"


class RequestEvents:
    """A `Source` with at most `most` rows a second; further clients share one row."""

    def __init__(self, most: int, usage: ClientUsage, metrics: AllMetrics) -> None:
        self.topic = topic_of("requests")
        self.left_out = 0
        self._most = most
        self._usage = usage
        self._metrics = metrics
        self._kept: dict[str, int] = {}

    def begin(self) -> None:
        """Discard what was counted before; it belongs to no row."""
        for _ in self._usage.take(0):
            pass
        self._kept = {api.name: sum(part.cached for part in api.parts) for api in self._metrics.once()}

    def take(self, time_ms: int) -> Iterator[bytes]:
        for client, use in self._usage.take(self._most):
            yield encode(time_ms, _row(client, use), VERSION)
        for api in self._metrics.once():
            kept = sum(part.cached for part in api.parts)
            more = kept - self._kept.get(api.name, 0)
            if more:
                self._kept[api.name] = kept
                yield encode(time_ms, {"source": CACHED, "api": api.name, "requests": more}, VERSION)


def _row(client: ApiClient | None, use: ApiUsage) -> dict[str, object]:
    who = {"source": OTHERS} if client is None else {"source": "client", **client._asdict()}
    return {
        **who,
        "requests": use.requests,
        "bytes_in": use.bytes_in,
        "bytes_out": use.bytes_out,
        "throttle_ms": use.throttle_ms,
        "errors": {str(code): count for code, count in use.errors.items()},
        "timed": use.timed,
        "phases": {name: _buckets(phase) for name, phase in zip(TIMED_PHASES, use.phases, strict=True)},
    }


def _buckets(histogram: Histogram) -> list[list[int]]:
    """Return pairs of a bucket's upper bound in microseconds and its count."""
    return [
        [-(-(top_of(bucket) + 1) * TICK_NS // 1000), count] for bucket, count in sorted(histogram.items())
    ]

"""Request metrics per API and version: counts, sizes, errors, and the time of each phase. (Kafka:
RequestMetrics, RequestChannel.Metrics)

Processors and handlers update them with plain additions; the console and /metrics read them. Durations are
nanoseconds of the run's clock, recorded in ticks of 1,024 ns, which avoids divisions.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import nan
from typing import Final, Protocol

from broker.metrics.histogram import (
    BUCKET_OF,
    Counts,
    RecentHistogram,
    bucket_of,
    merged,
    no_counts,
    quantiles,
)
from broker.network.connection.channel import Channel

TICK_BITS: Final = 10
TICK_NS: Final = 1 << TICK_BITS

PHASES: Final = {
    "RequestQueueTimeMs": "queue",
    "LocalTimeMs": "local",
    "RemoteTimeMs": "remote",
    "ThrottleTimeMs": "throttle",
    "ResponseQueueTimeMs": "response_queue",
    "ResponseSendTimeMs": "response_send",
    "TotalTimeMs": "total",
}
"""Kafka's metric names and their attributes."""

SPARSE: Final = frozenset(PHASES.values()) - {"total"}
"""Phases that some requests do not have: recorded only where they occur, and 0 for all others. A response
that the socket takes at once has a send time of 0; a request that a gateway forwards has a remote time only.
"""

FETCH: Final = "Fetch"

WHOLE: Final = {"FetchConsumer": FETCH, "FetchFollower": FETCH}
"""Requests that are also counted under a second name, as in Kafka."""


class MeasuredRoute(Protocol):
    """The route of a measured request."""

    version: int


class MeasuredRequest(Protocol):
    """A request as metrics and taps use it; see `network.requests.request_channel.Request`."""

    channel: Channel
    correlation_id: int
    client_id: str | None
    size: int
    received: int
    dequeued: int
    local_complete: int
    completed: int
    close_reason: str | None
    errors: tuple[int, ...]
    throttle_ms: int

    @property
    def route(self) -> MeasuredRoute: ...


Record = Callable[[MeasuredRequest, int, int], None]


class Tap(Protocol):
    """Receives every request that its metrics record."""

    @property
    def wants_all(self) -> bool:
        """Whether it needs every request in full, which rules out cached responses."""

    def response_sent(self, request: MeasuredRequest, taken: int, sent: int, size: int) -> None:
        """Record a response: `size` bytes were written between `taken` and `sent`."""

    def errors_counted(self, request: MeasuredRequest, counts: Mapping[int, int]) -> None:
        """Record how often the pending response has each error code."""

    def throttled(self, request: MeasuredRequest, throttle_ms: int) -> None:
        """Record that the pending response throttles its client."""


Taps = tuple[Tap, ...]


class RequestMetrics:
    """One API in one version. `cached` counts requests answered from the processor's cache, which have no
    phases; `errors` counts error codes, of which a response may have several, and `faulty` responses with
    any.

    `record(request, taken, size)` is called for every response of `size` bytes dequeued at `taken` that the
    socket took whole at once. It is a closure over all that it uses, since it is among the most frequently
    called functions of the broker.
    """

    def __init__(self, name: str, version: int, taps: Taps = ()) -> None:
        self.name = name
        self.version = version
        self.taps = taps
        self.cached = 0
        self.errors: dict[int, int] = {}
        self.faulty = 0
        self.queue = no_counts()
        self.local = no_counts()
        self.remote = no_counts()
        self.throttle = no_counts()
        self.response_queue = no_counts()
        self.response_send = no_counts()
        self.total = no_counts()
        self.size = no_counts()
        self.record: Record = _tapped(_recorder(self), taps) if taps else _recorder(self)

    @property
    def wants_all(self) -> bool:
        """Whether any tap needs every request, which rules out cached responses."""
        return any(tap.wants_all for tap in self.taps)

    @property
    def requests(self) -> int:
        """The number of requests answered so far."""
        return self.cached + sum(self.total)

    def record_slow(self, request: MeasuredRequest, taken: int, sent: int, size: int) -> None:
        """Record a response that waited for its socket, or whose connection closed after `size` bytes."""
        self.count_phases(request, taken, sent)
        for tap in self.taps:
            tap.response_sent(request, taken, sent, size)

    def count_phases(self, request: MeasuredRequest, taken: int, sent: int) -> None:
        """Record every phase of a request, of any duration."""
        local_complete = request.local_complete or request.completed
        self.queue[_bucket(request.dequeued - request.received)] += 1
        self.local[_bucket(local_complete - request.dequeued)] += 1
        if request.local_complete:
            self.remote[_bucket(request.completed - local_complete)] += 1
        self.response_queue[_bucket(taken - request.completed)] += 1
        if sent > taken:
            self.response_send[_bucket(sent - taken)] += 1
        self.total[_bucket(sent - request.received)] += 1
        self.size[bucket_of(request.size)] += 1

    def count_errors(self, request: MeasuredRequest, counts: Mapping[int, int]) -> None:
        """Count the error codes of one response, which has at least one."""
        self.faulty += 1
        errors = self.errors
        for code, count in counts.items():
            errors[code] = errors.get(code, 0) + count
        for tap in self.taps:
            tap.errors_counted(request, counts)

    def count_throttle(self, request: MeasuredRequest, throttle_ms: int) -> None:
        """Count a throttle of the request's channel."""
        self.throttle[_bucket(throttle_ms * 1_000_000)] += 1
        for tap in self.taps:
            tap.throttled(request, throttle_ms)


def _recorder(metrics: RequestMetrics) -> Record:
    """Return a faster `count_phases` for the usual request: without waits, and with phases below four
    milliseconds.
    """
    count_phases = metrics.count_phases

    def record(
        request: MeasuredRequest,
        taken: int,
        size: int,
        queue: Counts = metrics.queue,
        local: Counts = metrics.local,
        response_queue: Counts = metrics.response_queue,
        total: Counts = metrics.total,
        sizes: Counts = metrics.size,
        bucket_of: tuple[int, ...] = BUCKET_OF,
        tick: int = TICK_BITS,
    ) -> None:
        if request.local_complete:
            count_phases(request, taken, taken)
            return
        received, dequeued, completed = request.received, request.dequeued, request.completed
        try:
            queue_bucket = bucket_of[dequeued - received >> tick]
            local_bucket = bucket_of[completed - dequeued >> tick]
            queued = bucket_of[taken - completed >> tick]
            total_bucket = bucket_of[taken - received >> tick]
            size_bucket = bucket_of[request.size]
        except IndexError:
            count_phases(request, taken, taken)
            return
        queue[queue_bucket] += 1
        local[local_bucket] += 1
        response_queue[queued] += 1
        total[total_bucket] += 1
        sizes[size_bucket] += 1

    return record


def _tapped(count: Record, taps: Taps) -> Record:
    first = taps[0].response_sent
    others = [tap.response_sent for tap in taps[1:]]

    def record(request: MeasuredRequest, taken: int, size: int) -> None:
        count(request, taken, size)
        first(request, taken, taken, size)
        if others:
            for each in others:
                each(request, taken, taken, size)

    return record


def _bucket(nanoseconds: int) -> int:
    return bucket_of(nanoseconds >> TICK_BITS)


class ApiMetrics:
    """All versions of one API, or of a part of its requests that is counted separately."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.parts: list[RequestMetrics] = []
        self._recent = {phase: RecentHistogram() for phase in (*PHASES.values(), "size")}

    @property
    def requests(self) -> int:
        return sum(part.requests for part in self.parts)

    def by_version(self) -> dict[int, int]:
        """Return the number of requests by version."""
        counts: dict[int, int] = {}
        for part in self.parts:
            counts[part.version] = counts.get(part.version, 0) + part.requests
        return counts

    def by_error(self) -> dict[int, int]:
        """Return the counts by error code; 0 counts responses without an error."""
        counts = {0: max(self.requests - sum(part.faulty for part in self.parts), 0)}
        for part in self.parts:
            for code, count in part.errors.items():
                counts[code] = counts.get(code, 0) + count
        return counts

    def counts(self, phase: str) -> Counts:
        """Return the histogram since the start of a value of PHASES, or of "size"; without requests answered
        from the cache.
        """
        counts = merged(getattr(part, phase) for part in self.parts)
        if phase in SPARSE:
            counts[0] += max(sum(sum(part.total) for part in self.parts) - sum(counts), 0)
        return counts

    def recent(self, phase: str, now_ms: int) -> tuple[Counts, int]:
        """Return the histogram of the last five minutes, and the count since the start."""
        counts = self.counts(phase)
        return self._recent[phase].of(counts, now_ms), sum(counts)


class AllMetrics:
    """Every API with requests. `taps` returns the taps on the requests of an API."""

    def __init__(self, taps: Callable[[str], Taps] = lambda _name: ()) -> None:
        self._taps = taps
        self.by_name: dict[str, ApiMetrics] = {}

    def of(self, name: str, version: int) -> RequestMetrics:
        """Return the metrics to record with, which all listeners share."""
        api, taps = self._api(name), self._taps(name)
        for part in api.parts:
            if part.version == version and part.taps == taps:
                return part
        made = RequestMetrics(name, version, taps)
        api.parts.append(made)
        whole = WHOLE.get(name)
        if whole is not None:
            self._api(whole).parts.append(made)
        return made

    def __iter__(self) -> Iterator[ApiMetrics]:
        """Iterate by name over the APIs with requests: FetchConsumer and FetchFollower, and also Fetch, which
        includes both.
        """
        return (api for _, api in sorted(self.by_name.items()) if api.requests)

    def once(self) -> Iterator[ApiMetrics]:
        """Iterate without APIs that are also counted under another name."""
        return (api for api in self if api.name != FETCH)

    def _api(self, name: str) -> ApiMetrics:
        return self.by_name.setdefault(name, ApiMetrics(name))


def quantiles_ms(counts: Counts, qs: Sequence[float]) -> list[float]:
    """Return the q-quantiles of a phase in milliseconds: at most an eighth above the true value, and less
    than 1.024 microseconds below it. NaN if nothing was recorded.
    """
    ticks = quantiles(counts, qs)
    return [nan] * len(qs) if ticks is None else [each * TICK_NS / 1e6 for each in ticks]

"""What requests cost, per API and version: counts, sizes, errors, and how long each phase took. (Kafka:
RequestMetrics, RequestChannel.Metrics)

Written by processors and handlers as plain adds, read by the console and /metrics. Durations are nanoseconds
of the run's clock; they are recorded in ticks of 1,024 ns, so that no division is needed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import nan
from typing import TYPE_CHECKING, Final, Protocol

from broker.metrics.histogram import BUCKET_OF, Counts, Recent, bucket_of, merged, no_counts, quantiles

if TYPE_CHECKING:
    from broker.network.handling.request import Request

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
"""Kafka's names, and where they are kept."""

SPARSE: Final = ("remote", "throttle", "response_send")
"""Phases that most requests do not have: they are recorded where they are, and are 0 for all the others. An
answer that its socket took at once was sent in no time.
"""

FETCH: Final = "Fetch"
Record = Callable[["Request", int, int], None]

WHOLE: Final = {"FetchConsumer": FETCH, "FetchFollower": FETCH}
"""Requests that are also counted under another name, as in Kafka."""


class Tap(Protocol):
    """Hears of every request that is recorded with the metrics which it was given to."""

    @property
    def wants_all(self) -> bool:
        """Whether it wants every request in full, so that none may be answered by heart."""

    def answered(self, request: "Request", taken: int, sent: int, size: int) -> None:
        """`size` bytes of the answer were written between `taken` and `sent`."""

    def erred(self, request: "Request", counts: Mapping[int, int]) -> None:
        """The answer, which is to follow, has each of these error codes so many times."""

    def throttled(self, request: "Request", throttle_ms: int) -> None:
        """The answer, which is to follow, tells its client to wait."""


Taps = tuple[Tap, ...]


class RequestMetrics:
    """One API in one version. `kept` counts requests that the processor answered by heart, which have no
    phases; `errors` counts error codes, of which one answer may have several, and `faulty` answers that have
    any.

    `record(request, taken, size)` is called with every answer of `size` bytes that was taken from the
    response queue and that the socket then took whole, at once. It is a function of its own with everything
    that it touches at hand, since it is called as often as anything in the broker.
    """

    __slots__ = (
        *("errors", "faulty", "kept", "local", "name", "queue", "record", "remote", "response_queue"),
        *("response_send", "size", "taps", "throttle", "total", "version"),
    )

    def __init__(self, name: str, version: int, taps: Taps = ()) -> None:
        self.name = name
        self.version = version
        self.taps = taps
        self.kept = 0
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
        """Whether anybody wants every request, so that none may be answered by heart."""
        return any(tap.wants_all for tap in self.taps)

    @property
    def requests(self) -> int:
        """Requests answered so far."""
        return self.kept + sum(self.total)

    def record_slow(self, request: "Request", taken: int, sent: int, size: int) -> None:
        """An answer that waited for its socket, or whose connection ended: `size` bytes were written."""
        self.count_phases(request, taken, sent)
        for tap in self.taps:
            tap.answered(request, taken, sent, size)

    def count_phases(self, request: "Request", taken: int, sent: int) -> None:
        """All that a request can go through, however long it takes."""
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

    def count_errors(self, request: "Request", counts: Mapping[int, int]) -> None:
        """How often one answer has each error code; there is at least one."""
        self.faulty += 1
        errors = self.errors
        for code, count in counts.items():
            errors[code] = errors.get(code, 0) + count
        for tap in self.taps:
            tap.erred(request, counts)

    def count_throttle(self, request: "Request", throttle_ms: int) -> None:
        """The request's channel is held for so long."""
        self.throttle[_bucket(throttle_ms * 1_000_000)] += 1
        for tap in self.taps:
            tap.throttled(request, throttle_ms)


def _recorder(metrics: RequestMetrics) -> Record:
    """`count_phases` for the usual request: it did not wait for anything, and no phase took four
    milliseconds.
    """
    count_phases = metrics.count_phases

    def record(
        request: "Request",
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
            waited = bucket_of[dequeued - received >> tick]
            worked = bucket_of[completed - dequeued >> tick]
            lay = bucket_of[taken - completed >> tick]
            spent = bucket_of[taken - received >> tick]
            asked = bucket_of[request.size]
        except IndexError:
            count_phases(request, taken, taken)
            return
        queue[waited] += 1
        local[worked] += 1
        response_queue[lay] += 1
        total[spent] += 1
        sizes[asked] += 1

    return record


def _tapped(count: Record, taps: Taps) -> Record:
    answered = taps[0].answered
    others = [tap.answered for tap in taps[1:]]

    def record(request: "Request", taken: int, size: int) -> None:
        count(request, taken, size)
        answered(request, taken, taken, size)
        if others:
            for each in others:
                each(request, taken, taken, size)

    return record


def _bucket(nanoseconds: int) -> int:
    return bucket_of(nanoseconds >> TICK_BITS)


class ApiMetrics:
    """All versions of one API, or of the part of its requests that is counted apart."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.parts: list[RequestMetrics] = []
        self._recent = {phase: Recent() for phase in (*PHASES.values(), "size")}

    @property
    def requests(self) -> int:
        return sum(part.requests for part in self.parts)

    def by_version(self) -> dict[int, int]:
        """Requests by version."""
        counts: dict[int, int] = {}
        for part in self.parts:
            counts[part.version] = counts.get(part.version, 0) + part.requests
        return counts

    def by_error(self) -> dict[int, int]:
        """Error codes by number; under 0 the answers without any."""
        counts = {0: max(self.requests - sum(part.faulty for part in self.parts), 0)}
        for part in self.parts:
            for code, count in part.errors.items():
                counts[code] = counts.get(code, 0) + count
        return counts

    def counts(self, phase: str) -> Counts:
        """How one of PHASES' values, or "size", spreads over everything so far; requests that were answered
        by heart are not in it.
        """
        counts = merged(getattr(part, phase) for part in self.parts)
        if phase in SPARSE:
            counts[0] += max(sum(sum(part.total) for part in self.parts) - sum(counts), 0)
        return counts

    def recent(self, phase: str, now_ms: int) -> tuple[Counts, int]:
        """The same of the last five minutes, and how many there are in all."""
        counts = self.counts(phase)
        return self._recent[phase].of(counts, now_ms), sum(counts)


class AllMetrics:
    """Every API that was asked for. `taps` says who wants to hear of the requests of one."""

    def __init__(self, taps: Callable[[str], Taps] = lambda _name: ()) -> None:
        self._taps = taps
        self.by_name: dict[str, ApiMetrics] = {}

    def of(self, name: str, version: int) -> RequestMetrics:
        """The metrics to record with, the same for every listener."""
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
        """By name, those that were asked for; FetchConsumer and FetchFollower beside the Fetch that holds
        both.
        """
        return (api for _, api in sorted(self.by_name.items()) if api.requests)

    def once(self) -> Iterator[ApiMetrics]:
        """The same without what is counted under another name too."""
        return (api for api in self if api.name != FETCH)

    def _api(self, name: str) -> ApiMetrics:
        return self.by_name.setdefault(name, ApiMetrics(name))


def quantiles_ms(counts: Counts, qs: Sequence[float]) -> list[float]:
    """The q-quantiles of a phase in milliseconds: at most an eighth above the true one, and less than 1.024
    microseconds below it. NaN where nothing was recorded.
    """
    ticks = quantiles(counts, qs)
    return [nan] * len(qs) if ticks is None else [each * TICK_NS / 1e6 for each in ticks]

"""The last day at decreasing resolution: 15 minutes by the second, an hour by ten seconds, a day by the
minute.

Filled by live.broadcaster, read by GET /overview?history, so that a page opens with complete charts. Rates
are differences of the broker's own totals, so a chart agrees with the sum below it. Bounded: 2,700 samples
of some 500 bytes. Pure: time is an argument.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from broker.controller.rows.broker import BrokerMetrics, PhaseRow
from broker.controller.rows.upstream import GatewaySums

NO_OTHERS: Final = GatewaySums()

KEPT_S: Final = 86_400
TIERS: Final = ((1, 900), (10, 360), (60, 1_440))
"""Seconds between samples, and the number of samples kept."""


class Sample(NamedTuple):
    """Values at one moment. Rates are averages since the sample before. At a gateway that shares limits,
    `bytes_in` to `throttled` are sums of all gateways. Idle and blocked are fractions, NaN
    if unknown; `memory_pool_used` is NaN without a pool. `queue_ms` and `local_ms` are the 99th percentile of
    five minutes for the slowest kind of request, NaN without requests; `produce_remote_ms` is that of the
    time that Produce requests wait: for a flush, or at a gateway for the upstream cluster.
    """

    at_ms: int
    bytes_in: float
    bytes_out: float
    requests: float
    connections: float
    throttled: float
    thread_idle: float
    processor_idle: float
    handler_idle: float
    acceptor_blocked: float
    memory_pool_used: float
    requests_queued: float
    queue_ms: float
    local_ms: float
    produce_remote_ms: float


_AT_MOST: Final = frozenset({"at_ms", "throttled", "memory_pool_used", "requests_queued"})


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def _most(values: Sequence[float]) -> float:
    return max((value for value in values if not math.isnan(value)), default=math.nan)


def _slowest(metrics: BrokerMetrics) -> dict[str, float]:
    """Return, by phase, the 99th percentile for the kind of request that has the highest."""
    slowest: dict[str, float] = {}
    for row in metrics.phases:
        if row.p99_ms > slowest.get(row.phase, -1.0):
            slowest[row.phase] = row.p99_ms
    return slowest


def _is_produce_remote(row: PhaseRow) -> bool:
    return row.api == "Produce" and row.phase == "RemoteTimeMs"


_LONGER: Final[tuple[Callable[[Sequence[float]], float], ...]] = tuple(
    _most if name in _AT_MOST else _mean for name in Sample._fields
)
"""How to merge samples of a longer step. Levels, and `throttled`, take the maximum, so that a short throttle
remains visible.
"""


class Tier:
    """Samples of one step. Samples of the current step are collected until it is over."""

    __slots__ = ("_gathered", "samples", "step_ms")

    def __init__(self, step_s: int, kept: int) -> None:
        self.step_ms = step_s * 1000
        self.samples: deque[Sample] = deque(maxlen=kept)
        self._gathered: list[Sample] = []

    @property
    def reach_ms(self) -> int:
        return self.step_ms * (self.samples.maxlen or 0)

    def add(self, sample: Sample) -> None:
        step = sample.at_ms // self.step_ms
        if self._gathered and self._gathered[0].at_ms // self.step_ms != step:
            self.samples.append(_together(self._gathered))
            self._gathered = []
        self._gathered.append(sample)

    def since(self, from_ms: int) -> list[Sample]:
        """Return the samples after `from_ms`, ending with the unfinished step."""
        found = [sample for sample in self.samples if sample.at_ms > from_ms]
        return [*found, _together(self._gathered)] if self._gathered else found


class History:
    __slots__ = ("_before", "_tiers", "last")

    def __init__(self) -> None:
        self._tiers = [Tier(step_s, kept) for step_s, kept in TIERS]
        self._before: tuple[int, BrokerMetrics] | None = None
        self.last: Sample | None = None

    def add(self, metrics: BrokerMetrics, at_ms: int, others: GatewaySums = NO_OTHERS) -> Sample | None:
        """Add a sample and return it; None for the first values, which have no predecessor."""
        before = self._before
        self._before = (at_ms, metrics)
        if before is None or at_ms <= before[0]:
            return None
        then_ms, old = before
        per_second = 1000 / (at_ms - then_ms)
        slowest = _slowest(metrics)
        sample = Sample(
            at_ms,
            (metrics.bytes_in_total - old.bytes_in_total) * per_second + others.bytes_in_per_s,
            (metrics.bytes_out_total - old.bytes_out_total) * per_second + others.bytes_out_per_s,
            (metrics.requests_total - old.requests_total) * per_second + others.requests_per_s,
            metrics.connections + others.connections,
            metrics.throttled + others.throttled,
            metrics.thread_idle,
            metrics.processor_idle,
            metrics.handler_idle,
            metrics.acceptor_blocked,
            math.nan if metrics.memory_pool_size is None else metrics.memory_pool_used,
            metrics.queues[0].depth if metrics.queues else 0,
            slowest.get("RequestQueueTimeMs", math.nan),
            slowest.get("LocalTimeMs", math.nan),
            next((row.p99_ms for row in metrics.phases if _is_produce_remote(row)), math.nan),
        )
        for tier in self._tiers:
            tier.add(sample)
        self.last = sample
        return sample

    def columns(self, seconds: int) -> Iterator[tuple[str, list[float | None]]]:
        """Yield a list for each value of the last `seconds`, oldest first, in the finest resolution kept.
        Columns are a third of the size of rows. Each is built when taken, in half a millisecond.
        """
        samples: Sequence[Sample] = ()
        if self.last is not None and seconds:
            tier = next((each for each in self._tiers if each.reach_ms >= seconds * 1000), self._tiers[-1])
            samples = tier.since(self.last.at_ms - seconds * 1000)
        columns: Iterable[Iterable[float]] = zip(*samples, strict=True) if samples else [()] * len(_LONGER)
        return ((name, _short(column)) for name, column in zip(Sample._fields, columns, strict=True))


def _together(samples: Sequence[Sample]) -> Sample:
    if len(samples) == 1:
        return samples[0]
    columns = zip(_LONGER, zip(*samples, strict=True), strict=True)
    return Sample._make(combine(column) for combine, column in columns)


def _short(values: Iterable[float]) -> list[float | None]:
    """Return values for JSON: None for NaN, fractions with three digits. A page requests ten thousand."""
    return [
        value if type(value) is int else None if value != value else round(value, 1 if value > 1 else 3)
        for value in values
    ]


def sample_json(sample: Sample | None) -> dict[str, Any] | None:
    if sample is None:
        return None
    return dict(zip(Sample._fields, _short(sample), strict=True))

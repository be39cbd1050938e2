"""The last day, ever more coarsely: a quarter of an hour by the second, an hour by ten, a day by the minute.

Fed by live.broadcaster, read by GET /overview?history, so that a page opens with its charts already drawn.
Rates are differences of the broker's own totals, so a chart and the sum under it agree. Bounded: 2,700
samples of some 500 bytes, however long the broker runs. Pure: the caller brings the time.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from broker.control.views import Figures

KEPT_S: Final = 86_400
TIERS: Final = ((1, 900), (10, 360), (60, 1_440))
"""Seconds between samples, and how many are kept of them."""


class Sample(NamedTuple):
    """Rates are averages over the time since the sample before. Idle and blocked are fractions, NaN while
    the broker has none; so is `memory_pool_used` where there is no pool. `queue_ms` and `local_ms` are those
    of the slowest kind of request: the 99th percentile of five minutes, NaN where there were none.
    """

    at_ms: int
    bytes_in: float
    bytes_out: float
    requests: float
    connections: float
    throttled: float
    processor_idle: float
    handler_idle: float
    acceptor_blocked: float
    memory_pool_used: float
    requests_queued: float
    queue_ms: float
    local_ms: float


_AT_MOST: Final = frozenset({"at_ms", "throttled", "memory_pool_used", "requests_queued"})


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def _most(values: Sequence[float]) -> float:
    return max((value for value in values if not math.isnan(value)), default=math.nan)


def _slowest(figures: Figures) -> dict[str, float]:
    """By phase, its 99th percentile for the kind of request that has the highest."""
    slowest: dict[str, float] = {}
    for row in figures.phases:
        if row.p99_ms > slowest.get(row.phase, -1.0):
            slowest[row.phase] = row.p99_ms
    return slowest


_LONGER: Final[tuple[Callable[[Sequence[float]], float], ...]] = tuple(
    _most if name in _AT_MOST else _mean for name in Sample._fields
)
"""How the samples of a longer step become one. Of what fills up it is the most that there was, and of
`throttled`, for a short throttle is what one looks for.
"""


class Tier:
    """Samples of one step; those of the tier below are gathered until a step is over."""

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
        """Those after `from_ms`, the step that is not over yet last."""
        found = [sample for sample in self.samples if sample.at_ms > from_ms]
        return [*found, _together(self._gathered)] if self._gathered else found


class History:
    __slots__ = ("_before", "_last", "_tiers")

    def __init__(self) -> None:
        self._tiers = [Tier(step_s, kept) for step_s, kept in TIERS]
        self._before: tuple[int, Figures] | None = None
        self._last: Sample | None = None

    def add(self, figures: Figures, at_ms: int) -> Sample | None:
        """The new sample; None for the very first figures, which have nothing to be compared with."""
        before = self._before
        self._before = (at_ms, figures)
        if before is None or at_ms <= before[0]:
            return None
        then_ms, old = before
        per_second = 1000 / (at_ms - then_ms)
        slowest = _slowest(figures)
        sample = Sample(
            at_ms,
            (figures.bytes_in_total - old.bytes_in_total) * per_second,
            (figures.bytes_out_total - old.bytes_out_total) * per_second,
            (figures.requests_total - old.requests_total) * per_second,
            figures.connections,
            figures.throttled,
            figures.processor_idle,
            figures.handler_idle,
            figures.acceptor_blocked,
            math.nan if figures.memory_pool_size is None else figures.memory_pool_used,
            figures.queues[0].depth if figures.queues else 0,
            slowest.get("RequestQueueTimeMs", math.nan),
            slowest.get("LocalTimeMs", math.nan),
        )
        for tier in self._tiers:
            tier.add(sample)
        self._last = sample
        return sample

    @property
    def last(self) -> Sample | None:
        return self._last

    def columns(self, seconds: int) -> Iterator[tuple[str, list[float | None]]]:
        """The last `seconds`, oldest first, as finely as they are kept; one list for each figure, which is a
        third of the size of rows. Made as they are taken, half a millisecond each.
        """
        samples: Sequence[Sample] = ()
        if self._last is not None and seconds:
            tier = next((each for each in self._tiers if each.reach_ms >= seconds * 1000), self._tiers[-1])
            samples = tier.since(self._last.at_ms - seconds * 1000)
        columns: Iterable[Iterable[float]] = zip(*samples, strict=True) if samples else [()] * len(_LONGER)
        return ((name, _short(column)) for name, column in zip(Sample._fields, columns, strict=True))


def _together(samples: Sequence[Sample]) -> Sample:
    if len(samples) == 1:
        return samples[0]
    columns = zip(_LONGER, zip(*samples, strict=True), strict=True)
    return Sample._make(combine(column) for combine, column in columns)


def _short(values: Iterable[float]) -> list[float | None]:
    """As they are sent: JSON has no NaN, and fractions need three digits. A page asks for ten thousand."""
    return [
        value if type(value) is int else None if value != value else round(value, 1 if value > 1 else 3)
        for value in values
    ]


def sample_json(sample: Sample | None) -> dict[str, Any] | None:
    if sample is None:
        return None
    return dict(zip(Sample._fields, _short(sample), strict=True))

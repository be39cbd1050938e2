"""The last day, ever more coarsely: a quarter of an hour by the second, an hour by ten, a day by the minute.

Fed by webui.live, read by GET /overview?history, so that a page opens with its charts already drawn. Rates
are differences of the broker's own totals, so a chart and the sum under it agree. Bounded: 2,700 samples,
however long the broker runs. Pure: the caller brings the time.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from broker.control.views import Figures

KEPT_S: Final = 86_400
TIERS: Final = ((1, 900), (10, 360), (60, 1_440))
"""Seconds between samples, and how many are kept of them."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Rates are averages over the time since the sample before; so are connections, while `throttled` is the
    most that there were, for a short throttle is what one looks for.
    """

    at_ms: int
    bytes_in: float
    bytes_out: float
    requests: float
    connections: float
    throttled: int


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
        sample = Sample(
            at_ms,
            (figures.bytes_in_total - old.bytes_in_total) * per_second,
            (figures.bytes_out_total - old.bytes_out_total) * per_second,
            (figures.requests_total - old.requests_total) * per_second,
            figures.connections,
            figures.throttled,
        )
        for tier in self._tiers:
            tier.add(sample)
        self._last = sample
        return sample

    @property
    def last(self) -> Sample | None:
        return self._last

    def columns(self, seconds: int) -> dict[str, list[float]]:
        """The last `seconds`, oldest first, as finely as they are kept; one list for each figure, which is a
        third of the size of rows.
        """
        samples: Sequence[Sample] = ()
        if self._last is not None and seconds:
            tier = next((each for each in self._tiers if each.reach_ms >= seconds * 1000), self._tiers[-1])
            samples = tier.since(self._last.at_ms - seconds * 1000)
        return {
            "at_ms": [sample.at_ms for sample in samples],
            "bytes_in": [round(sample.bytes_in, 1) for sample in samples],
            "bytes_out": [round(sample.bytes_out, 1) for sample in samples],
            "requests": [round(sample.requests, 1) for sample in samples],
            "connections": [round(sample.connections, 1) for sample in samples],
            "throttled": [sample.throttled for sample in samples],
        }


def _together(samples: Sequence[Sample]) -> Sample:
    count = len(samples)
    return Sample(
        samples[-1].at_ms,
        sum(each.bytes_in for each in samples) / count,
        sum(each.bytes_out for each in samples) / count,
        sum(each.requests for each in samples) / count,
        sum(each.connections for each in samples) / count,
        max(each.throttled for each in samples),
    )


def sample_json(sample: Sample | None) -> dict[str, Any] | None:
    if sample is None:
        return None
    return {
        "at_ms": sample.at_ms,
        "bytes_in": round(sample.bytes_in, 1),
        "bytes_out": round(sample.bytes_out, 1),
        "requests": round(sample.requests, 1),
        "connections": sample.connections,
        "throttled": sample.throttled,
    }

"""The last quarter of an hour, a sample a second, so that a page opens with its charts already drawn.

Fed by webui.live, read by GET /overview?history. Rates are differences of the broker's own totals, so a chart
and the sum under it agree. Pure: the caller brings the time.
"""

from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from broker.control.views import Figures

KEPT: Final = 900


@dataclass(frozen=True, slots=True)
class Sample:
    """Rates are averages over the time since the sample before."""

    at_ms: int
    bytes_in: float
    bytes_out: float
    requests: float
    connections: int
    throttled: int


class History:
    __slots__ = ("_before", "_samples")

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=KEPT)
        self._before: tuple[int, Figures] | None = None

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
        self._samples.append(sample)
        return sample

    @property
    def last(self) -> Sample | None:
        return self._samples[-1] if self._samples else None

    def columns(self, count: int) -> dict[str, list[float]]:
        """The last `count` samples, oldest first, one list for each figure: a third of the size of rows."""
        samples = list(self._samples)[-count:] if count else []
        return {
            "at_ms": [sample.at_ms for sample in samples],
            "bytes_in": [round(sample.bytes_in, 1) for sample in samples],
            "bytes_out": [round(sample.bytes_out, 1) for sample in samples],
            "requests": [round(sample.requests, 1) for sample in samples],
            "connections": [sample.connections for sample in samples],
            "throttled": [sample.throttled for sample in samples],
        }


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

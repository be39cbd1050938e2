"""Every series of the broker under its name, so that Prometheus and the console read the same figures.

Built once by the composition root and handed to the rooms that count; they resolve their series beforehand
and then only add. Figures that live elsewhere (quota sensors, queue depths) are read from a source when
somebody looks. Knows nothing of formats.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Generic, NamedTuple, TypeVar

from broker.metrics.counters import LATENCY_MS, Counter, Gauge, Histogram

MAX_SERIES: Final = 1_000
"""Series per family; ours. Clients choose client ids and topic names, so a label may not take up memory
without end.
"""

OTHER: Final = "_other"
"""The label value under which everything beyond `MAX_SERIES` is counted together."""

QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""What Kafka's JMX histograms offer, so what its dashboards draw."""


class Kind(Enum):
    """How a family is to be read; the value is Prometheus's word for it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"


class Sample(NamedTuple):
    """One figure: the family's name plus `suffix`, labels as (name, value) pairs."""

    labels: tuple[tuple[str, str], ...]
    value: float
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class FamilySamples:
    """What a family shows. `samples` may be made as they are taken, and then can be taken once."""

    name: str
    help: str
    kind: Kind
    samples: Iterable[Sample]


Steps = Iterator[FamilySamples | None]
"""Families, some at a time: None says that there is nothing to show yet, but it took time, so that whoever
goes through thousands of sensors can let others have the thread.
"""


Source = Callable[[int], Iterable[FamilySamples]]
"""Reads figures that are kept elsewhere; is told `now_ms`."""

S = TypeVar("S", Counter, Gauge, Histogram)


class Family(Generic[S]):
    """The series of one name, told apart by the values of its labels."""

    __slots__ = ("_build", "_max_series", "_series", "help", "kind", "label_names", "name")

    def __init__(
        self,
        name: str,
        help_text: str,
        kind: Kind,
        label_names: Sequence[str],
        build: Callable[[], S],
        max_series: int,
    ) -> None:
        self.name = name
        self.help = help_text
        self.kind = kind
        self.label_names = tuple(label_names)
        self._build: Callable[[], S] = build
        self._max_series = max_series
        self._series: dict[tuple[str, ...], S] = {}

    def labels(self, *values: str) -> S:
        """The series with these label values, made on first use.

        Beyond the limit all new ones share one series.
        """
        series = self._series.get(values)
        if series is not None:
            return series
        if len(values) != len(self.label_names):
            raise ValueError(f"{self.name} has the labels {self.label_names}, not {values}")
        if len(self._series) >= self._max_series:
            values = (OTHER,) * len(values)
        return self._series.setdefault(values, self._build())

    def forget(self, *values: str) -> None:
        """Drops a series whose subject is gone. Whoever still holds it counts into nothing."""
        self._series.pop(values, None)

    def items(self) -> Iterable[tuple[tuple[str, ...], S]]:
        """Label values and series, in the order in which they were made."""
        return self._series.items()

    def collect(self, now_ms: int) -> FamilySamples:
        samples: list[Sample] = []
        for values, series in self._series.items():
            labels = tuple(zip(self.label_names, values, strict=True))
            if isinstance(series, Histogram):
                samples += _summary(labels, series, now_ms)
            else:
                samples.append(Sample(labels, series.value))
        return FamilySamples(self.name, self.help, self.kind, samples)


class Registry:
    """All families and sources of one broker."""

    def __init__(self) -> None:
        self._families: dict[str, Family[Counter] | Family[Gauge] | Family[Histogram]] = {}
        self._sources: list[Source] = []

    def counter(
        self, name: str, help_text: str, labels: Sequence[str] = (), max_series: int = MAX_SERIES
    ) -> Family[Counter]:
        """A new family of counters. A name that is taken is a mistake of the caller's: ValueError."""
        return self._add(Family(name, help_text, Kind.COUNTER, labels, Counter, max_series))

    def gauge(
        self, name: str, help_text: str, labels: Sequence[str] = (), max_series: int = MAX_SERIES
    ) -> Family[Gauge]:
        return self._add(Family(name, help_text, Kind.GAUGE, labels, Gauge, max_series))

    def histogram(
        self,
        name: str,
        help_text: str,
        labels: Sequence[str] = (),
        bounds: Sequence[float] = LATENCY_MS,
        max_series: int = MAX_SERIES,
    ) -> Family[Histogram]:
        """Shown as a summary with recent quantiles, which is what Kafka's dashboards ask for."""
        return self._add(Family(name, help_text, Kind.SUMMARY, labels, lambda: Histogram(bounds), max_series))

    def add_source(self, source: Source) -> None:
        self._sources.append(source)

    def collect(self, now_ms: int) -> Iterator[FamilySamples]:
        """Every family as it is now, sorted by name; sources after the registry's own."""
        for _, family in sorted(self._families.items()):
            yield family.collect(now_ms)
        for source in self._sources:
            yield from source(now_ms)

    def _add(self, family: Family[S]) -> Family[S]:
        if family.name in self._families:
            raise ValueError(f"there is already a metric family {family.name}")
        self._families[family.name] = family
        return family


def _summary(labels: tuple[tuple[str, str], ...], histogram: Histogram, now_ms: int) -> Iterator[Sample]:
    recent = histogram.recent_quantiles(QUANTILES, now_ms)
    for q, value in zip(QUANTILES, recent, strict=True):
        yield Sample((*labels, ("quantile", str(q))), value)
    yield Sample(labels, histogram.total, "_sum")
    yield Sample(labels, histogram.count, "_count")

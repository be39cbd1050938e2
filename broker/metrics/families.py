"""What /metrics shows: families of samples, read from where the numbers are kept.

A `families` function beside each source (quota sensors, queue depths) yields them. Independent of formats.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

MAX_SERIES: Final = 1_000
"""Series per family; ours. Clients choose client ids and topic names, so their labels need a bound."""

QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""The quantiles of Kafka's JMX histograms."""


class Kind(Enum):
    """The type of a family, in Prometheus's words."""

    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"


class Sample(NamedTuple):
    """One series: the family's name plus `suffix`, labels as (name, value) pairs."""

    labels: tuple[tuple[str, str], ...]
    value: float
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class FamilySamples:
    """One family with its samples. `samples` may be an iterator, which can be read once."""

    name: str
    help: str
    kind: Kind
    samples: Iterable[Sample]


Steps = Iterator[FamilySamples | None]
"""Families, a bounded amount of work at a time: None when a step yields no family, so that the caller can
let other tasks run while thousands of sensors are read.
"""

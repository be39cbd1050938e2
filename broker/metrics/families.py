"""The families of samples that /metrics shows, and their Prometheus text format, version 0.0.4.

A `families` function beside each source (quota sensors, queue depths) yields them;
`monitoring.prometheus.page` renders them.
"""

import re
from collections.abc import Iterable, Iterator
from enum import Enum
from math import inf
from typing import Final, NamedTuple

import msgspec

MAX_SERIES: Final = 1_000
"""Series per family; ours. Clients choose client ids and topic names, so their labels need a bound."""

QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""The quantiles of Kafka's JMX histograms."""


_NOT_IN_A_NAME = re.compile("[^a-zA-Z0-9_]")


LINES_AT_ONCE: Final = 256


class MetricType(Enum):
    """The type of a family, in Prometheus's words."""

    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"


class Sample(NamedTuple):
    """One series: the family's name plus `suffix`, labels as (name, value) pairs."""

    labels: tuple[tuple[str, str], ...]
    value: float
    suffix: str = ""


class FamilySamples(msgspec.Struct, frozen=True):
    """One family with its samples. `samples` may be an iterator, which can be read once."""

    name: str
    help: str
    kind: MetricType
    samples: Iterable[Sample]


def gauge(name: str, help: str, samples: Iterable[Sample] | float) -> FamilySamples:
    """Return a gauge. A number is the value of its only series, which has no labels."""
    return FamilySamples(name, help, MetricType.GAUGE, _samples(samples))


def counter(name: str, help: str, samples: Iterable[Sample] | float) -> FamilySamples:
    """Return a counter; `samples` as for `gauge`."""
    return FamilySamples(name, help, MetricType.COUNTER, _samples(samples))


def _samples(samples: Iterable[Sample] | float) -> Iterable[Sample]:
    return [Sample((), samples)] if isinstance(samples, int | float) else samples


Families = Iterator[FamilySamples | None]
"""Families, a bounded amount of work at a time: None when a step yields no family, so that the caller can
let other tasks run while thousands of sensors are read.
"""


def render(families: Iterable[FamilySamples | None]) -> bytes:
    """Return the whole page."""
    return b"".join(pieces(families))


def pieces(families: Iterable[FamilySamples | None]) -> Iterator[bytes]:
    """Yield the page in steps of some microseconds of work.

    Families of one name are merged, because the format allows a name only once; until then the pieces are
    empty.
    """
    pages: dict[str, list[str]] = {}
    for family in families:
        yield b""
        if family is None:
            continue
        lines = pages.get(family.name)
        if lines is None:
            lines = pages[family.name] = [
                f"# HELP {family.name} {_escape_help(family.help)}",
                f"# TYPE {family.name} {family.kind.value}",
            ]
        for sample in family.samples:
            yield b""
            labels = ",".join(f'{name}="{_escape_label(value)}"' for name, value in sample.labels)
            braces = f"{{{labels}}}" if labels else ""
            lines.append(f"{family.name}{sample.suffix}{braces} {_number(sample.value)}")
    for lines in pages.values():
        for first in range(0, len(lines), LINES_AT_ONCE):
            text = "\n".join((*lines[first : first + LINES_AT_ONCE], ""))
            yield text.encode("utf-8", "backslashreplace")


def label_name(text: str) -> str:
    """Return `text` as a label name: invalid characters become "_"."""
    name = _NOT_IN_A_NAME.sub("_", text)
    return f"_{name}" if not name or name[0].isdigit() else name


def _escape_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _escape_label(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (inf, -inf):
        return "+Inf" if value > 0 else "-Inf"
    return str(value)

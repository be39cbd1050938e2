"""Reads pushes point by point with the protobuf library's objects, to compare `pipeline.otlp` with.

It shares the limits and the text of attributes with that package, and nothing else.
"""

from collections.abc import Iterable
from itertools import pairwise
from math import isfinite
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    HistogramDataPoint,
    Metric,
    MetricsData,
    ResourceMetrics,
    ScopeMetrics,
)

from pipeline.otlp.metrics import CUMULATIVE, DELTA, MAX_NAMES_LENGTH, MAX_SHARED_BYTES
from pipeline.otlp.points import AHEAD_MS, LATE_MS, MAX_INTEGER, NO_RECORDED_VALUE
from pipeline.otlp.reasons import MAX_METRICS, MAX_SHOWN_LENGTH
from pipeline.otlp.texts import Attributes, attributes_of
from pipeline.otlp.unpack import MAX_POINTS, RefusedError

KINDS: Final = frozenset({"gauge", "sum", "histogram"})


class Context(NamedTuple):
    """The attributes that the metrics of a scope share."""

    resource_attributes: Attributes
    resource_schema_url: str
    scope_name: str
    scope_version: str
    scope_attributes: Attributes
    scope_dropped_attributes: int
    scope_schema_url: str
    service_name: str


class Heading(NamedTuple):
    """The attributes that the points of a metric share."""

    kind: str
    context: Context
    metric_name: str
    metric_description: str
    metric_unit: str
    temporality: int | None
    is_monotonic: bool | None


Number = tuple[int, int, int, int, int | None, int, int, float | None]
"""A point of a gauge or a sum.

`row` of its push; the places of its metric's heading and of its attributes in `Points`; `number`, its place
within the push; start (null if not given) and time in microseconds since 1970; flags; value.
"""

Measures = tuple[int | None, float | None, list[int] | None, list[float] | None, float | None, float | None]
"""A histogram's count, sum, buckets, bounds, min and max."""

NOTHING: Final[Measures] = (None, None, None, None, None, None)

Distribution = tuple[int, int, int, int, int | None, int, int, Measures]
"""A point of a histogram: like a `Number`, with measures instead of the value."""


class Refusal(NamedTuple):
    """The refused part of a push: all of it if `points` is None, else that number of its points.

    `metrics` has the first few names in order.
    """

    row: int
    reason: str
    points: int | None = None
    metrics: list[str] | None = None


class Points:
    """Rows of several pushes. Headings and attributes are stored once, as clients repeat them with every
    push.
    """

    def __init__(self) -> None:
        self.headings: dict[Heading, int] = {}
        self.attributes: dict[Attributes, int] = {}
        self.numbers: list[Number] = []
        self.distributions: list[Distribution] = []
        self.refusals: list[Refusal] = []

    def __len__(self) -> int:
        return len(self.numbers) + len(self.distributions) + len(self.refusals)

    def take(self, row: int, plain: bytes, arrived_ms: int) -> None:
        """Add a push. Never raises for invalid data of a client."""
        try:
            data = _parsed(plain)
        except RefusedError as refusal:
            self.refusals.append(Refusal(row, str(refusal)))
            return
        push = _Push(self, row, arrived_ms)
        for resource in data.resource_metrics:
            push.take(resource)
        if push.refused_points:
            names = sorted(push.names)[:MAX_METRICS]
            self.refusals.append(Refusal(row, "; ".join(sorted(push.reasons)), push.refused_points, names))


class _Push:
    """Adds one push to `Points`."""

    def __init__(self, into: Points, row: int, arrived_ms: int) -> None:
        self._into = into
        self._row = row
        self._earliest_ns = (arrived_ms - LATE_MS) * 1_000_000
        self._latest_ns = (arrived_ms + AHEAD_MS) * 1_000_000
        self._number = 0
        self.refused_points = 0
        self.reasons: set[str] = set()
        self.names: set[str] = set()

    def take(self, resource: ResourceMetrics) -> None:
        of_resource = _too_large("resource", resource.resource, resource.schema_url)
        shared = () if of_resource else attributes_of(resource.resource.attributes)
        for scope in resource.scope_metrics:
            why = of_resource or _too_large("scope", scope.scope, scope.schema_url)
            context = None if why else _context(resource, shared, scope)
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                if context is None or kind not in KINDS:
                    wrong = why or ("no data" if kind is None else f"{kind} is not read")
                    self._refuse(metric, wrong, len(_points_of(metric)))
                else:
                    self._take_metric(metric, kind, context)

    def _take_metric(self, metric: Metric, kind: str, context: Context) -> None:
        data = getattr(metric, kind)
        heading = Heading(
            kind,
            context,
            metric.name,
            metric.description,
            metric.unit,
            None if kind == "gauge" else data.aggregation_temporality,
            data.is_monotonic if kind == "sum" else None,
        )
        known = self._into.headings
        place = known.get(heading)
        if place is None:
            wrong = _wrong_heading(heading)
            if wrong is not None:
                self._refuse(metric, wrong, len(data.data_points))
                return
            place = known[heading] = len(known)
        if kind == "histogram":
            self._take_distributions(metric, place)
        else:
            self._take_numbers(metric, place, data.data_points)

    def _take_numbers(self, metric: Metric, heading: int, points: Iterable[Any]) -> None:
        earliest_ns, latest_ns, row, take = (
            self._earliest_ns,
            self._latest_ns,
            self._row,
            self._into.numbers.append,
        )
        for point in points:
            time_ns, flags, value_field = point.time_unix_nano, point.flags, point.WhichOneof("value")
            value = wrong = None
            if not earliest_ns <= time_ns <= latest_ns:
                wrong = self._wrong_time(time_ns)
            elif flags & NO_RECORDED_VALUE:
                pass
            elif value_field is None:
                wrong = "no value"
            else:
                value = float(getattr(point, value_field))
                if not isfinite(value):
                    wrong = "Value is not a number"
            if wrong is not None:
                self._refuse(metric, wrong)
                continue
            start_us = point.start_time_unix_nano // 1_000 or None
            place = self._place_of(point.attributes)
            take((row, heading, place, self._number, start_us, time_ns // 1_000, flags, value))
            self._number += 1

    def _take_distributions(self, metric: Metric, heading: int) -> None:
        for point in metric.histogram.data_points:
            has_value = not point.flags & NO_RECORDED_VALUE
            wrong = self._wrong_time(point.time_unix_nano) or (
                _wrong_distribution(point) if has_value else None
            )
            if wrong is not None:
                self._refuse(metric, wrong)
                continue
            start_us, time_us = point.start_time_unix_nano // 1_000 or None, point.time_unix_nano // 1_000
            place = self._place_of(point.attributes)
            common = self._row, heading, place, self._number, start_us, time_us, point.flags
            measures = _measures(point) if has_value else NOTHING
            self._into.distributions.append((*common, measures))
            self._number += 1

    def _place_of(self, attributes: Any) -> int:
        known = self._into.attributes
        return known.setdefault(attributes_of(attributes), len(known))

    def _wrong_time(self, time_ns: int) -> str | None:
        if self._earliest_ns <= time_ns <= self._latest_ns:
            return None
        if not time_ns:
            return "no time"
        return "too late" if time_ns < self._earliest_ns else "from the future"

    def _refuse(self, metric: Metric, reason: str, points: int = 1) -> None:
        if points:
            self._number += points
            self.refused_points += points
            self.reasons.add(reason)
            self.names.add(metric.name[:MAX_SHOWN_LENGTH])


def _parsed(plain: bytes) -> MetricsData:
    try:
        data: MetricsData = MetricsData.FromString(plain)
    except DecodeError as error:
        raise RefusedError("not OTLP metrics") from error
    if plain and not data.resource_metrics:
        raise RefusedError("not OTLP metrics")
    # The shortest point has two bytes.
    if len(plain) > 2 * MAX_POINTS and _count(data) > MAX_POINTS:
        raise RefusedError("too many points")
    return data


def _count(data: MetricsData) -> int:
    scopes = (scope for resource in data.resource_metrics for scope in resource.scope_metrics)
    return sum(len(_points_of(metric)) for scope in scopes for metric in scope.metrics)


def _points_of(metric: Metric) -> Any:
    """Return the points of a metric; a metric without a kind counts as one point, to be refused."""
    kind = metric.WhichOneof("data")
    return (metric,) if kind is None else getattr(metric, kind).data_points


def _too_large(name: str, message: Any, url: str) -> str | None:
    return f"{name} is too large" if message.ByteSize() + len(url) > MAX_SHARED_BYTES else None


def _context(resource: ResourceMetrics, shared: Attributes, scope: ScopeMetrics) -> Context:
    about = scope.scope
    return Context(
        shared,
        resource.schema_url,
        about.name,
        about.version,
        attributes_of(about.attributes),
        about.dropped_attributes_count,
        scope.schema_url,
        dict(shared).get("service.name", ""),
    )


def _wrong_heading(heading: Heading) -> str | None:
    if not heading.metric_name:
        return "no name"
    names = heading.metric_name, heading.metric_description, heading.metric_unit
    if sum(map(len, names)) > MAX_NAMES_LENGTH:
        return "name is too long"
    if heading.temporality not in (None, DELTA, CUMULATIVE):
        return "unknown temporality"
    return None


def _wrong_distribution(point: HistogramDataPoint) -> str | None:
    """Return the first error in the numbers of a histogram."""
    for name, measure in (("Sum", point.sum), ("Min", point.min), ("Max", point.max)):
        if not isfinite(measure):
            return f"{name} is not a number"
    counts, bounds = point.bucket_counts, point.explicit_bounds
    if max(point.count, *counts, 0) > MAX_INTEGER:
        return "Count is too large"
    if counts or bounds:
        is_rising = all(low < high for low, high in pairwise(bounds))
        if len(counts) != len(bounds) + 1 or not is_rising or not all(map(isfinite, bounds)):
            return "buckets do not fit their bounds"
        if sum(counts) != point.count:
            return "Count is not that of the buckets"
    return None


def _measures(point: HistogramDataPoint) -> Measures:
    return (
        point.count,
        point.sum if point.HasField("sum") else None,
        list(point.bucket_counts),
        list(point.explicit_bounds),
        point.min if point.HasField("min") else None,
        point.max if point.HasField("max") else None,
    )

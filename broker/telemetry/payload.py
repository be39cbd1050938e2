"""Decompresses and reads a push of OTLP metrics. (KIP-714; opentelemetry.proto.metrics.v1.MetricsData)

Called in a thread, once for each push. Its modules are loaded with the first push, because they take 4 MB
and 40 ms. The result is flat: one point for each value, with Prometheus's name besides the client's. Deltas
stay deltas; the caller adds them up.

Left out: the buckets of histograms and the quantiles of summaries, which become count and sum; exemplars.
"""

import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker.errors import ApiError, ErrorCode
from broker.records.compression import decompress

if TYPE_CHECKING:
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData

MAX_POINTS: Final = 5_000
"""Maximum points read of a push; ours. Further ones are counted."""

LONGEST_TEXT: Final = 256
"""Maximum characters of a name or a label; ours. Longer ones are left out and counted."""

MAX_ATTRIBUTES: Final = 32
"""Maximum attributes of a point; ours, likewise."""

READ_AT_ONCE: Final = 256
"""Points and attributes between two rests; ours. One takes 2 to 4 microseconds."""

OWN_LABELS: Final = ("client_instance_id", "client_id")
"""Labels that identify the client, which clients cannot set."""

_UNFIT: Final = re.compile(r"[^a-zA-Z0-9_]")
_DELTA: Final = 1
"""AGGREGATION_TEMPORALITY_DELTA."""

Labels = tuple[tuple[str, str], ...]


class Shape(Enum):
    """The type of a value; the enum's value is Prometheus's name for it."""

    COUNTER = "counter"
    GAUGE = "gauge"


class Point(NamedTuple):
    """One value: `name` and `attributes` as the client sent them, `family` and `labels` as in Prometheus.

    `is_delta`: the increase since the previous push.
    """

    name: str
    attributes: Labels
    family: str
    labels: Labels
    shape: Shape
    value: float
    is_delta: bool


@dataclass(frozen=True, slots=True)
class Reading:
    """The points of a push. `left_out` counts points beyond the limits, and deltas that are not finite."""

    points: list[Point]
    left_out: int


def unpack(codec: int, payload: bytes, limit: int) -> bytes:
    """Decompress. Raises ApiError: TELEMETRY_TOO_LARGE beyond `limit` bytes, INVALID_RECORD for invalid
    data.
    """
    try:
        plain = bytes(decompress(codec, payload, limit=limit))
    except ApiError as error:
        if error.code is ErrorCode.RECORD_LIST_TOO_LARGE:
            raise _too_large(limit) from error
        raise ApiError(ErrorCode.INVALID_RECORD, error.message) from error
    if len(plain) > limit:
        raise _too_large(limit)
    return plain


def parse(plain: bytes, rest: Callable[[], object] = lambda: None) -> "MetricsData":
    """Parse the metrics; call `rest` between pieces of a large message. Raises ApiError INVALID_RECORD."""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

    from broker.telemetry.piecewise_parse import merge

    data = MetricsData()
    try:
        merge(data, plain, rest)
    except DecodeError as error:
        raise ApiError(ErrorCode.INVALID_RECORD, f"The metrics cannot be decoded: {error}") from error
    return data


def read(data: "MetricsData", rest: Callable[[], object] = lambda: None) -> Reading:
    """Return the points in the order of the push. Call `rest` after every READ_AT_ONCE points, attributes and
    empty metrics: the reading thread yields the interpreter there.
    """
    points: list[Point] = []
    left_out = 0
    left = READ_AT_ONCE
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                left -= 1
                if len(points) >= MAX_POINTS:
                    left_out += _count(metric)
                else:
                    for point in _points_of(metric):
                        left -= 1
                        if point is None or len(points) >= MAX_POINTS:
                            left_out += 1
                        else:
                            points.append(point)
                            left -= len(point.attributes)
                        if left <= 0:
                            rest()
                            left = READ_AT_ONCE
                if left <= 0:
                    rest()
                    left = READ_AT_ONCE
    return Reading(points, left_out)


def _count(metric: "Metric") -> int:
    """How many points `_points_of` would make."""
    kind = metric.WhichOneof("data")
    if kind is None:
        return 0
    told = len(getattr(metric, kind).data_points)
    return told if kind in ("gauge", "sum") else 2 * told


def _points_of(metric: "Metric") -> Iterator[Point | None]:
    """Yield the points of a metric; None for an unreadable one."""
    kind = metric.WhichOneof("data")
    name = sys.intern(metric.name)
    match kind:
        case "gauge":
            for each in metric.gauge.data_points:
                yield _point(name, each.attributes, Shape.GAUGE, _number(each), is_delta=False)
        case "sum":
            shape = Shape.COUNTER if metric.sum.is_monotonic else Shape.GAUGE
            is_delta = metric.sum.aggregation_temporality == _DELTA
            for each in metric.sum.data_points:
                yield _point(name, each.attributes, shape, _number(each), is_delta=is_delta)
        case "histogram" | "exponential_histogram":
            data = metric.histogram if kind == "histogram" else metric.exponential_histogram
            yield from _totals(name, data.data_points, is_delta=data.aggregation_temporality == _DELTA)
        case "summary":
            yield from _totals(name, metric.summary.data_points, is_delta=False)


def _totals(name: str, points: Iterable[Any], *, is_delta: bool) -> Iterator[Point | None]:
    for each in points:
        yield _point(f"{name}.count", each.attributes, Shape.COUNTER, float(each.count), is_delta=is_delta)
        yield _point(f"{name}.sum", each.attributes, Shape.GAUGE, each.sum, is_delta=is_delta)


def _number(point: Any) -> float:
    return float(point.as_int) if point.WhichOneof("value") == "as_int" else float(point.as_double)


def _point(
    name: str, attributes: Collection[Any], shape: Shape, value: float, *, is_delta: bool
) -> Point | None:
    if len(attributes) > MAX_ATTRIBUTES:
        return None
    pairs = tuple([(each.key, _text(each.value)) for each in attributes])
    written = _prometheus_names(name, pairs, shape)
    if written is None or (is_delta and not isfinite(value)):
        return None
    return Point(name, pairs, *written, shape, value, is_delta)


@lru_cache(maxsize=2_048)
def _prometheus_names(name: str, pairs: Labels, shape: Shape) -> tuple[str, Labels] | None:
    """Return family and labels for Prometheus; None for texts that are too long.

    Cached, because clients repeat the names with every push and this takes most of the time.
    """
    texts = (name, *(text for pair in pairs for text in pair))
    if not name or any(len(text) > LONGEST_TEXT for text in texts):
        return None
    family = _fit(name)
    if shape is Shape.COUNTER and not family.endswith("_total"):
        family += "_total"
    return family, tuple(sorted({_label(key): text for key, text in pairs}.items()))


def _fit(name: str) -> str:
    fit = _UNFIT.sub("_", name)
    return sys.intern(fit if fit and not fit[0].isdigit() else f"_{fit}")


def _label(key: str) -> str:
    fit = _fit(key)
    return f"attribute_{fit}" if fit.startswith("__") or fit in OWN_LABELS else fit


def _text(value: Any) -> str:
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return str(value.string_value)
    if kind == "bool_value":
        return "true" if value.bool_value else "false"
    if kind in ("int_value", "double_value"):
        return str(getattr(value, kind))
    return ""


def _too_large(limit: int) -> ApiError:
    return ApiError(ErrorCode.TELEMETRY_TOO_LARGE, f"The metrics decompress to more than {limit} bytes")

"""Reads a push of OTLP metrics, and writes it for a collector. (KIP-714;
opentelemetry.proto.metrics.v1.MetricsData)

Called in a thread, once for each push, and imported with the first one, because the modules of protobuf take
4 MB and 40 ms. The result is flat: one point for each value, with Prometheus's name besides the client's.
Deltas stay deltas; the caller adds them up.

The protobuf library parses two megabytes of empty messages in 40 ms and keeps the interpreter meanwhile.
Concatenated messages merge, and an embedded message merges in the same way, so `merge` passes runs of fields
of bounded length to the library, and splits an embedded message above that length into runs of its own.

Left out: the buckets of histograms and the quantiles of summaries, which become count and sum; exemplars.
"""

import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from math import isfinite
from typing import Any, Final

from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData

from broker.common.errors import ApiError, ErrorCode
from broker.records.compression import decompress
from broker.telemetry.instance import uuid_text
from broker.telemetry.latest import Labels, Point, PushedPoints, Shape
from broker.telemetry.state import Push

MAX_POINTS: Final = 5_000
"""Maximum points read of a push; ours. Further ones are counted."""

MAX_TEXT_LENGTH: Final = 256
"""Maximum characters of a name or a label; ours. Longer ones are left out and counted."""

MAX_ATTRIBUTES: Final = 32
"""Maximum attributes of a point; ours, likewise."""

READ_BETWEEN_PAUSES: Final = 256
"""Points and attributes between two pauses; ours. One takes 2 to 4 microseconds."""

PIECE_BYTES: Final = 65_536
"""Bytes of one call; ours. 32,768 empty messages take 1.3 ms."""

MAX_NESTED: Final = 100
"""Messages in each other, as the library limits them."""

OWN_LABELS: Final = ("client_instance_id", "client_id")
"""Labels that identify the client, which clients cannot set."""

_UNFIT: Final = re.compile(r"[^a-zA-Z0-9_]")
_DELTA: Final = 1
"""AGGREGATION_TEMPORALITY_DELTA."""

_LENGTH_DELIMITED: Final = 2
_FIXED_BYTES: Final = {1: 8, 5: 4}


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


def parse(plain: bytes, pause: Callable[[], object] = lambda: None) -> MetricsData:
    """Parse the metrics; call `pause` between pieces of a large message. Raises ApiError INVALID_RECORD."""
    data = MetricsData()
    try:
        merge(data, plain, pause)
    except DecodeError as error:
        raise ApiError(ErrorCode.INVALID_RECORD, f"The metrics cannot be decoded: {error}") from error
    return data


def merge(message: Message, data: bytes, pause: Callable[[], object], piece_bytes: int = PIECE_BYTES) -> None:
    """Merge the fields in `data` into `message`, and call `pause` after each piece of about `piece_bytes`.
    Raises DecodeError; `message` then has some of the fields.
    """
    _merge(message, data, 0, len(data), pause, piece_bytes, 0)


def _merge(
    message: Any, data: bytes, start: int, end: int, pause: Callable[[], object], piece_bytes: int, depth: int
) -> None:
    if depth > MAX_NESTED:
        raise DecodeError(f"more than {MAX_NESTED} messages in each other")
    fields = message.DESCRIPTOR.fields_by_number
    run = at = start
    while at < end:
        first = at
        tag = data[at]
        at += 1
        if tag >= 0x80:
            tag, at = _varint(data, first, end)
        kind = tag & 7
        if kind == _LENGTH_DELIMITED:
            body = at + 1
            length = data[at] if at < end else 0x80
            if length >= 0x80:
                length, body = _varint(data, at, end)
            at = body + length
            if at <= end and length > piece_bytes:
                field = fields.get(tag >> 3)
                if field is not None and field.message_type is not None:
                    message.MergeFromString(data[run:first])
                    _merge(_embedded(message, field), data, body, at, pause, piece_bytes, depth + 1)
                    run = at
        elif kind == 0:
            _, at = _varint(data, at, end)
        elif kind in _FIXED_BYTES:
            at += _FIXED_BYTES[kind]
        else:
            raise DecodeError(f"wire type {kind}")
        if at > end:
            raise DecodeError("a field ends after its message")
        if at - run >= piece_bytes:
            message.MergeFromString(data[run:at])
            run = at
            pause()
    message.MergeFromString(data[run:end])


def _embedded(message: Any, field: Any) -> Any:
    """The message that `field` holds; of a repeated field, a new one."""
    value = getattr(message, field.name)
    if hasattr(value, "add"):
        return value.add()
    value.SetInParent()
    return value


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The value at `at`, and where it ends."""
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift >= 70:
            break
    raise DecodeError("a number does not end")


def read(data: MetricsData, pause: Callable[[], object] = lambda: None) -> PushedPoints:
    """Return the points in the order of the push.

    Call `pause` after every READ_BETWEEN_PAUSES points, attributes and empty metrics: the reading thread
    yields the interpreter there.
    """
    points: list[Point] = []
    left_out = 0
    left = READ_BETWEEN_PAUSES
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
                            pause()
                            left = READ_BETWEEN_PAUSES
                if left <= 0:
                    pause()
                    left = READ_BETWEEN_PAUSES
    return PushedPoints(points, left_out)


def _count(metric: Metric) -> int:
    """Return the number of points that `_points_of` would make."""
    kind = metric.WhichOneof("data")
    if kind is None:
        return 0
    count = len(getattr(metric, kind).data_points)
    return count if kind in ("gauge", "sum") else 2 * count


def _points_of(metric: Metric) -> Iterator[Point | None]:
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
    if not name or any(len(text) > MAX_TEXT_LENGTH for text in texts):
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


def for_collector(push: Push, data: MetricsData) -> bytes:
    """Return the push for the collector, with the attributes that KIP-714 has a broker add.

    They replace the client's own attributes of the same names.
    """
    client = push.client
    added = {
        "client_instance_id": uuid_text(push.instance.id),
        "client_id": client.client_id or "",
        "client_software_name": client.software_name,
        "client_software_version": client.software_version,
        "client_source_address": client.address,
        "client_source_port": str(client.port),
        "principal": client.principal,
    }
    forwarded = MetricsData()
    forwarded.CopyFrom(data)
    for metrics in forwarded.resource_metrics:
        own = [each for each in metrics.resource.attributes if each.key not in added]
        metrics.resource.ClearField("attributes")
        metrics.resource.attributes.extend(own)
        metrics.resource.attributes.extend(
            KeyValue(key=key, value=AnyValue(string_value=text)) for key, text in added.items()
        )
    return bytes(forwarded.SerializeToString())

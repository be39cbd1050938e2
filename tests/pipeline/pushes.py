"""Pushes in the formats of clients and of the broker, and their silver rows."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
)
from pyspark.sql import DataFrame, SparkSession

from pipeline.formats import TELEMETRY
from pipeline.otlp.points import DELTA
from pipeline.otlp.tables import decode_pushes, point_rows
from tests.pipeline.events import NOON_MS, Row, raw

INSTANCE: Final = "AAAAAAAAAAAAAAAAAAAAAQ"

HEADERS: Final = {
    "v": "1",
    "node": "1",
    "client_instance_id": INSTANCE,
    "client_id": "a",
    "principal": "alice",
    "address": "10.0.0.1",
    "software_name": "confluent-kafka-python",
    "software_version": "2.16.1",
    "compression": "none",
    "subscription_id": "-7",
    "terminating": "false",
}


def ns(second: float) -> int:
    """`second` counts from noon."""
    return NOON_MS * 1_000_000 + round(second * 1e9)


def attributes(**attribute_values: str | float) -> list[KeyValue]:
    return [KeyValue(key=key, value=_value(value)) for key, value in attribute_values.items()]


def _value(value: str | float) -> AnyValue:
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
    return AnyValue(string_value=value)


def number(
    second: float,
    value: float | None = 1.0,
    start: float | None = None,
    flags: int = 0,
    **values: str | float,
) -> NumberDataPoint:
    point = NumberDataPoint(time_unix_nano=ns(second), attributes=attributes(**values), flags=flags)
    if start is not None:
        point.start_time_unix_nano = ns(start)
    if isinstance(value, int):
        point.as_int = value
    elif value is not None:
        point.as_double = value
    return point


def distribution(
    second: float,
    buckets: Iterable[int] = (),
    bounds: Iterable[float] = (),
    start: float | None = None,
    attributes: Iterable[KeyValue] = (),
    **figures: Any,
) -> HistogramDataPoint:
    counts = list(buckets)
    return HistogramDataPoint(
        time_unix_nano=ns(second),
        start_time_unix_nano=0 if start is None else ns(start),
        bucket_counts=counts,
        explicit_bounds=list(bounds),
        attributes=attributes,
        **{"count": sum(counts), **figures},
    )


def gauge(name: str, *points: NumberDataPoint) -> Metric:
    metric = Metric(name=name, unit="1")
    metric.gauge.data_points.extend(points)
    return metric


def counter(
    name: str, *points: NumberDataPoint, temporality: Any = DELTA, is_monotonic: bool = True
) -> Metric:
    metric = Metric(name=name, unit="1")
    metric.sum.aggregation_temporality = temporality
    metric.sum.is_monotonic = is_monotonic
    metric.sum.data_points.extend(points)
    return metric


def histogram(name: str, *points: HistogramDataPoint, temporality: Any = DELTA) -> Metric:
    metric = Metric(name=name, unit="ms")
    metric.histogram.aggregation_temporality = temporality
    metric.histogram.data_points.extend(points)
    return metric


def payload(*metrics: Metric, **resource: str | float) -> bytes:
    data = MetricsData()
    added = data.resource_metrics.add()
    added.resource.attributes.extend(attributes(**resource))
    scope = added.scope_metrics.add()
    scope.scope.name = "kafka"
    scope.metrics.extend(metrics)
    return bytes(data.SerializeToString())


def push(offset: int, value: bytes | None, second: float = 0, **headers: str | None) -> Row:
    """Return a record of the topic; a header of None is left out."""
    present = {name: text for name, text in (HEADERS | headers).items() if text is not None}
    time = datetime.fromtimestamp(NOON_MS / 1000 + second, UTC)
    return TELEMETRY, 0, offset, time, value, [(name, text.encode()) for name, text in present.items()]


def silver_rows(spark: SparkSession, rows: list[Row]) -> dict[str, DataFrame]:
    """Return the rows of the silver tables of these records, by kind."""
    made = decode_pushes(raw(spark, rows))
    return {kind: point_rows(made, kind) for kind in ("gauge", "sum", "histogram")}

"""Pushes as tables: silver.otel_metrics_gauge, _sum and _histogram, and the refused parts.

Pure functions of the raw rows, called by `run`. The columns of a point are named as in OpenTelemetry's
exporter for ClickHouse, without exemplars, next to the columns of the sender. Times are UTC, in
microseconds.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline.formats import KNOWN_VERSION, TELEMETRY
from pipeline.otlp.decode import WHO, decode
from pipeline.silver import PLACE, header
from pipeline.tables import DATE, Table

KEYS: Final = (*PLACE, "point")

TABLES: Final = {
    "gauge": Table("silver/otel_metrics_gauge", KEYS, time="TimeUnix"),
    "sum": Table("silver/otel_metrics_sum", KEYS, time="TimeUnix"),
    "histogram": Table("silver/otel_metrics_histogram", KEYS, time="TimeUnix"),
}

_BEFORE: Final = (
    *("ResourceAttributes", "ResourceSchemaUrl", "ScopeName", "ScopeVersion", "ScopeAttributes"),
    *("ScopeDroppedAttrCount", "ScopeSchemaUrl", "ServiceName", "MetricName", "MetricDescription"),
    *("MetricUnit", "Attributes", "StartTimeUnix", "TimeUnix"),
)

MEASURES: Final = {
    "gauge": ("Value", "Flags"),
    "sum": ("Value", "Flags", "AggregationTemporality", "IsMonotonic"),
    "histogram": (
        *("Count", "Sum", "BucketCounts", "ExplicitBounds", "Flags", "Min", "Max"),
        "AggregationTemporality",
    ),
}
"""Columns of one kind, after the common ones."""

_ROWS: Final = (
    "topic string, partition int, offset bigint, timestamp timestamp, node int, client_instance_id string, "
    "client_id string, principal string, address string, software_name string, software_version string, "
    "subscription_id int, terminating boolean, "
    "packed binary, headers array<struct<key string, value binary>>, "
    "kind string, ResourceAttributes map<string, string>, ResourceSchemaUrl string, ScopeName string, "
    "ScopeVersion string, ScopeAttributes map<string, string>, ScopeDroppedAttrCount bigint, "
    "ScopeSchemaUrl string, ServiceName string, MetricName string, MetricDescription string, "
    "MetricUnit string, AggregationTemporality int, IsMonotonic boolean, "
    "Attributes map<string, string>, point int, StartTimeUnix timestamp, TimeUnix timestamp, Flags bigint, "
    "Value double, Count bigint, Sum double, BucketCounts array<bigint>, ExplicitBounds array<double>, "
    "Min double, Max double, "
    "reason string, points bigint, metrics array<string>"
)
"""The schema of `decode`'s result."""


def decoded(raw: DataFrame) -> DataFrame:
    """Return the pushes among the records: a row for each point, and a row with a `reason` for each refused
    part.
    """
    said = {
        "node": header("node").try_cast("int"),
        **{name: header(name) for name in WHO[5:11]},
        "subscription_id": header("subscription_id").try_cast("int"),
        "terminating": header("terminating") == "true",
        "compression": header("compression"),
        "why": _why(),
    }
    pushes = raw.where(F.col("topic") == TELEMETRY)
    came = F.col("value").alias("packed"), F.col("headers")
    columns = [*WHO[:4], *came, *(column.alias(name) for name, column in said.items())]
    return pushes.select(*columns).mapInArrow(decode, _ROWS)


def points(rows: DataFrame, kind: str) -> DataFrame:
    """Return rows of one of `TABLES`, from `decoded`. `arrived` is the time at which the broker received
    the push.
    """
    return rows.where(F.col("kind") == kind).select(
        F.to_date("TimeUnix").alias(DATE),
        *_BEFORE,
        *MEASURES[kind],
        *WHO[4:],
        F.col("timestamp").alias("arrived"),
        *KEYS,
    )


def refused(rows: DataFrame) -> DataFrame:
    """Return rows of the quarantine, from `decoded`.

    For a partly used push, `points` is the number of refused points, and the push itself is in bronze only:
    Java's clients push NaN for everything that they have not measured.
    """
    return rows.where(F.col("reason").isNotNull()).select(
        F.to_date("timestamp").alias(DATE),
        *PLACE,
        *("timestamp", "reason", F.col("packed").alias("value"), "headers", "points", "metrics"),
    )


def _why() -> Column:
    """Return the reason to refuse a whole record, null for none."""
    return (
        F.when(F.col("value").isNull(), "no value")
        .when(~header("v").eqNullSafe(str(KNOWN_VERSION)), "unknown version")
        .when(header("client_instance_id").isNull(), "no client instance")
    )

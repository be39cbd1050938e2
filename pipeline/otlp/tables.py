"""Writes pushes into silver.otel_metrics_gauge, _sum and _histogram and into gold, repeatably. For `run`.

A gauge and a delta belong to one minute only. A cumulative value is subtracted from the next one, so a late
value changes the next value's minute too. The columns of a point are named as in OpenTelemetry's
exporter for ClickHouse, without exemplars, next to the columns of the sender. Times are UTC, in
microseconds.
"""

from datetime import timedelta
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline.formats import KNOWN_VERSION, TELEMETRY
from pipeline.gold import client_metrics
from pipeline.gold.client_metrics import LOOK_BACK
from pipeline.headers import ORIGIN, cluster_of, header, node_of
from pipeline.otlp.decode import SENDER, decode
from pipeline.otlp.points import CUMULATIVE
from pipeline.silver import KEYS as PUSH_KEYS
from pipeline.silver import PLACE, QUARANTINE
from pipeline.tables import DATE, Table, Warehouse, Write
from pipeline.times import MINUTE, from_to, minute_of, near, touched

KEYS: Final = (*PUSH_KEYS, "point")

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
    "topic string, partition int, offset bigint, timestamp timestamp, cluster string, node int, "
    "client_instance_id string, client_id string, principal string, address string, "
    "software_name string, software_version string, subscription_id int, terminating boolean, "
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


def take(warehouse: Warehouse, raw: DataFrame, write: Write) -> None:
    """Process the pushes among the records: their points into silver, their minutes into gold."""
    rows = decode_pushes(raw).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        counts = {row["kind"]: row["count"] for row in rows.groupBy("kind").count().collect()}
        if None in counts:
            write(QUARANTINE, quarantine_rows(rows), TELEMETRY)
        for kind, table in TABLES.items():
            if kind in counts:
                write(table, point_rows(rows, kind), kind)
        _, minutes = touched(rows, minute_of("TimeUnix"))
        if minutes is not None:
            last = max(minutes.last, _last_dependent(warehouse, rows, minutes.last))
            _make_minutes(warehouse, minutes.first, last)
    finally:
        rows.unpersist()


def decode_pushes(raw: DataFrame) -> DataFrame:
    """Return the pushes among the records: a row for each point, and a row with a `reason` for each refused
    part.
    """
    columns_of_headers = {
        "cluster": cluster_of(),
        "node": node_of(),
        **{name: header(name) for name in SENDER[6:12]},
        "subscription_id": header("subscription_id").try_cast("int"),
        "terminating": header("terminating") == "true",
        "compression": header("compression"),
        "why": _why(),
    }
    pushes = raw.where(F.col("topic") == TELEMETRY)
    as_received = F.col("value").alias("packed"), F.col("headers")
    columns = [
        *SENDER[:4],
        *as_received,
        *(column.alias(name) for name, column in columns_of_headers.items()),
    ]
    return pushes.select(*columns).mapInArrow(decode, _ROWS)


def point_rows(rows: DataFrame, kind: str) -> DataFrame:
    """Return rows of one of `TABLES`, from `decode_pushes`.

    `arrived` is the time at which the broker received the push.
    """
    return rows.where(F.col("kind") == kind).select(
        F.to_date("TimeUnix").alias(DATE),
        *_BEFORE,
        *MEASURES[kind],
        *SENDER[4:],
        F.col("timestamp").alias("arrived"),
        *PLACE,
        "point",
    )


def quarantine_rows(rows: DataFrame) -> DataFrame:
    """Return rows of the quarantine, from `decode_pushes`.

    For a partly used push, `points` is the number of refused points, and the push itself is in bronze only:
    Java's clients push NaN for everything that they have not measured.
    """
    return rows.where(F.col("reason").isNotNull()).select(
        F.to_date("timestamp").alias(DATE),
        *ORIGIN,
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


def _last_dependent(warehouse: Warehouse, rows: DataFrame, last: str) -> str:
    """Return the last minute whose increases depend on the new cumulative values; `last` if there is none."""
    instances = (
        rows.where(F.col("AggregationTemporality") == CUMULATIVE).select("client_instance_id").distinct()
    )
    if instances.isEmpty():
        return last
    end = F.to_timestamp(F.lit(last))
    follows = (F.col("TimeUnix") > end) & (F.col("TimeUnix") <= end + (LOOK_BACK + timedelta(minutes=1)))
    found = last
    for kind in ("sum", "histogram"):
        if not warehouse.exists(TABLES[kind]):
            continue
        totals = warehouse.read(TABLES[kind]).where(near(DATE, last, last, after=1))
        totals = totals.where((F.col("AggregationTemporality") == CUMULATIVE) & follows)
        _, later = touched(totals.join(F.broadcast(instances), ["client_instance_id"]), minute_of("TimeUnix"))
        found = found if later is None else max(found, later.last)
    return found


def _make_minutes(warehouse: Warehouse, first: str, last: str) -> None:
    """Recompute gold for the minutes from `first` to `last`, both included."""
    in_minutes = from_to(MINUTE, "TIMESTAMP", first, last)
    dates = from_to(DATE, "DATE", first[:10], last[:10])
    frames = {
        kind: _of_minutes(warehouse.read(table), kind, first, last)
        for kind, table in TABLES.items()
        if warehouse.exists(table)
    }
    non_empty = {kind: frame for kind, frame in frames.items() if not frame.isEmpty()}
    made = client_metrics.client_metrics_per_minute(non_empty)
    warehouse.replace(client_metrics.TABLE, made.where(in_minutes), f"{dates} AND {in_minutes}")


def _of_minutes(rows: DataFrame, kind: str, first: str, last: str) -> DataFrame:
    """Return the rows that the minutes depend on: their points, and the preceding cumulative values.

    Filters by the times in the files' statistics, so that Delta skips other files.
    """
    begin, end = F.to_timestamp(F.lit(first)), F.to_timestamp(F.lit(last)) + timedelta(minutes=1)
    is_wanted = F.col("TimeUnix") > begin
    if kind != "gauge":
        is_total = F.col("AggregationTemporality") == CUMULATIVE
        is_wanted |= is_total & (F.col("TimeUnix") >= begin - LOOK_BACK)
    on_days = rows.where(near(DATE, first, last, before=0 if kind == "gauge" else 1))
    return on_days.where(is_wanted & (F.col("TimeUnix") <= end))

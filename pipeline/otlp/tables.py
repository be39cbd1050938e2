"""Writes pushes into silver.otel_metrics_gauge, _sum and _histogram and into gold, repeatably. For `run`.

A gauge and a delta belong to one minute only. A cumulative value is subtracted from the next one, so a late
value changes the next value's minute too. The columns of a point are named as in OpenTelemetry's
exporter for ClickHouse, without exemplars, next to the columns of the sender. Times are UTC, in
microseconds.
"""

from datetime import timedelta
from functools import partial
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline.conflicts import repeated
from pipeline.formats import KNOWN_VERSION, TELEMETRY
from pipeline.gold import client_metrics
from pipeline.gold.client_metrics import LOOK_BACK
from pipeline.headers import ORIGIN, cluster_of, header, node_of
from pipeline.otlp.decode import SENDER, decode
from pipeline.otlp.points import CUMULATIVE
from pipeline.silver import KEYS as PUSH_KEYS
from pipeline.silver import PLACE, QUARANTINE
from pipeline.tables import DATE, Table, Warehouse, Write
from pipeline.times import Minutes, changes_in, minute_of, number_of

KEYS: Final = (*PUSH_KEYS, "point")

TABLES: Final = {
    "gauge": Table("silver/otel_metrics_gauge", KEYS, time="TimeUnix"),
    "sum": Table("silver/otel_metrics_sum", KEYS, time="TimeUnix,AggregationTemporality"),
    "histogram": Table("silver/otel_metrics_histogram", KEYS, time="TimeUnix,AggregationTemporality"),
}
"""Delta skips files without cumulative values when a batch needs those before its own."""

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

_TOTALS: Final = ("sum", "histogram")
"""The kinds that may be cumulative."""

_LOOK_BACK: Final = int(LOOK_BACK / timedelta(minutes=1))

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
        minute = number_of(minute_of("TimeUnix"))
        is_total = F.col("AggregationTemporality") == CUMULATIVE
        found = rows.groupBy("kind").agg(
            F.collect_set(minute).alias("minutes"),
            F.count_if(is_total).alias("totals"),
        )
        kinds = {row["kind"]: row for row in found.collect()}
        if None in kinds:
            write(warehouse, QUARANTINE, quarantine_rows(rows), TELEMETRY)
        for kind, table in TABLES.items():
            if kind in kinds:
                write(warehouse, table, point_rows(rows, kind), kind)
        changed = {at for row in kinds.values() for at in row["minutes"]}
        if any(row["totals"] for row in kinds.values()):
            changed |= _following(warehouse, rows.where(is_total), max(changed))
        if changed:
            repeated(partial(_make_minutes, warehouse, Minutes.of(changed)))
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


def _following(warehouse: Warehouse, totals: DataFrame, last: int) -> set[int]:
    """Return the minutes after `last` whose increases may depend on the new totals."""
    instances = totals.select("client_instance_id").distinct()
    later = Minutes(((last + 1, last + _LOOK_BACK),))
    found = set[int]()
    for kind in _TOTALS:
        if warehouse.exists(TABLES[kind]):
            points = warehouse.read(TABLES[kind]).where(later.of_events("TimeUnix"))
            points = points.where(F.col("AggregationTemporality") == CUMULATIVE)
            known = points.join(F.broadcast(instances), ["client_instance_id"])
            found.update(changes_in(known, minute_of("TimeUnix"))["minutes"])
    return found


def _make_minutes(warehouse: Warehouse, minutes: Minutes) -> None:
    """Recompute gold for the changed minutes."""
    frames = {
        kind: _of_minutes(warehouse.read(table), kind, minutes)
        for kind, table in TABLES.items()
        if warehouse.exists(table)
    }
    made = client_metrics.client_metrics_per_minute(frames)
    warehouse.replace(client_metrics.TABLE, made.where(minutes.of_rows()), minutes.of_rows())


def _of_minutes(rows: DataFrame, kind: str, minutes: Minutes) -> DataFrame:
    """Return the rows that the minutes depend on: their points, and the preceding totals."""
    if kind == "gauge":
        return rows.where(minutes.of_events("TimeUnix"))
    is_total = F.col("AggregationTemporality") == CUMULATIVE
    wanted = F.expr(minutes.of_events("TimeUnix")) | is_total
    return rows.where(minutes.of_events("TimeUnix", before=LOOK_BACK)).where(wanted)

"""Writes pushes into silver.otel_metrics_gauge, _sum and _histogram and into gold, repeatably. For `run`.

A gauge and a delta belong to one minute only. A cumulative value is subtracted from the next one, so a late
value changes the next value's minute too; `totals` has the last values of each series.

The columns of a point are named as in OpenTelemetry's exporter for ClickHouse, without exemplars, next to the
columns of the sender. Times are UTC, in microseconds.
"""

from collections.abc import Mapping
from datetime import timedelta
from functools import partial, reduce
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline.conflicts import repeated
from pipeline.failures import Failures
from pipeline.formats import KNOWN_VERSION, ORIGIN, TELEMETRY, cluster_of, header, node_of
from pipeline.gold import client_metrics
from pipeline.gold.client_metrics import LOOK_BACK
from pipeline.otlp import totals
from pipeline.otlp.decode import SENDER, decode
from pipeline.otlp.points import CUMULATIVE
from pipeline.silver import KEYS as PUSH_KEYS
from pipeline.silver import PLACE, QUARANTINE
from pipeline.tables import DATE, Table, Warehouse, Write
from pipeline.times import Minutes, changes_in, day_of, minute_of, number_of
from pipeline.together import run_together

KEYS: Final = (*PUSH_KEYS, "point")

TABLES: Final = {
    "gauge": Table("silver/otel_metrics_gauge", KEYS, time="TimeUnix", has_changes=True),
    "sum": Table("silver/otel_metrics_sum", KEYS, time="TimeUnix,AggregationTemporality", has_changes=True),
    "histogram": Table(
        "silver/otel_metrics_histogram", KEYS, time="TimeUnix,AggregationTemporality", has_changes=True
    ),
}
"""Delta skips files without cumulative values when a batch needs those of the day before its own."""

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


def take(warehouse: Warehouse, raw: DataFrame, write: Write, failures: Failures) -> None:
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
        writes = [
            partial(write, warehouse, table, point_rows(rows, kind), kind)
            for kind, table in TABLES.items()
            if kind in kinds
        ]
        run_together(warehouse.spark, writes)
        changed = {at for row in kinds.values() for at in row["minutes"]}
        has_totals = any(row["totals"] for row in kinds.values())
        of_kind = {kind: rows.where(F.col("kind") == kind) for kind in _TOTALS}
        new = _totals(of_kind) if has_totals else None
        if changed:
            failures.make(
                warehouse,
                client_metrics.TABLE,
                partial(repeated, partial(_make_minutes, warehouse, changed, new)),
                lambda: changed | _later_in_silver(warehouse, changed, new),
            )
        if new is not None:
            totals.note(warehouse, new, {kind: TABLES[kind] for kind in _TOTALS})
        if None in kinds:  # last: people wait for the rows of gold
            write(warehouse, QUARANTINE, quarantine_rows(rows), TELEMETRY)
    finally:
        rows.unpersist()


def make_again(warehouse: Warehouse, minutes: set[int]) -> None:
    """Recompute minutes of gold that failed; all that silver has if the table was removed."""
    if warehouse.exists(client_metrics.TABLE):
        repeated(partial(_make_from_silver, warehouse, Minutes.of(minutes)))
        return
    points = {kind: warehouse.read(table) for kind, table in TABLES.items() if warehouse.exists(table)}
    warehouse.replace(client_metrics.TABLE, client_metrics.client_metrics_per_minute(points), "true")


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
        day_of("TimeUnix").alias(DATE),
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
        day_of("timestamp").alias(DATE),
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


def _totals(points: Mapping[str, DataFrame]) -> DataFrame:
    """Return the cumulative values among points by kind."""
    each = (totals.totals_of(frame, kind) for kind, frame in points.items())
    return reduce(DataFrame.unionByName, each)


def _make_minutes(warehouse: Warehouse, changed: set[int], new: DataFrame | None) -> None:
    """Recompute gold for the changed minutes, and for those of the totals after the `new` ones."""
    known = totals.known(warehouse)
    later = None if known is None else _later(warehouse, known, changed, new)
    if later is not None:
        _make_from_known(warehouse, Minutes.of(changed | later))
    else:
        _make_from_silver(warehouse, Minutes.of(changed | _later_in_silver(warehouse, changed, new)))


def _later(
    warehouse: Warehouse, known: totals.Known, changed: set[int], new: DataFrame | None
) -> set[int] | None:
    """Return the minutes of the totals after the new ones; None if only silver has what is before or
    after the changed minutes.
    """
    first = min(changed)
    has_later = new is not None and known.newest > first
    if known.covers(first):
        return totals.following(warehouse, new) if has_later else set()
    if not known.is_near(first):
        return None
    # A series that is ahead of the batch must not let all others be searched for.
    minutes = Minutes.of(changed)
    points = {kind: frame for kind, frame in _points(warehouse, minutes).items() if kind in _TOTALS}
    if points and not totals.are_all_known(warehouse, _totals(points)):
        return None
    later = totals.following(warehouse, new) if has_later else set()
    return later if later <= set(minutes) else None


def _later_in_silver(warehouse: Warehouse, changed: set[int], new: DataFrame | None) -> set[int]:
    """Return the minutes with totals of the instances of the new ones, up to a day after the last change."""
    found = set[int]()
    if new is None:
        return found
    instances = new.select("client_instance_id").distinct()
    minutes = Minutes(((min(changed), max(changed) + _LOOK_BACK),))
    for kind in _TOTALS:
        if warehouse.exists(TABLES[kind]):
            points = warehouse.read(TABLES[kind]).where(minutes.of_events("TimeUnix"))
            points = points.where(F.col("AggregationTemporality") == CUMULATIVE)
            known = points.join(F.broadcast(instances), ["client_instance_id"])
            found.update(changes_in(known, minute_of("TimeUnix"))["minutes"])
    return found


def _points(warehouse: Warehouse, minutes: Minutes) -> dict[str, DataFrame]:
    return {
        kind: warehouse.read(table).where(minutes.of_events("TimeUnix"))
        for kind, table in TABLES.items()
        if warehouse.exists(table)
    }


def _make_from_known(warehouse: Warehouse, minutes: Minutes) -> None:
    """Recompute minutes from their points and the known totals."""
    points = _points(warehouse, minutes)
    before = {kind: totals.by_shape(warehouse, kind) for kind in points if kind in _TOTALS}
    made = client_metrics.client_metrics_per_minute(points, before)
    warehouse.replace(client_metrics.TABLE, made, minutes.of_rows())


def _make_from_silver(warehouse: Warehouse, minutes: Minutes) -> None:
    """Recompute minutes from their points and the totals of the day before them."""
    frames = {
        kind: _with_day_before(warehouse.read(table), kind, minutes)
        for kind, table in TABLES.items()
        if warehouse.exists(table)
    }
    made = client_metrics.client_metrics_per_minute(frames)
    warehouse.replace(client_metrics.TABLE, made.where(minutes.of_rows()), minutes.of_rows())


def _with_day_before(rows: DataFrame, kind: str, minutes: Minutes) -> DataFrame:
    if kind == "gauge":
        return rows.where(minutes.of_events("TimeUnix"))
    is_total = F.col("AggregationTemporality") == CUMULATIVE
    wanted = F.expr(minutes.of_events("TimeUnix")) | is_total
    return rows.where(minutes.of_events("TimeUnix", before=LOOK_BACK)).where(wanted)

"""Writes one batch of pushes into silver and gold, repeatably. For `run`.

A gauge and a delta belong to one minute only. A cumulative value is subtracted from the next one, so a late
value changes the next value's minute too.
"""

from datetime import timedelta

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline import silver
from pipeline.formats import TELEMETRY
from pipeline.gold import client_metrics
from pipeline.gold.client_metrics import LOOK_BACK
from pipeline.gold.usage import MINUTE, minute_of
from pipeline.otlp.points import CUMULATIVE
from pipeline.otlp.tables import TABLES, decoded, points, refused
from pipeline.tables import DATE, Warehouse, Write
from pipeline.times import from_to, near, touched


def take(warehouse: Warehouse, raw: DataFrame, write: Write) -> None:
    """Process the pushes among the records: their points into silver, their minutes into gold."""
    rows = decoded(raw).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        counts = {row["kind"]: row["count"] for row in rows.groupBy("kind").count().collect()}
        if None in counts:
            write(silver.QUARANTINE, refused(rows), TELEMETRY)
        for kind, table in TABLES.items():
            if kind in counts:
                write(table, points(rows, kind), kind)
        _, minutes = touched(rows, minute_of("TimeUnix"))
        if minutes is not None:
            last = max(minutes.last, _last_dependent(warehouse, rows, minutes.last))
            _make_minutes(warehouse, minutes.first, last)
    finally:
        rows.unpersist()


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
    here = from_to(MINUTE, "TIMESTAMP", first, last)
    dates = from_to(DATE, "DATE", first[:10], last[:10])
    frames = {
        kind: _of_minutes(warehouse.read(table), kind, first, last)
        for kind, table in TABLES.items()
        if warehouse.exists(table)
    }
    non_empty = {kind: frame for kind, frame in frames.items() if not frame.isEmpty()}
    made = client_metrics.client_metrics_per_minute(non_empty)
    warehouse.replace(client_metrics.TABLE, made.where(here), f"{dates} AND {here}")


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

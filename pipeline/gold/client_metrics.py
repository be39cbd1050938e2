"""Metrics that clients push, per minute: gauges as values, sums as increases.

A series is one client instance's metric with its attributes. A minute has a row for each series; columns of
other shapes are null.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline.otlp.points import CUMULATIVE, DELTA
from pipeline.tables import CLUSTER, DATE, Table
from pipeline.times import MINUTE, day_of, minute_of

SERIES: Final = (
    CLUSTER,
    *("client_instance_id", "client_id", "principal", "resource", "scope", "metric", "shape", "attributes"),
)

TABLE: Final = Table("gold/client_metrics_per_minute", (MINUTE, *SERIES))

LOOK_BACK: Final = timedelta(days=1)
"""The most that the previous value of a cumulative series may lie back; after a longer gap the series
starts again.
"""

_COLUMNS: Final = {
    "points": "bigint",
    "min": "double",
    "max": "double",
    "last": "double",
    "mean": "double",
    "increase": "double",
    "count": "bigint",
    "sum": "double",
    "bounds": "array<double>",
    "bucket_counts": "array<bigint>",
}

TIMES: Final = ("StartTimeUnix", "TimeUnix")

_HISTOGRAM_MEASURES: Final = ("Count", "Sum", "BucketCounts", "ExplicitBounds", "Min", "Max")

MEASURES: Final = ("Value", *_HISTOGRAM_MEASURES, "AggregationTemporality", "IsMonotonic")

_IS_KNOWN: Final = "is_known"
"""The column that distinguishes a known total, which belongs to no minute here, from a point."""


def client_metrics_per_minute(
    points: Mapping[str, DataFrame], known: Mapping[str, DataFrame] | None = None
) -> DataFrame:
    """Aggregate silver's non-empty otel_metrics tables, by shape: gauge, sum, histogram. `known` are totals
    that precede the points, in the form of `series`: increases count from them, and they have no row.

    A point belongs to the minute of its time, the end of its interval; of two with the same times, as when
    a push was sent twice, the larger counts.

    `increase` is the increase of a sum; `count`, `sum` and `bucket_counts` are the increases of a
    histogram. Deltas are added up; cumulative values are subtracted from their successors. A cumulative
    value that has restarted, or is the first, counts from its start if that is at most a day ago; so values
    from before the first push of a long-running client are in no minute.
    """
    earlier = known or {}
    return reduce(
        DataFrame.unionByName,
        (
            _all_columns(_SHAPES[shape](_with_known(series(frame, shape), earlier.get(shape))))
            for shape, frame in points.items()
        ),
    )


def _with_known(points: DataFrame, known: DataFrame | None) -> DataFrame:
    """Add the known totals, and partition by series: later steps need no shuffle."""
    rows = points.withColumn(_IS_KNOWN, F.lit(False))
    if known is not None:
        rows = rows.unionByName(known.select(*points.columns, F.lit(True).alias(_IS_KNOWN)))
    return rows.repartition(*SERIES)


def _all_columns(frame: DataFrame) -> DataFrame:
    """Add the columns of other shapes."""
    measures = [
        (F.col(name) if name in frame.columns else F.lit(None)).cast(kind).alias(name)
        for name, kind in _COLUMNS.items()
    ]
    named = frame.withColumn(CLUSTER, F.nullif(CLUSTER, F.lit("")))
    return named.select(day_of(MINUTE).alias(DATE), MINUTE, *SERIES, F.col("unit").cast("string"), *measures)


def series(points: DataFrame, shape: str) -> DataFrame:
    """Return rows of an otel_metrics table with the columns of `SERIES`, none of them null, `unit`, and those
    of `TIMES` and `MEASURES` that they have.
    """
    return points.select(
        F.coalesce(CLUSTER, F.lit("")).alias(CLUSTER),
        "client_instance_id",
        F.coalesce("client_id", F.lit("")).alias("client_id"),
        F.coalesce("principal", F.lit("")).alias("principal"),
        _text("ResourceAttributes").alias("resource"),
        F.col("ScopeName").alias("scope"),
        F.col("MetricName").alias("metric"),
        F.lit(shape).alias("shape"),
        _text("Attributes").alias("attributes"),
        F.col("MetricUnit").alias("unit"),
        *(name for name in points.columns if name in (*TIMES, *MEASURES)),
    )


def _text(attributes: str) -> Column:
    """Return attributes as one comparable text: JSON in the order of names that silver has."""
    return F.to_json(attributes)


def _of_gauges(points: DataFrame) -> DataFrame:
    measured = points.where(F.col("Value").isNotNull())
    distinct = measured.groupBy(*SERIES, "TimeUnix").agg(
        F.max("Value").alias("Value"), F.max("unit").alias("unit")
    )
    return (
        distinct.withColumn(MINUTE, minute_of("TimeUnix"))
        .groupBy(*SERIES, MINUTE)
        .agg(
            F.max("unit").alias("unit"),
            F.count("*").alias("points"),
            F.min("Value").alias("min"),
            F.max("Value").alias("max"),
            F.max_by("Value", "TimeUnix").alias("last"),
            F.avg("Value").alias("mean"),
        )
    )


def _of_sums(points: DataFrame) -> DataFrame:
    measured = points.where(F.col("Value").isNotNull())
    kinds = ("AggregationTemporality", "IsMonotonic")
    distinct = measured.groupBy(*SERIES, *kinds, *TIMES).agg(
        F.max("Value").alias("Value"), F.max("unit").alias("unit"), _is_known()
    )
    differences = distinct.where(F.col("AggregationTemporality") == DELTA).select(
        *SERIES, "unit", "TimeUnix", F.col("Value").alias("increase"), F.lit(None).alias("last")
    )
    has_fallen = F.col("IsMonotonic") & (F.col("Value") < F.col("before.Value"))
    totals = _with_previous(
        distinct.where(F.col("AggregationTemporality") == CUMULATIVE), ("Value",), has_fallen
    ).select(
        *SERIES,
        "unit",
        "TimeUnix",
        F.when(F.col("goes_on"), F.col("Value") - F.col("before.Value"))
        .when(F.col("is_whole"), F.col("Value"))
        .otherwise(F.lit(0.0))
        .alias("increase"),
        F.col("Value").alias("last"),
    )
    return (
        differences.unionByName(totals)
        .withColumn(MINUTE, minute_of("TimeUnix"))
        .groupBy(*SERIES, MINUTE)
        .agg(
            F.max("unit").alias("unit"),
            F.count("*").alias("points"),
            F.try_sum("increase").alias("increase"),
            F.max_by("last", "TimeUnix").alias("last"),
        )
    )


def _of_histograms(points: DataFrame) -> DataFrame:
    measured = points.where(F.col("Count").isNotNull())
    distinct = (
        measured.groupBy(*SERIES, "AggregationTemporality", *TIMES)
        .agg(
            F.max(F.struct(*_HISTOGRAM_MEASURES)).alias("measures"),
            F.max("unit").alias("unit"),
            _is_known(),
        )
        .select(*SERIES, "AggregationTemporality", *TIMES, "unit", _IS_KNOWN, "measures.*")
    )
    has_buckets = F.size("BucketCounts") > 0
    with_buckets = distinct.withColumn(
        "BucketCounts", F.when(has_buckets, F.col("BucketCounts")).otherwise(F.array("Count"))
    )
    before = F.col("before")
    has_same_bounds = F.col("ExplicitBounds") == before["ExplicitBounds"]
    totals = _with_previous(
        with_buckets.where(F.col("AggregationTemporality") == CUMULATIVE),
        ("Count", "Sum", "BucketCounts", "ExplicitBounds"),
        F.col("Count") < before["Count"],
        has_same_bounds,
    )
    bucket_increases = F.zip_with("BucketCounts", before["BucketCounts"], lambda now, then: now - then)
    increases = totals.where("goes_on").select(
        *(*SERIES, "unit", "TimeUnix", "ExplicitBounds"),
        (F.col("Count") - before["Count"]).alias("Count"),
        (F.col("Sum") - before["Sum"]).alias("Sum"),
        bucket_increases.alias("BucketCounts"),
        *(F.lit(None).cast("double").alias(name) for name in ("Min", "Max")),
    )
    columns = increases.columns
    complete = with_buckets.where(F.col("AggregationTemporality") == DELTA).select(*columns)
    complete = complete.unionByName(totals.where("NOT goes_on AND is_whole").select(*columns))
    each = complete.unionByName(increases).withColumn(MINUTE, minute_of("TimeUnix"))
    totals_per_minute = each.groupBy(*SERIES, MINUTE).agg(
        F.max("unit").alias("unit"),
        F.count("*").alias("points"),
        F.try_sum("Count").alias("count"),
        F.try_sum("Sum").alias("sum"),
        F.min("Min").alias("min"),
        F.max("Max").alias("max"),
    )
    return totals_per_minute.join(_merged(each), [*SERIES, MINUTE])


def _is_known() -> Column:
    """Return the aggregate for a time of a series: a total that is among the points too is one of them."""
    return F.min(_IS_KNOWN).alias(_IS_KNOWN)


def _merged(each: DataFrame) -> DataFrame:
    """Merge the buckets of a series' minute at the bounds that all of its points have, so that no count is
    interpolated.
    """
    edges = F.concat("ExplicitBounds", F.array(F.lit(float("inf"))))
    buckets = each.select(
        *SERIES, MINUTE, F.explode(F.arrays_zip(edges.alias("edge"), "BucketCounts")).alias("of")
    )
    counted = buckets.groupBy(*SERIES, MINUTE, F.col("of.edge").alias("edge")).agg(
        F.try_sum("of.BucketCounts").alias("count"), F.count("*").alias("points")
    )
    minute = Window.partitionBy(*SERIES, MINUTE)
    up_to = F.try_sum("count").over(minute.orderBy("edge"))
    common = (
        counted.withColumn("up_to", up_to)
        .withColumn("all_points", F.max("points").over(minute))
        .where(F.col("points") == F.col("all_points"))
    )
    below = F.coalesce(F.lag("up_to").over(minute.orderBy("edge")), F.lit(0))
    sorted_buckets = F.array_sort(
        F.collect_list(F.struct("edge", (F.col("up_to") - F.col("below")).alias("count")))
    )
    found = common.withColumn("below", below).groupBy(*SERIES, MINUTE).agg(sorted_buckets.alias("buckets"))
    bounds = F.col("buckets.edge")
    return found.select(
        *SERIES,
        MINUTE,
        F.slice(bounds, F.lit(1), F.size(bounds) - 1).alias("bounds"),
        F.col("buckets.count").alias("bucket_counts"),
    )


def _with_previous(
    totals: DataFrame, measures: tuple[str, ...], has_fallen: Column, is_like: Column | None = None
) -> DataFrame:
    """Return cumulative values with the one `before` in their series.

    If `goes_on`, the increase is the difference to it; if `is_whole`, the value accrued since its start.
    Otherwise the increase is unknown.
    """
    in_order = Window.partitionBy(*SERIES).orderBy("TimeUnix", "StartTimeUnix")
    before, start = F.col("before"), F.col("StartTimeUnix")
    with_previous = totals.withColumn("before", F.lag(F.struct(*TIMES, *measures)).over(in_order)).withColumn(
        "before", F.when(before["TimeUnix"] >= F.col("TimeUnix") - LOOK_BACK, before)
    )
    is_next = before.isNotNull() & (start.isNull() | start.eqNullSafe(before["StartTimeUnix"]))
    has_fallen = is_next & F.coalesce(has_fallen, F.lit(False))
    has_started = ~is_next & F.coalesce(start >= F.col("TimeUnix") - LOOK_BACK, F.lit(False))
    goes_on = is_next & ~has_fallen & (F.lit(True) if is_like is None else is_like)
    return (
        with_previous.withColumn("goes_on", goes_on)
        .withColumn("is_whole", has_fallen | has_started)
        .where(~F.col(_IS_KNOWN))
    )


_SHAPES: Final[Mapping[str, Callable[[DataFrame], DataFrame]]] = {
    "gauge": _of_gauges,
    "sum": _of_sums,
    "histogram": _of_histograms,
}

"""Durations of the phases of requests, per minute and API: merged histograms and their quantiles."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline.formats import BUCKET_COUNTS, BUCKETS, ORIGIN
from pipeline.histograms import edge_of, phase_of, with_buckets
from pipeline.tables import DATE, Table
from pipeline.times import MINUTE, day_of, minute_of

TABLE: Final = Table("gold/phase_quantiles_per_minute", (MINUTE, *ORIGIN, "api", "phase"))

_OF_REQUEST: Final = (MINUTE, *ORIGIN, "api")
_KEYS: Final = (*_OF_REQUEST, "phase")

QUANTILES: Final = {"p50_us": 0.5, "p95_us": 0.95, "p99_us": 0.99}

EDGES: Final = "bucket_us"
COUNTS: Final = "bucket_counts"
"""Columns with a histogram: the upper edges of its buckets in ascending order, and their counts. Those of
several rows can be added up; their quantiles cannot.
"""


def phase_quantiles_per_minute(requests: DataFrame) -> DataFrame:
    """Return histograms and quantiles of the requests whose phase was timed, from silver.requests; `timed`
    counts them.
    """
    whole = gathered(buckets(requests), _KEYS)
    return whole.select(day_of(MINUTE).alias(DATE), *_KEYS, *quantiles(), EDGES, COUNTS)


def buckets(requests: DataFrame) -> DataFrame:
    """Return the histograms of the phases, added up by minute, API and phase: the `count` of each bucket with
    the upper edge `us`. A sum beyond 64 bits is null.
    """
    each = with_buckets(requests.where(F.col("timed") > 0)).select(
        minute_of().alias(MINUTE), *ORIGIN, "api", BUCKET_COUNTS, F.posexplode(BUCKETS).alias("at", "bucket")
    )
    # A short key: it is compared for each bucket of each request.
    count = F.try_sum(F.get(BUCKET_COUNTS, F.col("at"))).alias("count")
    sums = each.groupBy(*_OF_REQUEST, "bucket").agg(count)
    bucket = F.col("bucket")
    found = sums.select(*_OF_REQUEST, phase_of(bucket).alias("phase"), edge_of(bucket).alias("us"), "count")
    return found.where(F.col("phase").isNotNull())


def gathered(buckets: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the columns `EDGES` and `COUNTS` by `keys`, from buckets whose counts are added up."""
    return _with_arrays(buckets.groupBy(*keys).agg(_pairs()), keys)


def added_up(rows: DataFrame, keys: Sequence[str], sums: Sequence[str]) -> DataFrame:
    """Add up the histograms in `EDGES` and `COUNTS`, and the numbers `sums`, by `keys`. A sum beyond 64 bits
    is null.
    """
    each = F.posexplode_outer(F.arrays_zip(EDGES, COUNTS)).alias("at", "bucket")
    spread = rows.select(*keys, *sums, each)
    # A row's numbers count once, however many buckets it has.
    is_first = F.coalesce(F.col("at"), F.lit(0)) == 0
    numbers = [F.try_sum(F.when(is_first, F.col(name))).alias(name) for name in sums]
    us, count = F.col(f"bucket.{EDGES}").alias("us"), F.try_sum(f"bucket.{COUNTS}").alias("count")
    by_bucket = spread.groupBy(*keys, us).agg(*numbers, count)
    found = by_bucket.groupBy(*keys).agg(*(F.try_sum(name).alias(name) for name in sums), _pairs())
    return _with_arrays(found, (*keys, *sums))


def _pairs() -> Column:
    pair = F.when(F.col("us").isNotNull(), F.struct("us", "count"))
    return F.array_sort(F.collect_list(pair)).alias("pairs")


def _with_arrays(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    return rows.select(*names, F.col("pairs.us").alias(EDGES), F.col("pairs.count").alias(COUNTS))


def quantiles() -> list[Column]:
    """Return the columns `timed`, `QUANTILES` and `max_us` of the histogram in `EDGES` and `COUNTS`.

    A quantile is the upper edge of its bucket: never too small, and less than an eighth too large.
    """
    add = F.try_add
    timed = F.aggregate(COUNTS, F.lit(0).cast("long"), add)
    buckets = F.arrays_zip(EDGES, COUNTS)

    def quantile(share: float) -> Column:
        start = F.struct(F.lit(0).cast("long").alias("so_far"), F.lit(None).cast("long").alias("us"))

        def step(found: Column, bucket: Column) -> Column:
            so_far = add(found["so_far"], bucket[COUNTS])
            us = F.when(so_far >= share * timed, bucket[EDGES])
            return F.struct(so_far.alias("so_far"), F.coalesce(found["us"], us).alias("us"))

        return F.aggregate(buckets, start, step, lambda found: found["us"])

    return [
        timed.alias("timed"),
        *(quantile(share).alias(name) for name, share in QUANTILES.items()),
        F.element_at(EDGES, -1).alias("max_us"),
    ]

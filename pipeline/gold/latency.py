"""Durations of the phases of requests, per minute and API: quantiles of merged histograms."""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline.formats import PHASES
from pipeline.headers import ORIGIN
from pipeline.tables import DATE, Table
from pipeline.times import MINUTE, minute_of

TABLE: Final = Table("gold/phase_quantiles_per_minute", (MINUTE, *ORIGIN, "api", "phase"))

_KEYS: Final = (MINUTE, *ORIGIN, "api", "phase")

QUANTILES: Final = {"p50_us": 0.5, "p95_us": 0.95, "p99_us": 0.99}


def phase_quantiles_per_minute(requests: DataFrame) -> DataFrame:
    """Return quantiles of the timed requests that had the phase, from silver.requests; `timed` counts them.

    A quantile is the upper edge of its bucket: never too small, and less than an eighth too large.
    """
    whole = Window.partitionBy(*_KEYS)
    so_far = whole.orderBy("us").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    ranked = buckets(requests).select(
        "*",
        F.try_sum("count").over(so_far).alias("so_far"),
        F.try_sum("count").over(whole).alias("timed"),
    )
    return ranked.groupBy(F.to_date(MINUTE).alias(DATE), *_KEYS).agg(
        F.first("timed").alias("timed"),
        *(
            F.min(F.when(F.col("so_far") >= q * F.col("timed"), F.col("us"))).alias(name)
            for name, q in QUANTILES.items()
        ),
        F.max("us").alias("max_us"),
    )


def buckets(requests: DataFrame) -> DataFrame:
    """Return the merged histograms: the `count` of each bucket with the upper edge `us`.

    Entries of a histogram that are not a pair of numbers are ignored. A sum beyond 64 bits is null.
    """
    named = [column for name in PHASES for column in (F.lit(name), F.col(f"phases.{name}"))]
    histograms = requests.where(F.col("timed") > 0).select(
        minute_of().alias(MINUTE), *ORIGIN, "api", F.stack(F.lit(len(PHASES)), *named).alias("phase", "pairs")
    )
    pairs = histograms.select(*_KEYS, F.explode("pairs").alias("pair")).where(F.size("pair") == 2)
    numbers = pairs.select(*_KEYS, F.get("pair", 0).alias("us"), F.get("pair", 1).alias("count"))
    return (
        numbers.where(F.col("us").isNotNull() & F.col("count").isNotNull())
        .groupBy(*_KEYS, "us")
        .agg(F.try_sum("count").alias("count"))
    )

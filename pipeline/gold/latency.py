"""Durations of the phases of requests, per minute and API: quantiles of merged histograms."""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline.formats import PHASES
from pipeline.gold.histograms import counted
from pipeline.gold.usage import MINUTE, minute_of
from pipeline.tables import DATE, Table

TABLE: Final = Table("gold/phase_quantiles_per_minute", (MINUTE, "node", "api", "phase"))

_KEYS: Final = (MINUTE, "node", "api")
_COUNTED: Final = f"{MINUTE} timestamp, node int, api string, phase string, us bigint, count bigint"

QUANTILES: Final = {"p50_us": 0.5, "p95_us": 0.95, "p99_us": 0.99}


def phase_quantiles_per_minute(requests: DataFrame) -> DataFrame:
    """Return quantiles of the timed requests that had the phase, from silver.requests; `timed` counts them.

    A quantile is the upper edge of its bucket: never too small, and less than an eighth too large.
    """
    histograms = [F.col(f"phases.{name}").alias(name) for name in PHASES]
    told = requests.where(F.col("timed") > 0).select(minute_of().alias(MINUTE), "node", "api", *histograms)
    buckets = (
        told.mapInArrow(counted(_KEYS, PHASES), _COUNTED)
        .groupBy(*_KEYS, "phase", "us")
        .agg(F.try_sum("count").alias("count"))
    )
    whole = Window.partitionBy(MINUTE, "node", "api", "phase")
    so_far = whole.orderBy("us").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    ranked = buckets.withColumn("so_far", F.sum("count").over(so_far)).withColumn(
        "timed", F.sum("count").over(whole)
    )
    return ranked.groupBy(F.to_date(MINUTE).alias(DATE), MINUTE, "node", "api", "phase").agg(
        F.first("timed").alias("timed"),
        *(
            F.min(F.when(F.col("so_far") >= q * F.col("timed"), F.col("us"))).alias(name)
            for name, q in QUANTILES.items()
        ),
        F.max("us").alias("max_us"),
    )

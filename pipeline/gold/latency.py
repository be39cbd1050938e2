"""Durations of the phases of requests, per minute and API: quantiles of merged histograms."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline import java_functions
from pipeline.formats import ORIGIN, PHASES
from pipeline.histograms import HISTOGRAMS, with_histograms
from pipeline.tables import DATE, Table
from pipeline.times import MINUTE, day_of, minute_of

TABLE: Final = Table("gold/phase_quantiles_per_minute", (MINUTE, *ORIGIN, "api", "phase"))

_OF_REQUEST: Final = (MINUTE, *ORIGIN, "api")
_KEYS: Final = (*_OF_REQUEST, "phase")

QUANTILES: Final = {"p50_us": 0.5, "p95_us": 0.95, "p99_us": 0.99}


def phase_quantiles_per_minute(requests: DataFrame) -> DataFrame:
    """Return quantiles of the requests whose phase was timed, from silver.requests; `timed` counts them."""
    return quantiles(buckets(requests), _KEYS, day_of(MINUTE).alias(DATE))


def buckets(requests: DataFrame) -> DataFrame:
    """Return the merged histograms of the phases: `merged` by minute, API and phase."""
    histograms = [F.col(f"{HISTOGRAMS}.{name}") for name in PHASES]
    timed = with_histograms(requests.where(F.col("timed") > 0))
    of_request = (minute_of().alias(MINUTE), *ORIGIN, "api")
    if java_functions.are_known(requests.sparkSession):
        gathered = timed.select(*of_request, F.array(*histograms).alias("each")).groupBy(*_OF_REQUEST)
        found = gathered.agg(java_functions.merged_histograms(F.col("each")).alias("found"))
        numbered = found.select(*_OF_REQUEST, F.inline("found")).withColumnRenamed("at", "phase")
    else:
        # A short key: it is compared for each bucket of each request.
        rows = [column for at, each in enumerate(histograms) for column in (F.lit(at), each)]
        stacked = F.stack(F.lit(len(histograms)), *rows).alias("phase", "histogram")
        numbered = merged(timed.select(*of_request, stacked), _KEYS)
    return numbered.withColumn("phase", F.get(F.array(*map(F.lit, PHASES)), F.col("phase")))


def merged(histograms: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the histograms in `histogram`, added up by `keys`: the `count` of each bucket with the upper
    edge `us`. A sum beyond 64 bits is null.
    """
    rows = histograms.select(*keys, F.explode("histogram").alias("us", "count"))
    return rows.where(F.col("count").isNotNull()).groupBy(*keys, "us").agg(F.try_sum("count").alias("count"))


def quantiles(histograms: DataFrame, keys: Sequence[str], *more: Column) -> DataFrame:
    """Return the quantiles of `merged` histograms by `keys`, and `timed`, their counts. `more` are columns
    that depend on the keys.

    A quantile is the upper edge of its bucket: never too small, and less than an eighth too large.
    """
    whole = Window.partitionBy(*keys)
    so_far = whole.orderBy("us").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    ranked = histograms.select(
        "*",
        F.try_sum("count").over(so_far).alias("so_far"),
        F.try_sum("count").over(whole).alias("timed"),
    )
    return ranked.groupBy(*more, *keys).agg(
        F.first("timed").alias("timed"),
        *(
            F.min(F.when(F.col("so_far") >= q * F.col("timed"), F.col("us"))).alias(name)
            for name, q in QUANTILES.items()
        ),
        F.max("us").alias("max_us"),
    )

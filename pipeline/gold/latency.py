"""How long the phases of requests took, by minute and API: quantiles of merged histograms."""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from pipeline.formats import PHASES
from pipeline.gold.usage import MINUTE, minute_of
from pipeline.tables import DATE, Table

TABLE: Final = Table("gold/phase_quantiles_per_minute", (MINUTE, "node", "api", "phase"))

QUANTILES: Final = {"p50_us": 0.5, "p95_us": 0.95, "p99_us": 0.99}


def phase_quantiles_per_minute(requests: DataFrame) -> DataFrame:
    """Of silver.requests. A quantile is the upper edge of its bucket: never too small, and less than an
    eighth too large. Quantiles are of the requests that were timed and had that phase; `timed` says how
    many.
    """
    each_phase = F.array(
        *(F.struct(F.lit(name).alias("phase"), F.col(f"phases.{name}").alias("pairs")) for name in PHASES)
    )
    buckets = (
        requests.where(F.col("timed") > 0)
        .withColumn(MINUTE, minute_of())
        .select(MINUTE, "node", "api", F.explode(each_phase).alias("each"))
        .select(MINUTE, "node", "api", "each.phase", F.explode("each.pairs").alias("pair"))
        .groupBy(MINUTE, "node", "api", "phase", F.col("pair")[0].alias("us"))
        .agg(F.sum(F.col("pair")[1]).alias("count"))
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

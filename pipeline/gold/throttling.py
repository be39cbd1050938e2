"""Throttles by rule and client, per minute."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline.gold.usage import MINUTE, WHO, minute_of
from pipeline.tables import DATE, Table

TABLE: Final = Table("gold/throttling_per_minute", (MINUTE, "node", "kind", "rule", *WHO))


def rule_text(entity: Column) -> Column:
    """Return an entity as one comparable text: JSON with its types in order, null for a default."""
    ordered = F.map_from_entries(F.array_sort(F.map_entries(entity)))
    return F.to_json(ordered, {"ignoreNullFields": "false"})


def throttling_per_minute(throttles: DataFrame) -> DataFrame:
    """Aggregate silver.throttles. `throttle_ms` sums all connections, so it may exceed a minute."""
    return (
        throttles.withColumn(MINUTE, minute_of())
        .withColumn("rule", rule_text(F.col("entity")))
        .groupBy(F.to_date(MINUTE).alias(DATE), MINUTE, "node", "kind", "rule", *WHO)
        .agg(
            F.sum("count").alias("throttles"),
            F.sum("throttle_ms").alias("throttle_ms"),
            F.max("longest_ms").alias("longest_ms"),
            F.max("observed").alias("observed"),
            F.max_by("bound", F.struct("time", "partition", "offset")).alias("bound"),
            F.countDistinct("connection").alias("connections"),
        )
    )

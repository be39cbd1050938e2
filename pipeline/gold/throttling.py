"""Throttles by rule and client, per minute, and clients' compliance with throttle_time_ms, per day."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline.formats import ORIGIN
from pipeline.gold.clients import SOFTWARE
from pipeline.gold.usage import CLIENT
from pipeline.tables import CLUSTER, DATE, Table
from pipeline.times import MINUTE, minute_of, with_day

THROTTLING: Final = Table("gold/throttling_per_minute", (MINUTE, *ORIGIN, "kind", "rule", *CLIENT))
COMPLIANCE: Final = Table("gold/throttle_compliance_per_day", (DATE, CLUSTER, *CLIENT, *SOFTWARE))

MIN_THROTTLES: Final = 2
"""Minimum number of throttles with a known reaction for a verdict on a client."""

MOSTLY: Final = 0.5
HARDLY: Final = 0.125
"""Shares of throttles with early sending: from MOSTLY on a client does not obey, up to HARDLY it does.

The broker judges the last eight throttles of a connection by the same shares (docs/quotas.md).
"""


def rule_text(entity: Column) -> Column:
    """Return an entity as one comparable text: JSON with its types in order, null for a default."""
    ordered = F.map_from_entries(F.array_sort(F.map_entries(entity)))
    return F.to_json(ordered, {"ignoreNullFields": "false"})


def throttling_per_minute(throttles: DataFrame) -> DataFrame:
    """Aggregate silver.throttles. `throttle_ms` sums all connections, so it may exceed a minute."""
    found = (
        throttles.withColumn(MINUTE, minute_of())
        .withColumn("rule", rule_text(F.col("entity")))
        .groupBy(MINUTE, *ORIGIN, "kind", "rule", *CLIENT)
        .agg(
            F.try_sum("count").alias("throttles"),
            F.try_sum("throttle_ms").alias("throttle_ms"),
            F.max("longest_ms").alias("longest_ms"),
            F.max("observed").alias("observed"),
            F.max_by("bound", F.struct("time", "partition", "offset")).alias("bound"),
            F.countDistinct("connection").alias("connections"),
        )
    )
    return with_day(found)


def throttle_compliance_per_day(connections: DataFrame) -> DataFrame:
    """Return a row for each throttled client and its software, from `clients.THROTTLED_CONNECTIONS`.

    `obeys` is null if too few throttles were seen, or mixed ones.
    """
    found = connections.groupBy(DATE, CLUSTER, *CLIENT, *SOFTWARE).agg(
        F.countDistinct("node", "connection").alias("connections"),
        *(F.try_sum(name).alias(name) for name in ("throttles", "throttle_ms", "waited", "sent_early")),
    )
    seen = F.try_add("waited", "sent_early")
    share = F.when(seen > 0, F.col("sent_early") / seen)
    obeys = F.when((F.col("sent_early") >= MIN_THROTTLES) & (share >= MOSTLY), F.lit(False)).when(
        (seen >= MIN_THROTTLES) & (share <= HARDLY), F.lit(True)
    )
    return found.withColumn("early_share", share).withColumn("obeys", obeys)

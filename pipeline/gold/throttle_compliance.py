"""Who waits as `throttle_time_ms` tells, and who goes on sending, by day."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from pipeline.gold.usage import WHO
from pipeline.tables import DATE, Table

SOFTWARE: Final = ("software_name", "software_version")

TABLE: Final = Table("gold/throttle_compliance_per_day", (DATE, *WHO, *SOFTWARE))

LEAST: Final = 2
"""Throttles that must have shown one or the other, before anything is said of a client."""

MOSTLY: Final = 0.5
HARDLY: Final = 0.125
"""Who sent early in at least this share of them does not obey, and who did in at most that does, as the
broker judges the last eight of a connection (docs/quotas.md).
"""


def throttle_compliance_per_day(throttles: DataFrame) -> DataFrame:
    """Of silver.throttles: a row for each client that was held, by the software that it says it is. `obeys`
    is null where too little was seen, or of both kinds.
    """
    found = (
        throttles.withColumns({name: F.coalesce(name, F.lit("")) for name in SOFTWARE})
        .groupBy(DATE, *WHO, *SOFTWARE)
        .agg(
            F.countDistinct("node", "connection").alias("connections"),
            F.sum("count").alias("throttles"),
            F.sum("throttle_ms").alias("throttle_ms"),
            F.sum(F.coalesce("waited", F.lit(0))).alias("waited"),
            F.sum(F.coalesce("sent_early", F.lit(0))).alias("sent_early"),
        )
    )
    seen = F.col("waited") + F.col("sent_early")
    share = F.when(seen > 0, F.col("sent_early") / seen)
    obeys = F.when((F.col("sent_early") >= LEAST) & (share >= MOSTLY), F.lit(False)).when(
        (seen >= LEAST) & (share <= HARDLY), F.lit(True)
    )
    return found.withColumn("early_share", share).withColumn("obeys", obeys)

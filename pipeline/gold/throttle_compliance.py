"""Clients' compliance with throttle_time_ms, per day."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline.gold.usage import WHO
from pipeline.tables import DATE, Table

SOFTWARE: Final = ("software_name", "software_version")

TABLE: Final = Table("gold/throttle_compliance_per_day", (DATE, *WHO, *SOFTWARE))

LEAST: Final = 2
"""Minimum number of throttles with a known reaction for a verdict on a client."""

MOSTLY: Final = 0.5
HARDLY: Final = 0.125
"""Shares of throttles with early sending: from MOSTLY on a client does not obey, up to HARDLY it does.

The broker judges the last eight throttles of a connection by the same shares (docs/quotas.md).
"""


def throttle_compliance_per_day(throttles: DataFrame) -> DataFrame:
    """Return a row for each throttled client and its software, from silver.throttles.

    `obeys` is null if too few throttles were seen, or mixed ones.
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

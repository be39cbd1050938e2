"""What each client moved and cost, by minute."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from pipeline.tables import DATE, Table

MINUTE: Final = "minute"
WHO: Final = ("principal", "client_id")

TABLE: Final = Table("gold/usage_per_minute", (MINUTE, "node", *WHO))


def minute_of(time: str = "time") -> Column:
    """The minute that an event belongs to. An event's time is the end of the second that it covers."""
    return F.date_trunc("minute", F.col(time) - F.expr("INTERVAL 1 MILLISECOND"))


def usage_per_minute(requests: DataFrame) -> DataFrame:
    """Of silver.requests: bytes produced and fetched, requests, errors, waits asked for, and handler time.

    Requests that were answered by heart are nobody's, and those of clients beyond the broker's rows have no
    name.
    """
    named = requests.where(F.col("source") == "client").withColumn(MINUTE, minute_of())
    errors = F.aggregate(
        F.map_values("errors"), F.lit(0).cast("long"), lambda total, each: F.try_add(total, each)
    )
    # Nearly every row has none, and to find that out costs less than to add them up.
    errors = F.when(F.size("errors") > 0, errors)
    return named.groupBy(F.to_date(MINUTE).alias(DATE), MINUTE, "node", *WHO).agg(
        _sum("bytes_in", F.col("api") == "Produce").alias("produce_bytes"),
        _sum("bytes_out", F.col("api").startswith("Fetch")).alias("fetch_bytes"),
        F.sum("requests").alias("requests"),
        F.try_sum(F.coalesce(errors, F.lit(0))).alias("errors"),
        F.sum(F.coalesce("throttle_ms", F.lit(0))).alias("throttle_ms"),
        F.sum("handler_us").alias("handler_us"),
    )


def _sum(name: str, where: Column) -> Column:
    return F.sum(F.when(where, F.col(name)).otherwise(F.lit(0)))

"""Each client's traffic and cost, per minute."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline.tables import DATE, Table

MINUTE: Final = "minute"
WHO: Final = ("principal", "client_id")

TABLE: Final = Table("gold/usage_per_minute", (MINUTE, "node", *WHO))


def minute_of(time: str = "time") -> Column:
    """Return the minute of an event. An event's time is the end of the second that it covers."""
    return F.date_trunc("minute", F.col(time) - F.expr("INTERVAL 1 MILLISECOND"))


def usage_per_minute(requests: DataFrame) -> DataFrame:
    """Return bytes produced and fetched, requests, errors, throttle times and handler time, from
    silver.requests.

    Requests that the broker served from a request cache belong to no client; those of clients beyond the
    broker's rows have no name.
    """
    named = requests.where(F.col("source") == "client").withColumn(MINUTE, minute_of())
    errors = F.aggregate(
        F.map_values("errors"), F.lit(0).cast("long"), lambda total, each: F.try_add(total, each)
    )
    # Nearly every row has no errors, and this check costs less than summing them.
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

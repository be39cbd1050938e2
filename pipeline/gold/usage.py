"""Each client's traffic and cost per minute, and the heaviest clients of a day."""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline.formats import ORIGIN
from pipeline.tables import CLUSTER, DATE, Table
from pipeline.times import MINUTE, minute_of, with_day

CLIENT: Final = ("principal", "client_id")

USAGE: Final = Table("gold/usage_per_minute", (MINUTE, *ORIGIN, *CLIENT))
OFFENDERS: Final = Table("gold/top_offenders_per_day", (DATE, CLUSTER, "by", "rank"))

BY: Final = ("produce_bytes", "fetch_bytes", "requests", "throttle_ms", "errors")


def usage_per_minute(requests: DataFrame) -> DataFrame:
    """Return bytes produced and fetched, requests, errors, throttle times and handler time, from
    silver.requests.

    Requests that the broker served from a request cache belong to no client; those of clients beyond the
    broker's rows have no name.
    """
    named = requests.where(F.col("source") == "client").select(
        *(minute_of().alias(MINUTE), *ORIGIN, *CLIENT, "api", "bytes_in", "bytes_out", "requests"),
        *("throttle_ms", "handler_us", sum_of_errors().alias("errors")),
    )
    found = named.groupBy(MINUTE, *ORIGIN, *CLIENT).agg(
        _sum("bytes_in", F.col("api") == "Produce").alias("produce_bytes"),
        _sum("bytes_out", F.col("api").startswith("Fetch")).alias("fetch_bytes"),
        F.try_sum("requests").alias("requests"),
        F.try_sum(F.coalesce("errors", F.lit(0))).alias("errors"),
        F.try_sum(F.coalesce("throttle_ms", F.lit(0))).alias("throttle_ms"),
        F.try_sum("handler_us").alias("handler_us"),
    )
    return with_day(found)


def _sum(name: str, where: Column) -> Column:
    return F.try_sum(F.when(where, F.coalesce(name, F.lit(0))).otherwise(F.lit(0)))


def sum_of_errors() -> Column:
    """Return the sum of the counts in `errors`; null without any, or if it is beyond 64 bits.

    Spark interprets it, and with it all that is computed beside it: select it before rows are grouped.
    """
    counts = F.map_values("errors")
    total = F.aggregate(counts, F.lit(0).cast("long"), lambda total, each: F.try_add(total, each))
    # Nearly every row has no errors, and this check costs less than summing them.
    return F.when(F.size("errors") > 0, total)


def top_offenders_per_day(of_clients: DataFrame, max_rank: int = 10) -> DataFrame:
    """Return the clients in the first `max_rank` ranks of a cluster's day by each of `BY`, from
    `clients.REQUESTS_OF_CLIENTS`.

    Ties are ordered by name; a client with a total of 0 has no rank.
    """
    is_fetch = F.col("api").startswith("Fetch")
    days = of_clients.groupBy(DATE, CLUSTER, *CLIENT).agg(
        _sum("bytes_in", F.col("api") == "Produce").alias("produce_bytes"),
        _sum("bytes_out", is_fetch).alias("fetch_bytes"),
        *(F.try_sum(name).alias(name) for name in ("requests", "throttle_ms", "errors")),
    )
    totals = F.array(
        *(F.struct(F.lit(name).alias("by"), F.col(name).cast("long").alias("total")) for name in BY)
    )
    each = days.select(DATE, CLUSTER, *CLIENT, F.explode(totals).alias("each")).select(
        DATE, CLUSTER, *CLIENT, "each.by", "each.total"
    )
    order = Window.partitionBy(DATE, CLUSTER, "by").orderBy(F.desc("total"), *CLIENT)
    share = F.col("total") / F.try_sum("total").over(Window.partitionBy(DATE, CLUSTER, "by"))
    return (
        each.where(F.col("total") > 0)
        .withColumn("rank", F.row_number().over(order))
        .withColumn("share", share)
        .where(F.col("rank") <= max_rank)
    )

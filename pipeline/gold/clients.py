"""Outliers: the heaviest clients of a day, connection storms, client ids that several principals use."""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline.gold.usage import MINUTE, WHO, minute_of
from pipeline.tables import DATE, Table

OFFENDERS: Final = Table("gold/top_offenders_per_day", (DATE, "by", "rank"))
STORMS: Final = Table("gold/connection_storms", (MINUTE, "node", "listener", "address"))
SHARED_CLIENT_IDS: Final = Table("gold/shared_client_ids_per_day", (DATE, "client_id"))

STORM: Final = 60
"""Connections of one address per minute that make a storm: one a second."""

BY: Final = ("produce_bytes", "fetch_bytes", "requests", "throttle_ms", "errors")


def top_offenders_per_day(usage: DataFrame, most: int = 10) -> DataFrame:
    """Return the clients in the first `most` ranks of a day by each of `BY`, from gold.usage_per_minute.

    Ties are ordered by name; a client with a total of 0 has no rank.
    """
    days = usage.groupBy(DATE, *WHO).agg(*(F.sum(name).alias(name) for name in BY))
    totals = F.array(
        *(F.struct(F.lit(name).alias("by"), F.col(name).cast("long").alias("total")) for name in BY)
    )
    each = days.select(DATE, *WHO, F.explode(totals).alias("each")).select(
        DATE, *WHO, "each.by", "each.total"
    )
    order = Window.partitionBy(DATE, "by").orderBy(F.desc("total"), *WHO)
    share = F.col("total") / F.sum("total").over(Window.partitionBy(DATE, "by"))
    return (
        each.where(F.col("total") > 0)
        .withColumn("rank", F.row_number().over(order))
        .withColumn("share", share)
        .where(F.col("rank") <= most)
    )


def connection_storms(connections: DataFrame, least: int = STORM) -> DataFrame:
    """Return addresses with at least `least` connection attempts in a minute, refused or not, from
    silver.connections.
    """
    coming = F.col("event").isin("opened", "refused", "throttled")
    counts = [
        F.sum(F.when(F.col("event") == event, F.col("count")).otherwise(F.lit(0))).alias(event)
        for event in ("opened", "refused", "throttled")
    ]
    return (
        connections.where(coming)
        .withColumn(MINUTE, minute_of())
        .groupBy(F.to_date(MINUTE).alias(DATE), MINUTE, "node", "listener", "address")
        .agg(*counts)
        .withColumn("attempts", F.col("opened") + F.col("refused"))
        .where(F.col("attempts") >= least)
    )


def shared_client_ids_per_day(connections: DataFrame) -> DataFrame:
    """Return client ids used by more than one principal or address, from silver.connections.

    Clients choose their client id, so a client can evade a quota on the id alone.
    """
    named = connections.where((F.col("event") == "closed") & (F.col("client_id") != ""))
    found = named.groupBy(DATE, "client_id").agg(
        F.array_sort(F.collect_set("principal")).alias("principals"),
        F.array_sort(F.collect_set("address")).alias("addresses"),
        F.sum("count").alias("connections"),
    )
    return found.where((F.size("principals") > 1) | (F.size("addresses") > 1)).withColumn(
        "is_shared_by_principals", F.size("principals") > 1
    )

"""Connection storms, and client ids that several principals or addresses use."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline.formats import ORIGIN
from pipeline.tables import CLUSTER, DATE, Table
from pipeline.times import MINUTE, minute_of, with_day

STORMS: Final = Table("gold/connection_storms", (MINUTE, *ORIGIN, "listener", "address"))
SHARED_CLIENT_IDS: Final = Table("gold/shared_client_ids_per_day", (DATE, CLUSTER, "client_id"))

STORM: Final = 60
"""Connections of one address per minute that make a storm: one a second."""


def connection_storms(connections: DataFrame, min_attempts: int = STORM) -> DataFrame:
    """Return addresses with at least `min_attempts` connection attempts in a minute, refused or not, from
    silver.connections.
    """
    coming = F.col("event").isin("opened", "refused", "throttled")
    counts = [
        F.try_sum(F.when(F.col("event") == event, F.col("count")).otherwise(F.lit(0))).alias(event)
        for event in ("opened", "refused", "throttled")
    ]
    found = (
        connections.where(coming)
        .withColumn(MINUTE, minute_of())
        .groupBy(MINUTE, *ORIGIN, "listener", "address")
        .agg(*counts)
        .withColumn("attempts", F.try_add("opened", "refused"))
        # A sum beyond 64 bits is null.
        .where(F.coalesce(F.col("attempts") >= min_attempts, F.lit(True)))
    )
    return with_day(found)


def shared_client_ids_per_day(of_clients: DataFrame) -> DataFrame:
    """Return client ids used by more than one principal or address, from `clients.CONNECTIONS_OF_CLIENTS`.

    Clients choose their client id, so a client can evade a quota on the id alone.
    """
    named = of_clients.where(F.col("client_id") != "")
    found = named.groupBy(DATE, CLUSTER, "client_id").agg(
        F.array_sort(F.collect_set("principal")).alias("principals"),
        F.array_sort(F.collect_set("address")).alias("addresses"),
        F.try_sum("connections").alias("connections"),
    )
    return found.where((F.size("principals") > 1) | (F.size("addresses") > 1)).withColumn(
        "is_shared_by_principals", F.size("principals") > 1
    )

"""Durations of requests by client software and version, per day.

Request events do not name the software of their client. Other events of the client do: its connections when
they close, its throttles, and the metrics that it pushes. A client, a principal with a client id, has the
software that such events named on the newest day, within a week, on which they named any.
"""

from collections.abc import Iterable
from datetime import date, timedelta
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline.gold.clients import (
    CONNECTIONS_OF_CLIENTS,
    PUSHING_CLIENTS,
    REQUESTS_OF_CLIENTS,
    SOFTWARE,
    THROTTLED_CONNECTIONS,
)
from pipeline.gold.latency import COUNTS, EDGES, added_up, quantiles
from pipeline.gold.usage import CLIENT
from pipeline.tables import CLUSTER, DATE, Table, Warehouse

TABLE: Final = Table("gold/latency_by_software_per_day", (DATE, CLUSTER, *SOFTWARE, "attribution", "api"))

ONE: Final = "one"
SEVERAL: Final = "several"
UNKNOWN: Final = "unknown"
"""Values of `attribution`: the software versions that a client had."""

LOOK_BACK: Final = timedelta(days=7)
"""A connection names its software when it closes; so the software of an open one may have to come from an
earlier one.
"""

_WHO: Final = (CLUSTER, *CLIENT)

_KEYS: Final = (DATE, CLUSTER, *SOFTWARE, "attribution", "api")


def latency_by_software_per_day(of_clients: DataFrame, named: Iterable[DataFrame], day: date) -> DataFrame:
    """Return histograms and quantiles of whole requests, from `clients.REQUESTS_OF_CLIENTS` of one day;
    `clients` had such requests.

    `named` are rows that name a client's software, with their dates. Rows of `several` have the name if all
    versions share it, else "", and no version.
    """
    timed = of_clients.where(F.size(EDGES) > 0)
    known = timed.alias("of").join(
        client_software(named, day).alias("by"),
        [F.col(f"of.{name}").eqNullSafe(F.col(f"by.{name}")) for name in _WHO],
        "left",
    )
    attributed = known.select(
        F.lit(day).alias(DATE),
        *(F.col(f"of.{name}") for name in (*_WHO, "api", EDGES, COUNTS)),
        *(F.coalesce(F.col(f"by.{name}"), F.lit("")).alias(name) for name in SOFTWARE),
        F.coalesce("by.attribution", F.lit(UNKNOWN)).alias("attribution"),
    )
    clients = attributed.groupBy(*_KEYS).agg(F.countDistinct(*CLIENT).alias("clients"))
    found = added_up(attributed, _KEYS, ()).alias("found")
    # A null cluster has to match itself.
    is_same = [F.col(f"found.{name}").eqNullSafe(F.col(f"clients.{name}")) for name in _KEYS]
    both = found.join(clients.alias("clients"), is_same).select("found.*", "clients.clients")
    return both.select(*_KEYS, *quantiles(), "clients", EDGES, COUNTS)


def client_software(named: Iterable[DataFrame], day: date) -> DataFrame:
    """Return each client's `software_name`, `software_version` and `attribution` on the day."""
    frames = [
        frame.where(_is_near(day) & (F.coalesce("software_name", F.lit("")) != ""))
        .select(
            DATE, *_WHO, "software_name", F.coalesce("software_version", F.lit("")).alias("software_version")
        )
        .distinct()
        for frame in named
    ]
    if not frames:
        raise ValueError("named is empty, expected at least one frame")
    per_day = (
        reduce(DataFrame.unionByName, frames)
        .groupBy(DATE, *_WHO)
        .agg(F.array_sort(F.collect_set(F.struct(*SOFTWARE))).alias("versions"))
    )
    newest = per_day.groupBy(*_WHO).agg(F.max_by("versions", DATE).alias("versions"))
    is_one = F.size("versions") == 1
    names = F.array_distinct("versions.software_name")
    return newest.select(
        *_WHO,
        F.when(F.size(names) == 1, F.get(names, 0)).otherwise(F.lit("")).alias("software_name"),
        F.when(is_one, F.get("versions", 0)["software_version"])
        .otherwise(F.lit(""))
        .alias("software_version"),
        F.when(is_one, F.lit(ONE)).otherwise(F.lit(SEVERAL)).alias("attribution"),
    )


def _is_near(day: date) -> Column:
    return F.col(DATE).between(F.lit(day - LOOK_BACK), F.lit(day))


def make_day(warehouse: Warehouse, day: str) -> None:
    """Recompute the table for one day, if there are requests and rows that name software."""
    sources = (CONNECTIONS_OF_CLIENTS, THROTTLED_CONNECTIONS, PUSHING_CLIENTS)
    named = [warehouse.read(table) for table in sources if warehouse.exists(table)]
    if not named or not warehouse.exists(REQUESTS_OF_CLIENTS):
        return
    on_the_day = f"{DATE} = DATE '{day}'"
    requests = warehouse.read(REQUESTS_OF_CLIENTS).where(on_the_day)
    rows = latency_by_software_per_day(requests, named, date.fromisoformat(day))
    warehouse.replace(TABLE, rows, on_the_day)

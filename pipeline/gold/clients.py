"""What each client did on a day, as sums: the tables that the other tables of a day are made of.

Each is brought forward by the rows that silver has newly got (`pipeline.forward`), so that a day's cost does
not grow with what the day already has.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline import silver
from pipeline.formats import BUCKET_COUNTS, BUCKETS, CONNECTIONS, REQUESTS, THROTTLES
from pipeline.forward import Forward
from pipeline.gold.latency import COUNTS, EDGES, added_up
from pipeline.gold.usage import CLIENT, sum_of_errors
from pipeline.histograms import edge_of, is_of, with_buckets
from pipeline.otlp import tables as otlp
from pipeline.tables import CLUSTER, DATE, Table

SOFTWARE: Final = ("software_name", "software_version")

_WHO: Final = (DATE, CLUSTER, *CLIENT)

REQUESTS_OF_CLIENTS: Final = Table("gold/client_requests_per_day", (*_WHO, "api"))
CONNECTIONS_OF_CLIENTS: Final = Table("gold/client_connections_per_day", (*_WHO, "address", *SOFTWARE))
THROTTLED_CONNECTIONS: Final = Table(
    "gold/throttled_connections_per_day", (*_WHO, *SOFTWARE, "node", "connection")
)
PUSHING_CLIENTS: Final = Table("gold/pushing_clients_per_day", (*_WHO, "client_instance_id", *SOFTWARE))

_REQUEST_SUMS: Final = (
    *("requests", "bytes_in", "bytes_out", "errors", "throttle_ms", "handler_us", "timed"),
)
_THROTTLE_SUMS: Final = ("throttles", "throttle_ms", "waited", "sent_early")


def of_requests(requests: DataFrame) -> DataFrame:
    """Return rows of `REQUESTS_OF_CLIENTS` from silver.requests: one for each bucket of the whole requests of
    an event, the first of which has the event's numbers.
    """
    named = with_buckets(requests.where(F.col("source") == "client"))
    # Spark compiles this, and interprets what filters an array.
    each = named.select(
        *_WHO,
        "api",
        "requests",
        *(_or_0(name) for name in ("bytes_in", "bytes_out")),
        F.coalesce(sum_of_errors(), F.lit(0)).alias("errors"),
        *(_or_0(name) for name in ("throttle_ms", "handler_us", "timed")),
        BUCKET_COUNTS,
        F.posexplode_outer(BUCKETS).alias("at", "bucket"),
    )
    is_first = F.coalesce(F.col("at"), F.lit(0)) == 0
    has_bucket = (F.col("timed") > 0) & F.coalesce(is_of(F.col("bucket"), "total"), F.lit(False))
    bucket = (edge_of(F.col("bucket")), F.get(BUCKET_COUNTS, F.col("at")))
    return each.where(is_first | has_bucket).select(
        *_WHO,
        "api",
        *(F.when(is_first, F.col(name)).alias(name) for name in _REQUEST_SUMS),
        *(
            F.when(has_bucket, F.array(number)).alias(name)
            for name, number in zip((EDGES, COUNTS), bucket, strict=True)
        ),
    )


def of_connections(connections: DataFrame) -> DataFrame:
    """Return rows of `CONNECTIONS_OF_CLIENTS` from silver.connections, one for each event of closed ones."""
    closed = connections.where(F.col("event") == "closed")
    return closed.select(*_WHO, "address", *_software(), F.col("count").alias("connections"))


def of_throttles(throttles: DataFrame) -> DataFrame:
    """Return rows of `THROTTLED_CONNECTIONS` from silver.throttles, one an event."""
    return throttles.select(
        *_WHO,
        *_software(),
        "node",
        "connection",
        F.col("count").alias("throttles"),
        "throttle_ms",
        *(_or_0(name) for name in ("waited", "sent_early")),
    )


def of_pushes(points: DataFrame) -> DataFrame:
    """Return rows of `PUSHING_CLIENTS` from one of silver's otel_metrics tables, one a point."""
    return points.select(*_WHO, "client_instance_id", *_software(), F.lit(1).cast("long").alias("points"))


def _sums(keys: Sequence[str], names: Sequence[str], rows: DataFrame) -> DataFrame:
    return rows.groupBy(*keys).agg(*(F.try_sum(name).alias(name) for name in names))


def _software() -> list[Column]:
    return [F.coalesce(name, F.lit("")).alias(name) for name in SOFTWARE]


def _or_0(name: str) -> Column:
    return F.coalesce(name, F.lit(0)).alias(name)


def _forward(table: Table, *names: str) -> partial[DataFrame]:
    return partial(_sums, table.keys, names)


REQUEST_SUMS: Final = Forward(
    REQUESTS_OF_CLIENTS,
    {silver.TABLES[REQUESTS]: of_requests},
    partial(added_up, keys=REQUESTS_OF_CLIENTS.keys, sums=_REQUEST_SUMS),
)

ALL: Final = (
    REQUEST_SUMS,
    Forward(
        CONNECTIONS_OF_CLIENTS,
        {silver.TABLES[CONNECTIONS]: of_connections},
        _forward(CONNECTIONS_OF_CLIENTS, "connections"),
    ),
    Forward(
        THROTTLED_CONNECTIONS,
        {silver.TABLES[THROTTLES]: of_throttles},
        _forward(THROTTLED_CONNECTIONS, *_THROTTLE_SUMS),
    ),
    Forward(
        PUSHING_CLIENTS,
        dict.fromkeys(otlp.TABLES.values(), of_pushes),
        _forward(PUSHING_CLIENTS, "points"),
    ),
)
"""The tables of this module, with what each is made of."""

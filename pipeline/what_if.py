"""Simulates the recorded load under a proposed quota file, on Spark's executors.

Called by `command`. The broker's own quota code (broker.simulation) decides on throttling, so the result is
what the broker would have done, and what `weir simulate` reports of the same records. Each set of clients
that share a limit is a group of rows that one task simulates. The driver has a row for each client, and no
events.
"""

from array import array
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from broker.common.strict_yaml import BadFileError
from broker.quotas.kinds import QuotaKind
from broker.simulation.engine import MAX_EVENTS, TooManyEventsError
from broker.simulation.parts import RecordedClient, joined, parts_of, simulate_part
from broker.simulation.scenario import APIS, CLIENT, SECOND_US, ClientLoad, Limit
from broker.simulation.summary import SimulationSummary, Totals
from pipeline.formats import NODE
from pipeline.silver import PLACE, UNNAMED
from pipeline.tables import CLUSTER, DATE

_CLIENT: Final = ("kind", "principal", "client_id")
_PLACE: Final = ("time_ms", *PLACE[1:])
"""The order of a client's records."""

_TOTALS: Final = Totals.__struct_fields__
_FOUND: Final = pa.schema(
    [
        ("number", pa.int64()),
        *((name, pa.int64()) for name in _TOTALS),
        ("events", pa.int64()),
        ("too_many", pa.string()),
    ]
)
"""The totals of a client; the first one also has the `events` of its group, or why it was not simulated."""


class _Clients(NamedTuple):
    """The clients of a load in their order, the time of its first record, and its duration."""

    clients: list[RecordedClient]
    first_ms: int
    duration_us: int


def clusters_of(requests: DataFrame, first: str, last: str, node: int) -> list[str]:
    """Return the clusters whose broker of that id recorded requests on those days; some have no id."""
    found = requests.where(_on_days(first, last) & (F.col(NODE) == node)).select(CLUSTER).distinct()
    return sorted(row[CLUSTER] for row in found.collect() if row[CLUSTER] is not None)


def recorded(requests: DataFrame, first: str, last: str, node: int, cluster: str | None = None) -> DataFrame:
    """Return the clients' seconds at one broker, from silver.requests.

    Covers the UTC days from `first` to `last`, both included; with a `cluster`, only that one. Requests that
    are not simulated have neither a `kind` nor bytes.
    """
    is_wanted = _on_days(first, last) & (F.col(NODE) == node) & (F.col("source") == CLIENT)
    if cluster is not None:
        is_wanted &= F.col(CLUSTER) == cluster
    kind, nbytes = F.lit(None).cast("string"), F.lit(None).cast("long")
    for api, (of_api, counted) in APIS.items():
        kind = F.when(F.col("api") == api, of_api.value).otherwise(kind)
        nbytes = F.when(F.col("api") == api, F.col(counted)).otherwise(nbytes)
    return requests.where(is_wanted).select(
        kind.alias("kind"),
        # Rows that an earlier version wrote may have no name.
        *(F.coalesce(name, F.lit(unnamed)).alias(name) for name, unnamed in UNNAMED.items()),
        F.unix_millis("time").alias("time_ms"),
        *PLACE[1:],
        "requests",
        nbytes.alias("nbytes"),
    )


def _on_days(first: str, last: str) -> Column:
    return F.col(DATE).between(F.lit(first).cast(DATE), F.lit(last).cast(DATE))


def simulate(
    load: DataFrame, limits: tuple[Limit, ...], max_events: int = MAX_EVENTS
) -> SimulationSummary | None:
    """Simulate the load of `recorded`; None if there is none.

    `max_events` is for each set of clients that share a limit. Raises BadFileError for records without
    bytes, and TooManyEventsError.
    """
    found = _clients_of(load)
    if found is None:
        return None
    clients, first_ms, duration_us = found
    placed = parts_of(clients, limits)
    totals, events = [Totals(connections=1)] * len(clients), 0
    if clients:
        parts = (place.part for place in placed)
        groups = _with_parts(load, clients, parts).groupBy("part")
        run = _simulation(clients, limits, first_ms, duration_us, max_events)
        for row in groups.applyInArrow(run, _ddl()).collect():
            if row["too_many"] is not None:
                raise TooManyEventsError(row["too_many"])
            totals[row["number"]] = Totals(*(row[name] for name in _TOTALS))
            events += row["events"]
    return joined(clients, placed, totals, limits, duration_us, events)


def _clients_of(load: DataFrame) -> _Clients | None:
    """Return the clients in the order of their first records; None if the load has no records."""
    is_simulated = F.col("kind").isNotNull() & (F.col("requests") > 0)
    is_incomplete = F.col("kind").isNotNull() & F.col("nbytes").isNull()
    # All requests that are not simulated are one group: only their times count.
    names = (F.when(F.col("kind").isNotNull(), F.col(name)).alias(name) for name in _CLIENT)
    rows = (
        load.groupBy(*names)
        .agg(
            F.min("time_ms").alias("first_ms"),
            F.max(F.when(is_simulated, F.col("time_ms"))).alias("last_ms"),
            F.min(F.when(is_simulated, F.struct(*_PLACE))).alias("place"),
            F.count_if(is_incomplete).alias("incomplete"),
        )
        .collect()
    )
    if not rows:
        return None
    incomplete = sum(row["incomplete"] for row in rows)
    if incomplete:
        raise BadFileError(f"{incomplete:,} recorded seconds have no bytes")
    first_ms = min(row["first_ms"] for row in rows)
    simulated = sorted((row for row in rows if row["place"] is not None), key=lambda row: row["place"])
    last_second = max(((row["last_ms"] - first_ms) // 1_000 for row in simulated), default=0)
    clients = [
        RecordedClient(row["principal"], row["client_id"], QuotaKind(row["kind"])) for row in simulated
    ]
    return _Clients(clients, first_ms, (last_second + 1) * SECOND_US)


def _with_parts(load: DataFrame, clients: list[RecordedClient], parts: Iterable[int]) -> DataFrame:
    """Return the simulated rows with the numbers of their client and of its part, distributed by part."""
    spark: SparkSession = load.sparkSession
    rows = [
        (client.kind.value, client.user, client.client_id, number, part)
        for number, (client, part) in enumerate(zip(clients, parts, strict=True))
    ]
    schema = "kind string, principal string, client_id string, number long, part long"
    numbers = spark.createDataFrame(rows, schema)
    # A number of partitions, because Spark would put what is small into one, and simulating is slow.
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    return (
        load.where(F.col("requests") > 0)
        .join(F.broadcast(numbers), list(_CLIENT))
        .select("part", "number", *_PLACE, "requests", "nbytes")
        .repartition(partitions, "part")
    )


def _ddl() -> str:
    return ", ".join(f"{field.name} {'string' if field.type == pa.string() else 'long'}" for field in _FOUND)


def _simulation(
    clients: list[RecordedClient],
    limits: tuple[Limit, ...],
    first_ms: int,
    duration_us: int,
    max_events: int,
) -> Any:
    """Return the function that simulates a part: from a table of its rows to one of its clients' totals."""

    def simulate_rows(rows: pa.Table) -> pa.Table:
        columns = {name: rows[name].to_numpy() for name in rows.column_names}
        order = np.lexsort([columns[name] for name in (*reversed(_PLACE), "number")])
        numbers = columns["number"][order]
        seconds = (columns["time_ms"][order] - first_ms) // 1_000
        requests, nbytes = columns["requests"][order], columns["nbytes"][order]
        different, starts = np.unique(numbers, return_index=True)
        records = []
        for number, start, end in zip(different, starts, [*starts[1:], len(numbers)], strict=True):
            client = clients[number]
            series = (
                _array(code, column[start:end])
                for code, column in (("L", seconds), ("L", requests), ("Q", nbytes))
            )
            records.append(ClientLoad(client.user, client.client_id, client.kind, *series))
        try:
            totals, events = simulate_part(records, limits, duration_us, max_events)
        except TooManyEventsError as error:
            return pa.Table.from_pylist([{"number": 0, "too_many": str(error)}], _FOUND)
        found = [
            {"number": number, "events": 0, **{name: getattr(each, name) for name in _TOTALS}}
            for number, each in zip(different.tolist(), totals, strict=True)
        ]
        found[0]["events"] = events
        return pa.Table.from_pylist(found, _FOUND)

    return simulate_rows


def _array(code: str, numbers: np.ndarray) -> "array[int]":
    made = array(code)
    made.frombytes(numbers.astype(f"u{made.itemsize}").tobytes())
    return made

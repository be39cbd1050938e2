"""The steps of maintenance: each is one commit to one table, may be repeated, and may run beside a stream.

For `schedule` and `command`. A step that another writer overtakes raises one of `conflicts.CONFLICTS` and
changes nothing; writers of the stream repeat their own write.

A table is clustered by Z-order within each day, not by liquid clustering: with a day as a partition,
retention and `replaceWhere` take whole files out of the log, and liquid clustering allows no partitions.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Final

from delta.tables import DeltaTable
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline import loss, silver
from pipeline.days import DUE
from pipeline.failures import ERRORS, FAILED
from pipeline.formats import CONNECTIONS, REQUESTS, THROTTLES
from pipeline.gold import (
    advice,
    client_metrics,
    clients,
    connections,
    latency,
    limits,
    seconds,
    software,
    throttling,
    usage,
)
from pipeline.ledger import LEDGER
from pipeline.listing import SUMS
from pipeline.otlp import tables as otlp
from pipeline.otlp.totals import LAST_TOTALS
from pipeline.run import ADDED
from pipeline.sources import EVENTS
from pipeline.tables import DATE, Table, Warehouse

ALL: Final = (
    EVENTS,
    loss.POSITIONS,
    loss.LOST,
    *silver.TABLES.values(),
    silver.SNAPSHOTS,
    *otlp.TABLES.values(),
    silver.QUARANTINE,
    usage.USAGE,
    seconds.SECONDS,
    latency.TABLE,
    *(forward.table for forward in clients.ALL),
    software.TABLE,
    throttling.THROTTLING,
    client_metrics.TABLE,
    limits.UTILISATION,
    usage.OFFENDERS,
    connections.STORMS,
    connections.SHARED_CLIENT_IDS,
    throttling.COMPLIANCE,
    advice.TABLE,
)

STATE: Final = (LEDGER, DUE, ADDED, LAST_TOTALS, FAILED)
"""Tables about the warehouse itself, which are not for readers."""

CLIENT: Final = ("principal", "client_id")

ENTITIES: Final = {
    silver.TABLES[REQUESTS]: CLIENT,
    silver.TABLES[THROTTLES]: CLIENT,
    silver.TABLES[CONNECTIONS]: CLIENT,
    **dict.fromkeys(otlp.TABLES.values(), ("client_instance_id", "MetricName")),
    usage.USAGE: CLIENT,
    seconds.SECONDS: CLIENT,
    throttling.THROTTLING: CLIENT,
    client_metrics.TABLE: ("client_id", "metric"),
    limits.UTILISATION: ("rule",),
}
"""The columns by which a table is clustered: those by which people select its rows, besides the day."""

STATISTICS: Final = "delta.dataSkippingStatsColumns"

LAST_VERSIONS: Final = 20
"""Versions in which `is_clustered` looks for the step of a killed process."""

MIN_HOURS: Final = 168
"""Delta's minimum: a reader or writer may still use files that are older than its last version."""


@dataclass(frozen=True, slots=True)
class Description:
    """A table's size. `written` is the UTC time of the last version."""

    table: Table
    rows: int
    files: int
    nbytes: int
    written: str


def table_descriptions(warehouse: Warehouse) -> Iterator[Description]:
    """Describe the existing tables."""
    for table in ALL:
        if warehouse.exists(table):
            detail = _delta(warehouse, table).detail()
            detail_row = detail.selectExpr(
                "numFiles", "sizeInBytes", "string(lastModified) AS written"
            ).first()
            assert detail_row is not None
            rows = warehouse.read(table).count()
            yield Description(
                table, rows, detail_row["numFiles"], detail_row["sizeInBytes"], detail_row["written"][:19]
            )


def quarantined(warehouse: Warehouse) -> Iterator[tuple[str, str, int]]:
    """Count the quarantined records by topic and reason, the most frequent first."""
    if warehouse.exists(silver.QUARANTINE):
        counts = warehouse.read(silver.QUARANTINE).groupBy("topic", "reason").count()
        for row in counts.orderBy(F.desc("count"), "topic", "reason").collect():
            yield row["topic"], row["reason"], row["count"]


def beyond(warehouse: Warehouse) -> Iterator[tuple[str, str, int]]:
    """Yield the sums that some rows do not have because they are beyond 64 bits, with the number of rows."""
    for table in ALL:
        columns = SUMS.get(table.path, ())
        if columns and warehouse.exists(table):
            counts = (F.count_if(F.col(name).isNull()).alias(name) for name in columns)
            (found,) = warehouse.read(table).agg(*counts).collect()
            yield from ((table.name, name, found[name]) for name in columns if found[name])


def maintain(
    warehouse: Warehouse,
    keep_hours: int = MIN_HOURS,
    failed: Callable[[Table, Exception], None] | None = None,
) -> Iterator[tuple[Table, int, int]]:
    """Compact and vacuum each table; yield it with the numbers of compacted and of present files. `failed`
    gets the tables that fail; without it their error is raised.
    """
    for table in ALL:
        try:
            if not warehouse.exists(table):
                continue
            compacted = compact(warehouse, table)
            vacuum(warehouse, table, keep_hours)
            files = _delta(warehouse, table).detail().select("numFiles").first()
        except ERRORS as error:
            if failed is None:
                raise
            failed(table, error)
            continue
        assert files is not None
        yield table, compacted, files["numFiles"]


def compact(warehouse: Warehouse, table: Table) -> int:
    """Put small files together; return how many. Rows and their days stay as they are."""
    metrics = _delta(warehouse, table).optimize().executeCompaction().first()
    assert metrics is not None
    return int(metrics["metrics"]["numFilesRemoved"])


def cluster(warehouse: Warehouse, table: Table, first: date | None, last: date) -> None:
    """Write the days from `first` (None: the oldest) to `last` again, clustered by the table's entity."""
    _keep_statistics(warehouse, table)
    of_days = f"{DATE} <= DATE '{last}'" + (f" AND {DATE} >= DATE '{first}'" if first else "")
    _delta(warehouse, table).optimize().where(of_days).executeZOrderBy(*ENTITIES[table])


def is_clustered(warehouse: Warehouse, table: Table, last: date) -> bool:
    """Return whether one of the newest versions is `cluster` up to `last`, by a process killed afterwards."""
    found = _delta(warehouse, table).history(LAST_VERSIONS).where("operation = 'OPTIMIZE'")
    parameters = [row["operationParameters"] for row in found.select("operationParameters").collect()]
    return any(
        each.get("zOrderBy", "[]") != "[]" and str(last) in each.get("predicate", "") for each in parameters
    )


def remove_before(warehouse: Warehouse, table: Table, first: date) -> None:
    """Remove the days before `first` from the newest version. `vacuum` removes their files later."""
    _delta(warehouse, table).delete(F.col(DATE) < F.lit(first))


def vacuum(warehouse: Warehouse, table: Table, keep_hours: int = MIN_HOURS) -> None:
    """Remove files that no version of the last hours needs."""
    _delta(warehouse, table).vacuum(keep_hours)


def _keep_statistics(warehouse: Warehouse, table: Table) -> None:
    """Let the log keep the extremes of the entity in each file, without which no file can be skipped."""
    properties = _delta(warehouse, table).detail().select("properties").first()
    assert properties is not None
    listed = properties["properties"].get(STATISTICS)
    if listed is not None and not set(ENTITIES[table]) <= set(listed.split(",")):
        columns = ",".join(dict.fromkeys((*listed.split(","), *ENTITIES[table])))
        warehouse.spark.sql(
            f"ALTER TABLE delta.`{warehouse.path(table)}` SET TBLPROPERTIES ('{STATISTICS}' = '{columns}')"
        )


def _delta(warehouse: Warehouse, table: Table) -> DeltaTable:
    return DeltaTable.forPath(warehouse.spark, warehouse.path(table))

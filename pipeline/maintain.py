"""Compacts small files and removes files that no version within `keep_hours` needs.

For `command`; may run beside a stream.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from delta.tables import DeltaTable
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline import loss, silver
from pipeline.gold import advice, client_metrics, connections, latency, limits, software, throttling, usage
from pipeline.otlp import tables as otlp
from pipeline.sources import EVENTS
from pipeline.tables import Table, Warehouse

ALL: Final = (
    EVENTS,
    loss.POSITIONS,
    loss.LOST,
    *silver.TABLES.values(),
    silver.SNAPSHOTS,
    *otlp.TABLES.values(),
    silver.QUARANTINE,
    usage.USAGE,
    latency.TABLE,
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
            detail = DeltaTable.forPath(warehouse.spark, warehouse.path(table)).detail()
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


def maintain(warehouse: Warehouse, keep_hours: int = MIN_HOURS) -> Iterator[tuple[Table, int, int]]:
    """Maintain each table; yield it with the numbers of compacted and of present files."""
    for table in ALL:
        if warehouse.exists(table):
            delta = DeltaTable.forPath(warehouse.spark, warehouse.path(table))
            metrics = delta.optimize().executeCompaction().first()
            delta.vacuum(keep_hours)
            files = delta.detail().select("numFiles").first()
            assert metrics is not None and files is not None
            yield table, metrics["metrics"]["numFilesRemoved"], files["numFiles"]

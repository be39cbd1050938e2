"""Keeps the tables fast and the warehouse small: small files become large ones, and files go that no version
within `keep_hours` needs. May run beside a stream.
"""

from collections.abc import Iterator
from typing import Final

from delta.tables import DeltaTable

from pipeline import bronze, silver
from pipeline.gold import advice, latency, limits, people, throttling, usage
from pipeline.tables import Table, Warehouse

ALL: Final = (
    bronze.EVENTS,
    *silver.TABLES.values(),
    silver.QUARANTINE,
    usage.TABLE,
    latency.TABLE,
    throttling.TABLE,
    limits.UTILISATION,
    people.OFFENDERS,
    people.STORMS,
    people.BORROWED,
    advice.TABLE,
)

LEAST_HOURS: Final = 168
"""Delta's own: a reader or writer may still be at work on what is older than its last version."""


def maintain(warehouse: Warehouse, keep_hours: int = LEAST_HOURS) -> Iterator[tuple[Table, int, int]]:
    """Each table as it is done, with how many files were put together and how many there are now."""
    for table in ALL:
        if warehouse.exists(table):
            delta = DeltaTable.forPath(warehouse.spark, warehouse.path(table))
            metrics = delta.optimize().executeCompaction().first()
            delta.vacuum(keep_hours)
            files = delta.detail().select("numFiles").first()
            assert metrics is not None and files is not None
            yield table, metrics["metrics"]["numFilesRemoved"], files["numFiles"]

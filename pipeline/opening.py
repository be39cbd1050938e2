"""Checks that every table of a warehouse can be read and written, before anything is written to one.

For `command`. A batch writes a dozen tables; one whose log is damaged, or that a newer version of Delta
wrote, would otherwise end it after some of them.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Final

from delta.tables import DeltaTable
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from pipeline.errors import first_line
from pipeline.maintain import ALL, STATE
from pipeline.tables import Table, Warehouse

OWN_READER: Final = 1
OWN_WRITER: Final = 4
"""Delta's protocol of the tables that the pipeline makes; every Delta that it runs with can write them."""

AT_ONCE: Final = 4
"""Reading a log is mostly waiting for the disk or the object store."""


class UnusableTableError(Exception):
    """A table that cannot be used, with the reason in a line."""


def check_tables(warehouse: Warehouse, *, is_written: bool) -> None:
    """Raises UnusableTableError for the first table in the order of `ALL` and `STATE` that cannot be read
    or, if `is_written`, not be written. Writes nothing.
    """

    def check(table: Table) -> None:
        try:
            if not warehouse.exists(table):
                return
            delta = DeltaTable.forPath(warehouse.spark, warehouse.path(table))
            # The whole log is read, which a batch needs anyway.
            (found,) = delta.detail().select("minReaderVersion", "minWriterVersion").collect()
            if is_written and not (found[0] <= OWN_READER and found[1] <= OWN_WRITER):
                # Deletes nothing; but only a table that this Delta can write gets so far.
                delta.delete("false")
        except (PySparkException, Py4JError) as error:
            raise UnusableTableError(
                f"the table {table.name} in {warehouse.root} cannot be used, and nothing was written: "
                f"its log is damaged, a newer Delta wrote it, or its store refuses it ({first_line(error)})"
            ) from error

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in pool.map(check, (*ALL, *STATE)):
            pass

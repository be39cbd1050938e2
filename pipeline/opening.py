"""Checks that every table of a warehouse can be read and written, before anything is written to one.

For `command`. Without some tables nothing can be done; a batch goes on without the others (`failures`), and
who runs it is told at once which these are.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Final

from delta.tables import DeltaTable
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from pipeline.errors import first_line
from pipeline.maintain import ALL, STATE
from pipeline.otlp.totals import LAST_TOTALS
from pipeline.sources import EVENTS
from pipeline.tables import Table, Warehouse

OWN_READER: Final = 1
OWN_WRITER: Final = 4
"""Delta's protocol of the tables that the pipeline makes; every Delta that it runs with can write them."""

NEEDED: Final = {EVENTS, *STATE} - {LAST_TOTALS}
"""Tables without which no batch can be processed."""

AT_ONCE: Final = 4
"""Reading a log is mostly waiting for the disk or the object store."""


class UnusableTableError(Exception):
    """A table that cannot be used, with the reason in a line."""


def check_tables(warehouse: Warehouse, *, is_written: bool) -> list[str]:
    """Return a line for each table that a batch goes on without, if `is_written`: one that cannot be read or
    written. Raises UnusableTableError for the first one of `NEEDED`, or that a reader cannot read. Writes
    nothing.
    """

    def check(table: Table) -> str | None:
        try:
            if not warehouse.exists(table):
                return None
            delta = DeltaTable.forPath(warehouse.spark, warehouse.path(table))
            # The whole log is read, which a batch needs anyway.
            (found,) = delta.detail().select("minReaderVersion", "minWriterVersion").collect()
            if is_written and not (found[0] <= OWN_READER and found[1] <= OWN_WRITER):
                # Deletes nothing; but only a table that this Delta can write gets so far.
                delta.delete("false")
        except (PySparkException, Py4JError) as error:
            may_fail = is_written and table not in NEEDED
            line = (
                f"the table {table.name} in {warehouse.root} cannot be used"
                f"{'' if may_fail else ', and nothing was written'}: "
                f"its log is damaged, a newer Delta wrote it, or its store refuses it ({first_line(error)})"
            )
            if not may_fail:
                raise UnusableTableError(line) from error
            return line
        return None

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [line for line in pool.map(check, (*ALL, *STATE)) if line is not None]

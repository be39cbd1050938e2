"""Where the tables lie, and how they are written so that a step may be repeated.

A warehouse is a folder of any Hadoop file system, with a Delta table in each of its folders. Three ways of
writing that are safe to repeat after a kill at any point: `append_once` marks a transaction with the number
of its batch, `add` knows rows by their keys, and `replace` makes a stretch of time anew.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Table:
    """`path` within the warehouse; `keys` tell its rows apart."""

    path: str
    keys: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.path.replace("/", ".")


Write = Callable[[Table, DataFrame, str], None]
"""Brings rows into a table; the text tells apart what one batch writes to the same one."""

DATE: Final = "date"
"""What every table is partitioned by: the UTC day of the event."""


class Warehouse:
    """`root` is a path or a URL."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.spark = spark
        self.root = root.rstrip("/")

    def path(self, table: Table) -> str:
        return f"{self.root}/{table.path}"

    def exists(self, table: Table) -> bool:
        return bool(DeltaTable.isDeltaTable(self.spark, self.path(table)))

    def read(self, table: Table) -> DataFrame:
        """Raises AnalysisException where the table has never been written."""
        return self.spark.read.format("delta").load(self.path(table))

    def history(self, table: Table) -> DataFrame:
        """A row for each version: when, and by which operation."""
        return DeltaTable.forPath(self.spark, self.path(table)).history()

    def has(self, path: str) -> bool:
        """Whether there is a file or folder of this name in the warehouse."""
        files, here = self._file(path)
        return bool(files.exists(here))

    def note(self, path: str) -> None:
        """Leaves an empty file of this name, which outlives this process."""
        files, here = self._file(path)
        files.create(here, True).close()

    def noted(self, folder: str) -> list[str]:
        """The names of what was noted in a folder, in order."""
        files, here = self._file(folder)
        found = files.listStatus(here) if files.exists(here) else ()
        return sorted(str(each.getPath().getName()) for each in found)

    def forget(self, path: str) -> None:
        """Takes a note away."""
        files, here = self._file(path)
        files.delete(here, False)

    def _file(self, path: str) -> tuple[Any, Any]:
        """The file system, and the path as it wants it."""
        jvm: Any = self.spark.sparkContext._jvm
        here = jvm.org.apache.hadoop.fs.Path(f"{self.root}/{path}")
        return here.getFileSystem(self.spark.sparkContext._jsc.hadoopConfiguration()), here

    def append_once(self, table: Table, rows: DataFrame, writer: str, batch: int) -> None:
        """Appends, unless `writer` has appended this batch or a later one already."""
        (
            rows.write.format("delta")
            .mode("append")
            .partitionBy(DATE)
            .option("mergeSchema", "true")
            .option("txnAppId", f"{writer}:{table.path}")
            .option("txnVersion", batch)
            .save(self.path(table))
        )

    def add(self, table: Table, rows: DataFrame) -> None:
        """Adds those rows whose keys are not there yet; of rows with one key the first that comes."""
        rows = rows.dropDuplicates(list(table.keys))
        if not self.exists(table):
            rows.limit(0).write.format("delta").partitionBy(DATE).mode("ignore").save(self.path(table))
        known = DeltaTable.forPath(self.spark, self.path(table)).alias("known")
        known.merge(rows.alias("new"), _same(table.keys)).whenNotMatchedInsertAll().execute()

    def replace(self, table: Table, rows: DataFrame, where: str) -> None:
        """Puts `rows` in the place of all that are `where`; they must be so too."""
        writer = rows.write.format("delta").partitionBy(DATE).option("mergeSchema", "true")
        if self.exists(table):
            writer.mode("overwrite").option("replaceWhere", where).save(self.path(table))
        else:
            writer.mode("append").save(self.path(table))


def _same(keys: Sequence[str]) -> str:
    return " AND ".join(f"known.`{key}` = new.`{key}`" for key in (DATE, *keys))

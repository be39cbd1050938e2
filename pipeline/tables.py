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
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it


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

ADDED: Final = "added"
"""What a version says of itself that no stream has appended."""


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
        files, here = self._file(path)
        files.delete(here, False)

    def _file(self, path: str) -> tuple[Any, Any]:
        """The file system, and the path as it wants it."""
        jvm: Any = self.spark.sparkContext._jvm
        here = jvm.org.apache.hadoop.fs.Path(f"{self.root}/{path}")
        return here.getFileSystem(self.spark.sparkContext._jsc.hadoopConfiguration()), here

    def append_once(self, table: Table, rows: DataFrame, writer: str, batch: int) -> None:
        """Appends, unless `writer` has appended this batch or a later one already."""
        self._append(table, rows, txnAppId=f"{writer}:{table.path}", txnVersion=batch)

    def add(self, table: Table, rows: DataFrame, where: str) -> None:
        """Adds those rows whose keys are not there yet. No two may have the same; `where` is what could be
        there of them, and costs little where nothing is.
        """
        if self.exists(table) and not self.read(table).where(where).isEmpty():
            known = DeltaTable.forPath(self.spark, self.path(table)).alias("known")
            known.merge(rows.alias("new"), _same(table.keys)).whenNotMatchedInsertAll().execute()
        else:
            self._append(table, rows, userMetadata=ADDED)

    def is_only_appended(self, table: Table) -> bool:
        """Whether nothing has come into it by `add`."""
        versions = DeltaTable.forPath(self.spark, self.path(table)).history()
        is_added = (F.col("operation") == "MERGE") | (F.col("userMetadata") == ADDED)
        return bool(versions.where(is_added).isEmpty())

    def replace(self, table: Table, rows: DataFrame, where: str) -> None:
        """Puts `rows` in the place of all that are `where`; they must be so too."""
        writer = rows.write.format("delta").partitionBy(DATE).option("mergeSchema", "true")
        if self.exists(table):
            writer.mode("overwrite").option("replaceWhere", where).save(self.path(table))
        else:
            writer.mode("append").save(self.path(table))

    def _append(self, table: Table, rows: DataFrame, **options: object) -> None:
        writer = rows.write.format("delta").mode("append").partitionBy(DATE).option("mergeSchema", "true")
        writer.options(**options).save(self.path(table))


def _same(keys: Sequence[str]) -> str:
    return " AND ".join(f"known.`{key}` = new.`{key}`" for key in (DATE, *keys))

"""Where the tables lie, and how they are written so that a step may be repeated.

A warehouse is a folder of any Hadoop file system, with a Delta table in each of its folders. Three ways of
writing that are safe to repeat after a kill at any point: `append_once` marks a transaction with the number
of its batch, `add` knows rows by their keys, and `replace` makes a stretch of time anew.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql.types import StructType

from pipeline.commits import Commit, File, file_of, parsed, with_batch

DATE: Final = "date"
"""What every table is partitioned by: the UTC day of the event."""


@dataclass(frozen=True, slots=True)
class Table:
    """`path` within the warehouse; `keys` tell its rows apart; those of equal `partitions` lie together. By
    `time` files are passed over: of such a table the log keeps the extremes of that column and of no other.
    """

    path: str
    keys: tuple[str, ...]
    partitions: tuple[str, ...] = (DATE,)
    time: str | None = None

    @property
    def name(self) -> str:
        return self.path.replace("/", ".")


Write = Callable[[Table, DataFrame, str], Commit | None]
"""Brings rows into a table, and says what came if it knows; the text tells apart what one batch writes to the
same table.
"""


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

    def move(self, old_path: str, table: Table) -> None:
        """Rename the folder of a table that was written under an older name. Nothing happens when there is no
        such folder, or when the table exists.
        """
        files, old = self._file(old_path)
        _, new = self._file(table.path)
        if files.exists(old) and not files.exists(new):
            files.rename(old, new)

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
        here = self._jvm.org.apache.hadoop.fs.Path(f"{self.root}/{path}")
        return here.getFileSystem(self.spark.sparkContext._jsc.hadoopConfiguration()), here

    @property
    def _jvm(self) -> Any:
        return self.spark.sparkContext._jvm

    def append_once(self, table: Table, rows: DataFrame, writer: str, batch: int) -> None:
        """Appends, unless `writer` has appended this batch or a later one already."""
        (
            _writer(rows, table)
            .mode("append")
            .option("mergeSchema", "true")
            .option("txnAppId", _app(table, writer))
            .option("txnVersion", batch)
            .save(self.path(table))
        )

    def appended(self, table: Table, writer: str, batch: int) -> Commit | None:
        """What `append_once` brought, now or when the batch came for the first time; None where the log of
        that time is gone (Delta keeps a month).
        """
        newest_first = (self._log(table, version) for version in range(self.version(table), -1, -1))
        return with_batch(takewhile(bool, newest_first), _app(table, writer), batch)

    def version(self, table: Table) -> int:
        """The newest; -1 where the table has never been written."""
        delta, nothing = self._jvm.org.apache.spark.sql.delta.DeltaLog, self._jvm.scala.Option.empty()
        log = delta.forTable(self.spark._jsparkSession, self.path(table))
        return int(log.update(False, nothing, nothing).version())

    def added_since(self, table: Table, version: int) -> Iterator[tuple[int, Commit]]:
        """What `add` brought after that version, the oldest first."""
        for later in range(version + 1, self.version(table) + 1):
            commit = parsed(self._log(table, later))
            if commit.is_added:
                yield later, commit

    def _log(self, table: Table, version: int) -> str:
        """One version; empty if it is not there any more. Asked for by number: a month of batches is too much
        to list.
        """
        files, here = self._file(f"{table.path}/_delta_log/{file_of(version)}")
        if not files.exists(here):
            return ""
        stream = files.open(here)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def read_files(self, table: Table, files: Sequence[File], schema: StructType) -> DataFrame:
        """Rows of those files alone, whatever became of the table since."""
        reader = self.spark.read.schema(schema).option("basePath", self.path(table))
        return reader.parquet(*(f"{self.path(table)}/{file.path}" for file in files))

    def add(self, table: Table, rows: DataFrame) -> None:
        """Adds those rows whose keys are not there yet; no two of them may have the same."""
        if not self.exists(table):
            _writer(rows, table).mode("append").save(self.path(table))
            return
        known = DeltaTable.forPath(self.spark, self.path(table)).alias("known")
        known.merge(rows.alias("new"), _same(table.keys)).whenNotMatchedInsertAll().execute()

    def replace(self, table: Table, rows: DataFrame, where: str) -> None:
        """Puts `rows` in the place of all that are `where`; they must be so too."""
        writer = _writer(rows, table).option("mergeSchema", "true")
        if self.exists(table):
            writer.mode("overwrite").option("replaceWhere", where).save(self.path(table))
        else:
            writer.mode("append").save(self.path(table))


def _writer(rows: DataFrame, table: Table) -> DataFrameWriter:
    writer = rows.write.format("delta").partitionBy(*table.partitions)
    return writer if table.time is None else writer.option("delta.dataSkippingStatsColumns", table.time)


def _app(table: Table, writer: str) -> str:
    return f"{writer}:{table.path}"


def _same(keys: Sequence[str]) -> str:
    return " AND ".join(f"known.`{key}` = new.`{key}`" for key in (DATE, *keys))

"""The tables' places, and writes that can be repeated.

A warehouse is a folder of any Hadoop file system with a Delta table in each of its folders. Three kinds of
write are safe to repeat after a kill at any point: `append_once` marks a transaction with its batch number,
`add` identifies rows by their keys, and `replace` overwrites a range of time.
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
"""The partition column of every table: the UTC day of the event."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table at `path` within the warehouse, with unique `keys`, partitioned by `partitions`.

    `time` is the column for data skipping: the log keeps the extremes of that column only.
    """

    path: str
    keys: tuple[str, ...]
    partitions: tuple[str, ...] = (DATE,)
    time: str | None = None

    @property
    def name(self) -> str:
        return self.path.replace("/", ".")


Write = Callable[[Table, DataFrame, str], Commit | None]
"""Writes rows into a table and returns the commit if known.

The text distinguishes several writes of one batch to the same table.
"""


class Warehouse:
    """The tables under `root`, a path or a URL."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.spark = spark
        self.root = root.rstrip("/")

    def path(self, table: Table) -> str:
        return f"{self.root}/{table.path}"

    def exists(self, table: Table) -> bool:
        return bool(DeltaTable.isDeltaTable(self.spark, self.path(table)))

    def read(self, table: Table) -> DataFrame:
        """Read a table. Raises AnalysisException if it was never written."""
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
        """Return whether the warehouse has a file or folder of this name."""
        files, here = self._file(path)
        return bool(files.exists(here))

    def note(self, path: str) -> None:
        """Create an empty file of this name, which outlives this process."""
        files, here = self._file(path)
        files.create(here, True).close()

    def noted(self, folder: str) -> list[str]:
        """Return the sorted names of the notes in a folder."""
        files, here = self._file(folder)
        found = files.listStatus(here) if files.exists(here) else ()
        return sorted(str(each.getPath().getName()) for each in found)

    def forget(self, path: str) -> None:
        """Remove a note."""
        files, here = self._file(path)
        files.delete(here, False)

    def _file(self, path: str) -> tuple[Any, Any]:
        """Return the file system and its path object."""
        here = self._jvm.org.apache.hadoop.fs.Path(f"{self.root}/{path}")
        return here.getFileSystem(self.spark.sparkContext._jsc.hadoopConfiguration()), here

    @property
    def _jvm(self) -> Any:
        return self.spark.sparkContext._jvm

    def append_once(self, table: Table, rows: DataFrame, writer: str, batch: int) -> None:
        """Append rows, unless `writer` has already appended this batch or a later one."""
        (
            _writer(rows, table)
            .mode("append")
            .option("mergeSchema", "true")
            .option("txnAppId", _app(table, writer))
            .option("txnVersion", batch)
            .save(self.path(table))
        )

    def appended(self, table: Table, writer: str, batch: int) -> Commit | None:
        """Return the rows that `append_once` wrote, now or when the batch first arrived.

        None if the log of that time is deleted (Delta keeps a month).
        """
        newest_first = (self._log(table, version) for version in range(self.version(table), -1, -1))
        return with_batch(takewhile(bool, newest_first), _app(table, writer), batch)

    def version(self, table: Table) -> int:
        """Return the newest version; -1 if the table was never written."""
        delta, nothing = self._jvm.org.apache.spark.sql.delta.DeltaLog, self._jvm.scala.Option.empty()
        log = delta.forTable(self.spark._jsparkSession, self.path(table))
        return int(log.update(False, nothing, nothing).version())

    def added_since(self, table: Table, version: int) -> Iterator[tuple[int, Commit]]:
        """Yield what `add` wrote after that version, the oldest first."""
        for later in range(version + 1, self.version(table) + 1):
            commit = parsed(self._log(table, later))
            if commit.is_added:
                yield later, commit

    def _log(self, table: Table, version: int) -> str:
        """Return the log of one version, empty if it is deleted.

        Read by number: the log of a month of batches is too long to list.
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
        """Read only those files, independent of later changes of the table."""
        reader = self.spark.read.schema(schema).option("basePath", self.path(table))
        return reader.parquet(*(f"{self.path(table)}/{file.path}" for file in files))

    def add(self, table: Table, rows: DataFrame) -> None:
        """Add the rows whose keys are new; their keys must be unique."""
        if not self.exists(table):
            _writer(rows, table).mode("append").save(self.path(table))
            return
        known = DeltaTable.forPath(self.spark, self.path(table)).alias("known")
        known.merge(rows.alias("new"), _same(table.keys)).whenNotMatchedInsertAll().execute()

    def replace(self, table: Table, rows: DataFrame, where: str) -> None:
        """Replace all rows that satisfy `where` by `rows`, which must satisfy it too."""
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

"""The tables' places, and writes that can be repeated.

A warehouse is a folder of any Hadoop file system with a Delta table in each of its folders. Three kinds of
write are safe to repeat after a kill at any point: `append_once` marks a transaction with its batch number,
`add` identifies rows by their keys, and `replace` overwrites a range of time.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Final

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import StructType

from pipeline.commits import Commit, File, file_of, parsed, with_batch
from pipeline.conflicts import repeated
from pipeline.jvm import HadoopFiles, newest_version

DATE: Final = "date"
"""The partition column of every table: the UTC day of the event."""

CLUSTER: Final = "cluster"
"""The id of the cluster that an event comes from; null in rows of earlier versions."""


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
        self.files = HadoopFiles(spark, self.root)

    def path(self, table: Table) -> str:
        return f"{self.root}/{table.path}"

    def exists(self, table: Table) -> bool:
        return bool(DeltaTable.isDeltaTable(self.spark, self.path(table)))

    def read(self, table: Table) -> DataFrame:
        """Read a table, one of an earlier version with a null cluster. Raises AnalysisException if it was
        never written.
        """
        rows = self.spark.read.format("delta").load(self.path(table))
        if CLUSTER in table.keys and CLUSTER not in rows.columns:
            return rows.withColumn(CLUSTER, F.lit(None).cast("string"))
        return rows

    def move(self, old_path: str, table: Table) -> None:
        """Rename the folder of a table that was written under an older name. Nothing happens when there is no
        such folder, or when the table exists.
        """
        if self.files.exists(old_path) and not self.files.exists(table.path):
            self.files.rename(old_path, table.path)

    def append_once(self, table: Table, rows: DataFrame, writer: str, batch: int) -> None:
        """Append rows, unless `writer` has already appended this batch or a later one."""
        marked = (
            _writer(rows, table)
            .mode("append")
            .option("mergeSchema", "true")
            .option("txnAppId", _transaction_id(table, writer))
            .option("txnVersion", batch)
        )
        repeated(partial(marked.save, self.path(table)))

    def appended(self, table: Table, writer: str, batch: int) -> Commit | None:
        """Return the rows that `append_once` wrote, now or when the batch first arrived.

        None if the log of that time is deleted (Delta keeps a month).
        """
        versions = range(self.version(table), -1, -1)
        newest_first = takewhile(bool, (self._log(table, version) for version in versions))
        return with_batch(newest_first, _transaction_id(table, writer), batch)

    def version(self, table: Table) -> int:
        """Return the newest version; -1 if the table was never written."""
        return newest_version(self.spark, self.path(table))

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
        return self.files.read_text(f"{table.path}/_delta_log/{file_of(version)}") or ""

    def read_files(self, table: Table, files: Sequence[File], schema: StructType) -> DataFrame:
        """Read only those files, independent of later changes of the table."""
        reader = self.spark.read.schema(schema).option("basePath", self.path(table))
        return reader.parquet(*(f"{self.path(table)}/{file.path}" for file in files))

    def add(self, table: Table, rows: DataFrame) -> None:
        """Add the rows whose keys are new; their keys must be unique."""
        repeated(partial(self._add, table, rows))

    def _add(self, table: Table, rows: DataFrame) -> None:
        if not self.exists(table):
            _writer(rows, table).mode("append").save(self.path(table))
            return
        delta = DeltaTable.forPath(self.spark, self.path(table))
        if not set(rows.columns) <= set(delta.toDF().columns):
            # The condition below needs the new columns.
            _writer(rows.limit(0), table).mode("append").option("mergeSchema", "true").save(self.path(table))
            delta = DeltaTable.forPath(self.spark, self.path(table))
        known = delta.alias("known")
        known.merge(rows.alias("new"), _same_keys(table.keys)).whenNotMatchedInsertAll().execute()

    def replace(self, table: Table, rows: DataFrame, where: str) -> None:
        """Replace all rows that satisfy `where` by `rows`, which must satisfy it too."""
        repeated(partial(self._replace, table, rows, where))

    def _replace(self, table: Table, rows: DataFrame, where: str) -> None:
        writer = _writer(rows, table).option("mergeSchema", "true")
        if self.exists(table):
            writer.mode("overwrite").option("replaceWhere", where).save(self.path(table))
        else:
            writer.mode("append").save(self.path(table))

    def overwrite(self, table: Table, rows: DataFrame) -> None:
        """Replace all rows."""
        repeated(partial(_writer(rows, table).mode("overwrite").save, self.path(table)))


def _writer(rows: DataFrame, table: Table) -> DataFrameWriter:
    writer = rows.write.format("delta").partitionBy(*table.partitions)
    return writer if table.time is None else writer.option("delta.dataSkippingStatsColumns", table.time)


def _transaction_id(table: Table, writer: str) -> str:
    return f"{writer}:{table.path}"


def _same_keys(keys: Sequence[str]) -> str:
    same = {CLUSTER: "<=>"}
    return " AND ".join(f"known.`{key}` {same.get(key, '=')} new.`{key}`" for key in (DATE, *keys))

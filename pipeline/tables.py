"""The tables' places, and writes that can be repeated.

A warehouse is a folder of any Hadoop file system with a Delta table in each of its folders. Five kinds of
write are safe to repeat after a kill at any point: `append_once` marks a transaction with its batch number,
`add` and `merge` identify rows by their keys, `replace` overwrites a range of time, and `rewrite` a whole
table. `replace_once` says in the commit what its rows have taken in.

What one write has added is read by Delta's change data feed, by the version that the write created. So a
batch costs what is new, however many files the table has.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline.comments import commented
from pipeline.conflicts import OvertakenError, repeated

DATE: Final = "date"
"""The partition column of every table: the UTC day of the event."""

CLUSTER: Final = "cluster"
"""The id of the cluster that an event comes from; null in rows of earlier versions."""

LAST_VERSION: Final = "spark.databricks.delta.lastCommitVersionInSession"
"""Delta's setting with the version of the last commit in this session."""

NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})

CHANGE_FEED: Final = "delta.enableChangeDataFeed"
LAST_COMMITS: Final = 50
"""The newest commits in which a note is looked for: maintenance commits a few times an hour."""

_OF_CHANGES: Final = ("_change_type", "_commit_version", "_commit_timestamp")


@dataclass(frozen=True, slots=True)
class Table:
    """A table at `path` within the warehouse, with unique `keys`, partitioned by `partitions`.

    `time` is the column for data skipping, or several: the log keeps the extremes of these only.
    `has_changes`: Delta keeps the changes of each version, for `Warehouse.changes`.
    """

    path: str
    keys: tuple[str, ...]
    partitions: tuple[str, ...] = (DATE,)
    time: str | None = None
    has_changes: bool = False

    @property
    def name(self) -> str:
        return self.path.replace("/", ".")


Write = Callable[["Warehouse", Table, DataFrame, str], bool | None]
"""Appends rows of a batch to a table; returns False if they were appended before, and None if the table has
failed, which is noted.

The text distinguishes several writes of one batch to the same table.
"""


class Warehouse:
    """The tables under `root`, a path or a URL. For one thread at a time: see `beside`."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.spark = spark
        self.root = root.rstrip("/")
        self._existing: set[str] = set()

    def beside(self, settings: Mapping[str, str] = NO_SETTINGS) -> "Warehouse":
        """Return the warehouse for another thread, with a session of its own on the same Spark, and its
        settings.

        The version of the last commit is a setting of the session.
        """
        spark = self.spark.newSession()
        for key, value in settings.items():
            spark.conf.set(key, value)
        return type(self)(spark, self.root)

    def path(self, table: Table) -> str:
        return f"{self.root}/{table.path}"

    def exists(self, table: Table) -> bool:
        """Return whether a table was written. It is asked for until it was: no table is ever removed."""
        if table.path not in self._existing and DeltaTable.isDeltaTable(self.spark, self.path(table)):
            self._existing.add(table.path)
        return table.path in self._existing

    def read(self, table: Table, version: int | None = None) -> DataFrame:
        """Read the newest version of a table, or `version`; one of an earlier Weir with a null cluster.
        Raises AnalysisException if it was never written.
        """
        reader = self.spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        rows = reader.load(self.path(table))
        return self._with_cluster(table, rows)

    @staticmethod
    def _with_cluster(table: Table, rows: DataFrame) -> DataFrame:
        if CLUSTER in table.keys and CLUSTER not in rows.columns:
            return rows.withColumn(CLUSTER, F.lit(None).cast("string"))
        return rows

    def append_once(self, table: Table, rows: DataFrame, writer: str, batch: int) -> int | None:
        """Append rows, unless `writer` has already appended this batch or a later one. Return the version
        that has them, None if nothing was appended.
        """
        conf = rows.sparkSession.conf
        conf.unset(LAST_VERSION)
        marked = (
            self._writer(rows, table)
            .mode("append")
            .option("mergeSchema", "true")
            .option("txnAppId", f"{writer}:{table.path}")
            .option("txnVersion", batch)
            .option("userMetadata", _name_of(writer, batch))
        )
        repeated(partial(marked.save, self.path(table)))
        version = conf.get(LAST_VERSION, None)
        return None if version is None else int(version)

    def version_of(self, table: Table, writer: str, batch: int) -> int | None:
        """Return the version in which `append_once` appended a batch; None if the log of that time is
        deleted (Delta keeps a month).
        """
        is_its = F.col("userMetadata") == _name_of(writer, batch)
        found = self._delta(table).history().where(is_its).select("version").first()
        return None if found is None else int(found["version"])

    def newest_version(self, table: Table) -> int:
        """Return the newest version; -1 if the table was never written."""
        if not self.exists(table):
            return -1
        newest = self._delta(table).history(1).select("version").first()
        assert newest is not None
        return int(newest["version"])

    def added_since(self, table: Table, version: int) -> list[int]:
        """Return the versions after that one in which `add` has added rows, the oldest first."""
        if not self.exists(table):
            return []
        is_added = F.col("operation").isin("MERGE", "WRITE") & F.col("userMetadata").isNull()
        versions = self._delta(table).history().where((F.col("version") > version) & is_added)
        return sorted(int(row["version"]) for row in versions.select("version").collect())

    def changes(self, table: Table, first: int, last: int) -> DataFrame:
        """Return the rows that the versions from `first` to `last` have added to a table with
        `has_changes`.
        """
        feed = self.spark.read.format("delta").option("readChangeFeed", "true")
        of_versions = feed.option("startingVersion", first).option("endingVersion", last)
        added = of_versions.load(self.path(table)).where("_change_type = 'insert'").drop(*_OF_CHANGES)
        return self._with_cluster(table, added)

    def keep_changes(self, table: Table) -> None:
        """Let Delta keep the changes of a table that an earlier version of Weir made."""
        if not table.has_changes or not self.exists(table):
            return
        path = self.path(table)
        name = path if ":" in path else str(Path(path).absolute())
        named = f"delta.`{name.replace('`', '``')}`"
        (row,) = self.spark.sql(f"SHOW TBLPROPERTIES {named} ('{CHANGE_FEED}')").collect()
        if row["value"] != "true":
            self.spark.sql(f"ALTER TABLE {named} SET TBLPROPERTIES ('{CHANGE_FEED}' = 'true')")

    def add(self, table: Table, rows: DataFrame) -> None:
        """Add the rows whose keys are new; their keys must be unique."""
        repeated(partial(self._add, table, rows))

    def _add(self, table: Table, rows: DataFrame) -> None:
        if not self.exists(table):
            self._writer(rows, table).mode("append").save(self.path(table))
            return
        self._add_columns(table, rows)
        same = _same_keys((DATE, *table.keys))
        merged = self._delta(table).alias("known").merge(rows.alias("new"), same)
        merged.whenNotMatchedInsertAll().execute()

    def merge(self, table: Table, rows: DataFrame) -> None:
        """Update the rows of the same keys, and add the others. Two writers at once lose nothing: Delta
        refuses the later one.
        """
        if not self.exists(table):
            self._writer(rows, table).mode("append").save(self.path(table))
            return
        self._add_columns(table, rows)
        merged = self._delta(table).alias("known").merge(rows.alias("new"), _same_keys(table.keys))
        merged.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    def rewrite(self, table: Table, make: Callable[[DataFrame], DataFrame], schema: str) -> None:
        """Replace all rows of a small table by what `make` returns for them, in one file. Of a table that was
        never written there are no rows of `schema`. Two writers at once lose nothing: Delta reads the rows in
        the transaction that replaces them, and refuses the later one.
        """
        repeated(partial(self._rewrite, table, make, schema))

    def _rewrite(self, table: Table, make: Callable[[DataFrame], DataFrame], schema: str) -> None:
        none: list[tuple[Any, ...]] = []
        rows = self.read(table) if self.exists(table) else self.spark.createDataFrame(none, schema)
        self._writer(make(rows.coalesce(1)), table).mode("overwrite").save(self.path(table))

    def replace(self, table: Table, rows: DataFrame, where: str) -> None:
        """Replace all rows that satisfy `where` by `rows`, which must satisfy it too.

        Raises one of `CONFLICTS` if another process has written such rows; `rows` that were read from the
        warehouse must then be read again, so the caller repeats both.
        """
        writer = self._writer(rows, table).option("mergeSchema", "true")
        if self.exists(table):
            writer.mode("overwrite").option("replaceWhere", where).save(self.path(table))
        else:
            writer.mode("append").save(self.path(table))

    def replace_once(
        self, table: Table, rows: DataFrame, where: str, writer: str, number: int, note: str
    ) -> None:
        """Replace all rows that satisfy `where`, and leave a note in the commit. Raises one of `CONFLICTS` if
        `writer` has made a commit of this number or a later one: the rows and the note are of an old state.
        """
        conf = rows.sparkSession.conf
        conf.unset(LAST_VERSION)
        marked = (
            self._writer(rows, table)
            .option("mergeSchema", "true")
            .option("txnAppId", f"{writer}:{table.path}")
            .option("txnVersion", number)
            .option("userMetadata", note)
        )
        if self.exists(table):
            marked = marked.mode("overwrite").option("replaceWhere", where)
        else:
            marked = marked.mode("append")
        marked.save(self.path(table))
        if conf.get(LAST_VERSION, None) is None:
            raise OvertakenError(f"{writer} has already written number {number} of {table.name}")

    def newest_note(self, table: Table, writer: str) -> tuple[str, datetime] | None:
        """Return the newest note of `writer`, a JSON object that begins with its name, and when it was
        written; None if none of the newest commits has one.
        """
        if not self.exists(table):
            return None
        is_its = F.col("userMetadata").startswith(f'{{"{writer}":')
        written = F.unix_millis("timestamp").alias("written_ms")
        found = self._delta(table).history(LAST_COMMITS).where(is_its).select("userMetadata", written).first()
        if found is None:
            return None
        return found["userMetadata"], datetime.fromtimestamp(found["written_ms"] / 1000, UTC)

    def append(self, table: Table, rows: DataFrame) -> None:
        """Append rows; a repetition appends them again."""
        repeated(partial(self._writer(rows, table).mode("append").save, self.path(table)))

    def overwrite(self, table: Table, rows: DataFrame) -> None:
        """Replace all rows."""
        repeated(partial(self._writer(rows, table).mode("overwrite").save, self.path(table)))

    def delete(self, table: Table, where: str) -> None:
        """Delete the rows that satisfy a condition."""
        self._delta(table).delete(where)

    def _add_columns(self, table: Table, rows: DataFrame) -> None:
        """Add the columns that a table of an earlier version lacks: the condition of a merge needs them."""
        if not set(rows.columns) <= set(self._delta(table).toDF().columns):
            self._writer(rows.limit(0), table).mode("append").option("mergeSchema", "true").save(
                self.path(table)
            )

    def _delta(self, table: Table) -> DeltaTable:
        return DeltaTable.forPath(self.spark, self.path(table))

    def _writer(self, rows: DataFrame, table: Table) -> DataFrameWriter:
        return _writer(rows if self.exists(table) else commented(rows, table.path), table)


def _writer(rows: DataFrame, table: Table) -> DataFrameWriter:
    writer = rows.write.format("delta").partitionBy(*table.partitions)
    if table.has_changes:
        writer = writer.option(CHANGE_FEED, "true")
    return writer if table.time is None else writer.option("delta.dataSkippingStatsColumns", table.time)


def _name_of(writer: str, batch: int) -> str:
    return f"{writer} {batch}"


def _same_keys(keys: Sequence[str]) -> str:
    same = {CLUSTER: "<=>"}
    return " AND ".join(f"known.`{key}` {same.get(key, '=')} new.`{key}`" for key in keys)

"""Processes batches from the sources to gold.

A batch may be repeated after a kill at any point: its number identifies the rows that it has appended, and
gold is recomputed from silver for the minutes that the batch changed. So the tables equal those of an
undisturbed run, and late events change the minutes to which they belong. Rows that are added, not appended
under a batch number, use the version of bronze that they created as their number. A table that fails stops
neither the others nor the next batch, if somebody is told: see `failures`.

Records are requested once: later steps read what bronze's version has added. Several kinds of events are
processed at the same time, each in a session of its own. The number of rows and the changed minutes are
observed while silver is written; only a repeated batch, which writes nothing, counts them by itself.
"""

import os
from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline import loss, silver
from pipeline.conflicts import repeated
from pipeline.days import Days
from pipeline.failures import ERRORS, RECORDS_AGAIN, Failures, Version
from pipeline.formats import CONNECTIONS, QUOTA_CHANGES, REQUESTS, TELEMETRY, THROTTLES, TRANSACTIONS
from pipeline.gold import advice, client_metrics, connections, latency, seconds, throttling, usage
from pipeline.ledger import addable
from pipeline.minute_sizes import MinuteSizes
from pipeline.otlp import tables as pushes
from pipeline.session import runs_locally
from pipeline.sources import EVENTS, dated
from pipeline.tables import NO_SETTINGS, Table, Warehouse, Write
from pipeline.times import Minutes, changes_in, changes_of, minute_of
from pipeline.together import Step, Together
from pipeline.work import Work

STREAM: Final = "stream"
"""The name under which tables count the stream's batches."""

ADDED: Final = Table("_added_rows", ("version",), ())
"""The version of bronze up to which added rows are processed; no table if none were ever added. Only `run`
reads it.
"""

LOSS: Final = "loss"
"""The step beside the topics that counts what the source lost."""

UNKNOWN: Final = "unknown topics"

TOPICS: Final = (*silver.TABLES, TELEMETRY)
STEPS: Final = (*TOPICS, UNKNOWN, LOSS)

MAX_INTERPRETED: Final = 5_000
"""The most records of a step whose plans are interpreted. The times of its minutes are constants in them, so
that each batch would compile them again, which takes longer than to interpret so few records.
"""

MAX_OF_ONE_TASK: Final = 20_000
"""The most records of a step with one task in each stage."""

AT_ONCE: Final = max(2, os.cpu_count() or 1)
"""Steps that run at the same time. The driver plans them: more than it has cores end none of them sooner."""

RECORDS_OF_A_PUSH: Final = 50
"""As many records cost about as much as one push, with the 110 to 230 points of a client that pushes all of
its metrics: 40 such pushes took less time interpreted, 150 took less compiled.
"""

ONE_TASK: Final = {
    # A task costs more than its rows, and so does each file that a task writes.
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.files.minPartitionNum": "1",
}

UNCOMPILED: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}

INTERPRETED: Final = ONE_TASK | UNCOMPILED


@dataclass(frozen=True, slots=True)
class ByMinute:
    """A gold table whose rows depend on one minute of one silver table."""

    table: Table
    source: str
    make: Callable[[DataFrame], DataFrame]
    is_rare: bool = False
    """Most minutes have no row: to find that out costs less than to replace none by none."""


BY_MINUTE: Final = (
    ByMinute(usage.USAGE, REQUESTS, usage.usage_per_minute),
    ByMinute(latency.TABLE, REQUESTS, latency.phase_quantiles_per_minute),
    ByMinute(throttling.THROTTLING, THROTTLES, throttling.throttling_per_minute),
    ByMinute(connections.STORMS, CONNECTIONS, connections.connection_storms, is_rare=True),
)


SECONDS: Final = ByMinute(seconds.SECONDS, REQUESTS, seconds.usage_seconds)
"""Made by `days`. Of minutes that failed in an earlier version there are notes."""


class Pipeline:
    """Brings rows of `sources.RAW` into the tables of one warehouse.

    `days` notes the days that a batch has changed, `failures` what tables lack; `work` is told what it does.
    `rows` counts the records that were processed. Steps of up to `max_interpreted` records do not compile
    their plans, nor does gold for minutes of about so many.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        policy: advice.Policy = advice.Policy(),  # noqa: B008
        days: Days | None = None,
        max_interpreted: int = MAX_INTERPRETED,
        failures: Failures | None = None,
        work: Work | None = None,
    ) -> None:
        self.warehouse = warehouse
        self.max_interpreted = max_interpreted
        self.failures = Failures() if failures is None else failures
        self.days = Days(policy, failures=self.failures) if days is None else days
        self.work = Work() if work is None else work
        self.rows = 0
        self._is_local = runs_locally(warehouse.spark)
        self._together = Together(warehouse)
        self._positions: loss.Positions | None = None
        self._quarantine = Lock()
        self._failed = set[str]()
        self._sizes = {topic: MinuteSizes() for topic in silver.TABLES}
        self._empty: dict[str, set[int]] = {each.table.path: set() for each in BY_MINUTE if each.is_rare}
        warehouse.keep_changes(EVENTS)
        self.failures.load(warehouse)

    def take(self, raw: DataFrame, batch: int, writer: str = STREAM) -> None:
        """Process a batch of a stream; the same `batch` must have the same rows when repeated."""
        rows, seen, origin = dated(raw), Observation(), f"{writer}:all"
        counts = [F.count_if(F.col("topic") == topic).alias(topic) for topic in TOPICS]
        observed = rows.observe(seen, F.count("*").alias("all"), *counts)
        version = self.warehouse.append_once(EVENTS, observed, origin, batch)
        if version is not None:
            known = seen.get
            known[UNKNOWN] = known.pop("all") - sum(known.values())
            self._process(known, Version(writer, batch, version))
            return
        version = self.warehouse.version_of(EVENTS, origin, batch)
        if version is None:
            # The raw rows belong to the session of the batch, so nothing runs beside it.
            self._process_in_order(_by_topic(rows), rows, writer, batch)
        else:
            self._take_version(version, writer, batch)

    def add(self, raw: DataFrame) -> None:
        """Add rows of any source, each record once; skip existing ones."""
        warehouse = self.warehouse
        if was_added_up_to(warehouse) is None:
            self._note_added(warehouse.newest_version(EVENTS))
        self._take_added()
        warehouse.add(EVENTS, addable(warehouse, dated(raw)))
        self._take_added()

    def make_days(self) -> None:
        """Recompute the tables of whole days for the changed days, of any process."""
        self._take_added()
        self._catch_up()
        self.work.is_doing("Making the tables of whole days")
        self.days.make(self.warehouse)

    def _take_added(self) -> None:
        """Process rows that were added and not processed yet, by any process."""
        known = was_added_up_to(self.warehouse)
        if known is None:
            return
        for version in self.warehouse.added_since(EVENTS, known):
            self._take_version(version, "added", version)
            self._note_added(version)

    def _note_added(self, version: int) -> None:
        rows = self.warehouse.spark.createDataFrame([(version,)], "version bigint")
        self.warehouse.overwrite(ADDED, rows.coalesce(1))

    def _take_version(self, version: int, writer: str, batch: int) -> None:
        """Process rows that were written to bronze."""
        counts = _by_topic(self.warehouse.changes(EVENTS, version, version))
        self._process(counts, Version(writer, batch, version))

    def _steps(
        self, counts: dict[str, int], writer: str, batch: int, version: Version | None = None
    ) -> dict[str, Callable[..., None]]:
        """Return the steps of a batch; each takes its warehouse and the batch's records."""
        tag = _tag(writer, batch)

        def write(step: str) -> Write:
            return partial(self._append, step, writer, batch, version)

        steps: dict[str, Callable[..., None]] = {
            # The order in which they begin: users look at the rows of clients first.
            REQUESTS: partial(self._take_topic, REQUESTS, counts[REQUESTS], tag, write(REQUESTS)),
            TELEMETRY: partial(self._take_pushes, write(TELEMETRY)),
        }
        for topic in (THROTTLES, CONNECTIONS, QUOTA_CHANGES, TRANSACTIONS):
            steps[topic] = partial(self._take_topic, topic, counts[topic], tag, write(topic))
        steps[UNKNOWN] = partial(_take_unknown, write(UNKNOWN))
        # Without a version an error ends the step: the positions must not be ahead of the gaps.
        steps[LOSS] = partial(self._count_lost, partial(self._append, LOSS, writer, batch, None))
        return {name: step for name, step in steps.items() if name == LOSS or counts[name]}

    def _process(self, counts: dict[str, int], version: Version) -> None:
        """Run the steps at the same time."""
        self._catch_up()
        if not sum(counts.values()):
            return
        self.rows += sum(counts.values())
        self.work.begin(f"batch {version.batch}", counts)
        self._run_steps(counts, version, STEPS)
        self.work.end()

    def _run_steps(self, counts: dict[str, int], version: Version, names: Collection[str]) -> None:
        """Run those of the steps that have records; what fails is noted. Those of a small batch have bronze's
        rows in memory.
        """
        found = self._steps(counts, version.writer, version.batch, version)
        settings = {name: self._settings_for(_records_of(name, counts)) for name in found if name in names}
        is_small = all(each == INTERPRETED for each in settings.values())
        shared: dict[Warehouse, DataFrame] = {}

        def records_in(warehouse: Warehouse) -> DataFrame:
            if warehouse not in shared:
                rows = warehouse.changes(EVENTS, version.number, version.number)
                shared[warehouse] = rows.persist() if is_small else rows
            return shared[warehouse]

        def reading(name: str, step: Callable[..., None]) -> Step:
            def run(warehouse: Warehouse) -> None:
                if self.failures.is_blocked(name, name, version):
                    self._note_failed(warehouse, name, name, version, None)
                    return
                self.work.step_begins(name)
                try:
                    step(warehouse, records_in(warehouse))
                except ERRORS as error:
                    if name == LOSS:
                        self._positions = None
                    self._note_failed(warehouse, name, name, version, error)
                finally:
                    self.work.step_ends(name)

            return run

        steps = {name: reading(name, found[name]) for name in settings}
        tag = _tag(version.writer, version.batch)
        try:
            self._together.run(tag, steps, settings, AT_ONCE)
        finally:
            for rows in shared.values():
                rows.unpersist()

    def _catch_up(self) -> None:
        """Make what tables lack that failed before."""
        for step, version in self.failures.versions():
            lacking = self.failures.lacking(step, version)
            if all(self.failures.is_blocked(table, step, version) for table in lacking):
                continue
            self._failed.clear()
            try:
                counts = _by_topic(self.warehouse.changes(EVENTS, version.number, version.number))
            except ERRORS as error:
                self.failures.told(EVENTS.path, error, RECORDS_AGAIN)
                continue
            self._run_steps(counts, version, [step])
            self.failures.version_made(self.warehouse, lacking - self._failed, step, version)
        for each in (*BY_MINUTE, SECONDS):
            self.failures.make_again(self.warehouse, each.table, partial(self._make_again, each))
        again = partial(pushes.make_again, self.warehouse)
        self.failures.make_again(self.warehouse, client_metrics.TABLE, again)

    def _settings_for(self, records: int) -> Mapping[str, str]:
        if not self._is_local:
            # Of a cluster the driver has the settings of its size.
            return UNCOMPILED if records <= self.max_interpreted else NO_SETTINGS
        if records <= self.max_interpreted:
            return INTERPRETED
        return ONE_TASK if records <= MAX_OF_ONE_TASK else NO_SETTINGS

    def _append(
        self,
        step: str,
        writer: str,
        batch: int,
        version: Version | None,
        warehouse: Warehouse,
        table: Table,
        rows: DataFrame,
        part: str,
    ) -> bool | None:
        if version is not None and self.failures.is_blocked(table.path, step, version):
            self._note_failed(warehouse, table.path, step, version, None)
            return None
        try:
            # Delta refuses one of two writers that make or change a table at once; only this one has several.
            with self._quarantine if table is silver.QUARANTINE else nullcontext():
                return warehouse.append_once(table, rows, f"{writer}:{part}", batch) is not None
        except ERRORS as error:
            if version is None:
                raise
            self._note_failed(warehouse, table.path, step, version, error)
            return None

    def _note_failed(
        self, warehouse: Warehouse, table: str, step: str, version: Version, error: Exception | None
    ) -> None:
        self._failed.add(table)
        self.failures.note_version(warehouse, table, step, version, error)

    def _process_in_order(self, counts: dict[str, int], rows: DataFrame, writer: str, batch: int) -> None:
        if sum(counts.values()):
            self.rows += sum(counts.values())
            for step in self._steps(counts, writer, batch).values():
                step(self.warehouse, rows)

    def _count_lost(self, write: Write, warehouse: Warehouse, records: DataFrame) -> None:
        self._positions = loss.take(warehouse, records, write, self._positions)

    def _take_pushes(self, write: Write, warehouse: Warehouse, records: DataFrame) -> None:
        pushes.take(warehouse, records, write, self.failures)

    def _take_topic(
        self, topic: str, count: int, tag: str, write: Write, warehouse: Warehouse, records: DataFrame
    ) -> None:
        events = silver.parse_events(records, topic)
        valid = silver.valid_rows(events)
        rows_written, changed = 0, set[int]()
        parts = Observation()
        if topic == QUOTA_CHANGES:
            valid = valid.observe(parts, F.count("snapshot").alias("parts"))
        written: bool | None = None
        for table, rows in silver.by_table(topic, valid):
            # Snapshots are rare, and a commit without rows costs as much as one with rows.
            if table is silver.SNAPSHOTS and not (parts.get["parts"] if written else rows.count()):
                continue
            seen = Observation()
            written = write(warehouse, table, rows.observe(seen, *changes_of(minute_of())), topic)
            changes = seen.get if written else changes_in(rows, minute_of())
            rows_written += changes["rows"]
            if written is not None:
                changed.update(changes["minutes"])
        if rows_written < count:
            write(warehouse, silver.QUARANTINE, silver.quarantine_rows(events), topic)
        if minutes := Minutes.of(changed):
            made = {
                each.table.path: partial(self._make_minutes, each, minutes)
                for each in BY_MINUTE
                if each.source == topic
            }
            settings = self._settings_for(self._sizes[topic].after(changed, count))
            # The driver plans a small batch in most of its time: then usage, which users look at, is first.
            at_once = 1 if settings in (INTERPRETED, UNCOMPILED) else None
            self._together.run(tag, made, dict.fromkeys(made, settings), at_once)
        # Afterwards: the days may be made at any time from now on.
        self.days.note(warehouse, changed, until_midnight=topic == QUOTA_CHANGES)

    def _make_minutes(self, each: ByMinute, minutes: Minutes, warehouse: Warehouse) -> None:
        make = partial(_make_minutes, each, minutes, warehouse, self._empty.get(each.table.path))
        self.failures.make(warehouse, each.table, make, lambda: minutes)

    def _make_again(self, each: ByMinute, minutes: AbstractSet[int]) -> None:
        """Recompute minutes of a table that failed; all that silver has if it was removed."""
        if self.warehouse.exists(each.table):
            _make_minutes(each, Minutes.of(minutes), self.warehouse, self._empty.get(each.table.path))
        else:
            rows = each.make(self.warehouse.read(silver.TABLES[each.source]))
            self.warehouse.replace(each.table, rows, "true")
        self.days.note(self.warehouse, minutes)


def was_added_up_to(warehouse: Warehouse) -> int | None:
    """Return the version of bronze up to which added rows are processed; None if none were ever added."""
    if warehouse.exists(ADDED):
        (row,) = warehouse.read(ADDED).collect()
        return int(row["version"])
    return _noted_by_earlier_versions(warehouse)


def _noted_by_earlier_versions(warehouse: Warehouse) -> int | None:
    """Return the same from the file whose name earlier versions of Weir used as their note."""
    try:
        notes = warehouse.spark.read.format("binaryFile").load(f"{warehouse.root}/_added/*")
        paths = [row["path"] for row in notes.select("path").collect()]
        return max((int(path.rpartition("/")[2]) for path in paths), default=None)
    except AnalysisException:  # There is no such folder.
        return None


def _tag(writer: str, batch: int) -> str:
    """Return the tag of a batch's jobs."""
    return f"weir-{writer}-{batch}"


def _records_of(step: str, counts: dict[str, int]) -> int:
    """Return how many records a step has; a push counts as many."""
    if step == LOSS:
        return sum(counts.values())
    return counts[step] * (RECORDS_OF_A_PUSH if step == TELEMETRY else 1)


def _by_topic(rows: DataFrame) -> dict[str, int]:
    """Return the number of rows of each known topic, and that of the others as `UNKNOWN`."""
    counts = dict.fromkeys((*TOPICS, UNKNOWN), 0)
    for row in rows.groupBy("topic").count().collect():
        counts[row["topic"] if row["topic"] in TOPICS else UNKNOWN] += row["count"]
    return counts


def _make_minutes(
    each: ByMinute, minutes: Minutes, warehouse: Warehouse, empty: set[int] | None = None
) -> None:
    """Recompute the changed minutes of one gold table. `empty` are minutes of which a rare one was found to
    have no rows last time; the table is not asked for them again.
    """

    def make() -> None:
        events = warehouse.read(silver.TABLES[each.source]).where(minutes.of_events())
        rows = each.make(events)
        if empty is None or not rows.isEmpty():
            warehouse.replace(each.table, rows, minutes.of_rows())
            if empty is not None:
                empty.clear()
        elif not empty.issuperset(minutes):
            if not _has_none(warehouse, each.table, minutes):
                warehouse.replace(each.table, rows, minutes.of_rows())
            empty.clear()
            empty.update(minutes)

    repeated(make)


def _has_none(warehouse: Warehouse, table: Table, minutes: Minutes) -> bool:
    """Return whether a table that was written has no rows of the minutes."""
    return warehouse.exists(table) and warehouse.read(table).where(minutes.of_rows()).isEmpty()


def _take_unknown(write: Write, warehouse: Warehouse, records: DataFrame) -> None:
    strangers = records.where(~F.col("topic").isin(*TOPICS))
    write(warehouse, silver.QUARANTINE, silver.unknown_topics(strangers), "strangers")

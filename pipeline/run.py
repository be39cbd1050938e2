"""Processes batches from the sources to gold.

A batch may be repeated after a kill at any point: its number identifies the rows that it has appended, and
gold is recomputed from silver for the minutes that the batch touched. So the tables equal those of an
undisturbed run, and late events change the minutes to which they belong. Rows that are added, not appended
under a batch number, use the version of bronze that they created as their number.

Records are requested once: later steps read the files that bronze has written, kind by kind, and the number
of rows and their times come from Delta's log of each commit. Events are not kept in memory between steps
(points of pushes are: `otlp.tables`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline import loss, silver
from pipeline.commits import Commit
from pipeline.formats import CONNECTIONS, QUOTA_CHANGES, REQUESTS, TELEMETRY, THROTTLES
from pipeline.gold import advice, connections, latency, limits, software, throttling, usage
from pipeline.ledger import addable
from pipeline.otlp import tables as pushes
from pipeline.sources import EVENTS, EVENTS_SCHEMA, dated
from pipeline.tables import CLUSTER, DATE, Table, Warehouse, Write
from pipeline.times import MINUTE, Touched, from_to, in_minutes, minute_of, near, touched

STREAM: Final = "stream"
"""The name under which tables count the stream's batches."""

DUE: Final = "_due"
"""The folder of notes for days that were touched and not yet recomputed."""

ADDED: Final = "_added"
"""The folder of the version of bronze up to which added rows are processed; empty if none were ever added.
"""


@dataclass(frozen=True, slots=True)
class ByMinute:
    """A gold table whose rows depend on one minute of one silver table."""

    table: Table
    source: str
    make: Callable[[DataFrame], DataFrame]


BY_MINUTE: Final = (
    ByMinute(usage.USAGE, REQUESTS, usage.usage_per_minute),
    ByMinute(latency.TABLE, REQUESTS, latency.phase_quantiles_per_minute),
    ByMinute(throttling.THROTTLING, THROTTLES, throttling.throttling_per_minute),
    ByMinute(connections.STORMS, CONNECTIONS, connections.connection_storms),
)


RENAMED: Final = {
    "gold/borrowed_names_per_day": connections.SHARED_CLIENT_IDS,
    "gold/obedience_per_day": throttling.COMPLIANCE,
}
"""Tables by the paths that earlier versions wrote."""


class Pipeline:
    """Brings rows of `sources.RAW` into the tables of one warehouse."""

    def __init__(self, warehouse: Warehouse, policy: advice.Policy = advice.Policy()) -> None:  # noqa: B008
        self.warehouse = warehouse
        self.policy = policy
        self.rows = 0
        for old_path, table in RENAMED.items():
            warehouse.move(old_path, table)

    def take(self, raw: DataFrame, batch: int, writer: str = STREAM) -> None:
        """Process a batch of a stream; the same `batch` must have the same rows when repeated."""

        write, raw = self._appending(writer, batch), dated(raw)
        commit = write(EVENTS, raw, "all")
        if commit is None:
            self._process(_by_topic(raw), lambda *topics: raw.where(F.col("topic").isin(*topics)), write)
        else:
            self._take_commit(commit, write)

    def add(self, raw: DataFrame) -> None:
        """Add rows of any source, each record once; skip existing ones."""
        warehouse = self.warehouse
        if not warehouse.files.names(ADDED):
            warehouse.files.create(f"{ADDED}/{warehouse.version(EVENTS)}")
        self._take_added()
        warehouse.add(EVENTS, addable(warehouse, dated(raw)))
        self._take_added()

    def _take_added(self) -> None:
        """Process rows that were added and not processed yet, by any process."""
        noted = self.warehouse.files.names(ADDED)
        if not noted:
            return
        for version, commit in self.warehouse.added_since(EVENTS, max(map(int, noted))):
            self._take_commit(commit, self._appending("added", version))
            self.warehouse.files.create(f"{ADDED}/{version}")
            for older in noted:
                self.warehouse.files.delete(f"{ADDED}/{older}")
            noted = [str(version)]

    def _appending(self, writer: str, batch: int) -> Write:
        def append(table: Table, rows: DataFrame, part: str) -> Commit | None:
            self.warehouse.append_once(table, rows, f"{writer}:{part}", batch)
            return self.warehouse.appended(table, f"{writer}:{part}", batch)

        return append

    def _take_commit(self, commit: Commit, write: Write) -> None:
        """Process rows that were written to bronze."""

        def records(*topics: str) -> DataFrame:
            return self.warehouse.read_files(EVENTS, commit.of("topic", topics), EVENTS_SCHEMA)

        self._process(commit.rows_by("topic"), records, write)

    def _process(self, counts: dict[str, int], records: Callable[..., DataFrame], write: Write) -> None:
        self.rows += sum(counts.values())
        if counts:
            loss.take(self.warehouse, records(*counts), write)
        for topic in sorted(counts.keys() & silver.TABLES.keys()):
            self._take_topic(topic, counts[topic], records(topic), write)
        if TELEMETRY in counts:
            pushes.take(self.warehouse, records(TELEMETRY), write)
        if unknown_topics := counts.keys() - {*silver.TABLES, TELEMETRY}:
            write(silver.QUARANTINE, silver.unknown_topics(records(*unknown_topics)), "strangers")

    def _take_topic(self, topic: str, count: int, records: DataFrame, write: Write) -> None:
        events = silver.parse_events(records, topic)
        valid = silver.valid_rows(events)
        rows_written, ranges = 0, []
        for table, rows in silver.by_table(topic, valid):
            commit = write(table, rows, topic)
            if commit is None:
                written, minutes = touched(rows, minute_of())
            else:
                written, minutes = commit.rows, Touched.by_times(commit.edges("time"))
            rows_written += written
            ranges += [] if minutes is None else [minutes]
        if rows_written < count:
            write(silver.QUARANTINE, silver.quarantine_rows(events), topic)
        for minutes in ranges:
            for day in sorted(minutes.days):
                self.warehouse.files.create(f"{DUE}/{day}")
            self._make_minutes(topic, minutes.first, minutes.last)

    def _make_minutes(self, topic: str, first: str, last: str) -> None:
        """Recompute the gold tables of one topic for the minutes from `first` to `last`, both included."""
        dates = from_to(DATE, "DATE", first[:10], last[:10])
        where = f"{dates} AND {from_to(MINUTE, 'TIMESTAMP', first, last)}"
        for each in BY_MINUTE:
            if each.source == topic:
                events = self.warehouse.read(silver.TABLES[topic]).where(near(DATE, first, last))
                made = each.make(events.where(in_minutes("time", first, last)))
                self.warehouse.replace(each.table, made, where)

    def make_days(self) -> None:
        """Recompute the tables of whole days for the touched days, of any process."""
        self._take_added()
        for day in self.warehouse.files.names(DUE):
            self._make_day(day)
            self.warehouse.files.delete(f"{DUE}/{day}")

    def _make_day(self, day: str) -> None:
        warehouse = self.warehouse
        on_the_day = f"{DATE} = DATE '{day}'"
        if warehouse.exists(silver.TABLES[CONNECTIONS]):
            events = warehouse.read(silver.TABLES[CONNECTIONS]).where(on_the_day)
            warehouse.replace(
                connections.SHARED_CLIENT_IDS,
                connections.shared_client_ids_per_day(events),
                on_the_day,
            )
        if warehouse.exists(silver.TABLES[THROTTLES]):
            throttles = warehouse.read(silver.TABLES[THROTTLES]).where(on_the_day)
            warehouse.replace(
                throttling.COMPLIANCE,
                throttling.throttle_compliance_per_day(throttles),
                on_the_day,
            )
        software.make_day(warehouse, day)
        if not warehouse.exists(usage.USAGE):
            return
        used = warehouse.read(usage.USAGE).where(on_the_day)
        warehouse.replace(usage.OFFENDERS, usage.top_offenders_per_day(used), on_the_day)
        advised = advice.quota_advice(used, F.lit(day).cast("date"), self.policy)
        warehouse.replace(advice.TABLE, advised, on_the_day)
        if warehouse.exists(silver.TABLES[QUOTA_CHANGES]):
            changes = warehouse.read(silver.TABLES[QUOTA_CHANGES])
            parts = warehouse.read(silver.SNAPSHOTS) if warehouse.exists(silver.SNAPSHOTS) else None

            def of_cluster(cluster: str | None) -> DataFrame:
                is_of = F.col(CLUSTER).eqNullSafe(cluster)
                known_parts = None if parts is None else parts.where(is_of)
                held = limits.limits_over_time(changes.where(is_of), known_parts, date.fromisoformat(day))
                return limits.utilisation_per_minute(used.where(is_of), held)

            clusters = [row[CLUSTER] for row in used.select(CLUSTER).distinct().collect()]
            each = [of_cluster(cluster) for cluster in sorted(clusters, key=str)] or [of_cluster(None)]
            warehouse.replace(limits.UTILISATION, reduce(DataFrame.unionByName, each), on_the_day)


def _by_topic(raw: DataFrame) -> dict[str, int]:
    return {row["topic"]: row["count"] for row in raw.groupBy("topic").count().collect()}

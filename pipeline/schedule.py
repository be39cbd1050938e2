"""Maintenance on a schedule: what is due now, and a thread that does it beside the stream.

For `command`. The ledger in the warehouse knows what was done, so that a restart neither repeats nor skips
it; a kill at any point leaves the tables right, and at most one step to repeat. A step that another writer
overtakes stays due.

    every hour (`every`)   small files are put together
    every UTC day          rows beyond their retention are removed; days that get no more events are
                           clustered; files that no version needs are removed
    another dictionary     the comments of columns are written

The step of each table waits until the stream's batch ends, though not for ever.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from pipeline import comments, maintain
from pipeline.batches import Batches
from pipeline.conflicts import CONFLICTS
from pipeline.errors import first_line
from pipeline.failures import ERRORS
from pipeline.ledger import REMOVING, Notes, note, notes
from pipeline.otlp import totals
from pipeline.retention import LAYERS, Retention
from pipeline.tables import Table, Warehouse

COMPACTED: Final = "compacted"
CLUSTERED: Final = "clustered"
REMOVED: Final = "removed"
VACUUMED: Final = "vacuumed"
COMMENTED: Final = "commented"
"""Its subject is the digest of the comments."""

ALL: Final = "all"
"""The subject of a task that concerns every table."""

CLOSED_AFTER: Final = timedelta(days=2)
"""Events are at most a day late (silver.LATE_MS), so that a day is complete when the next one is over."""

FIRST_ROUND_S: Final = 60.0
"""The first batches after a start have the cores to themselves."""


@dataclass(slots=True)
class Maintenance:
    """The maintenance of one warehouse; `clock` gives the time in UTC. `failed` has the names of tables that
    could not be maintained, which stop no others.
    """

    warehouse: Warehouse
    retention: Retention = field(default_factory=Retention)
    keep_hours: int = maintain.MIN_HOURS
    clock: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    batches: Batches = field(default_factory=Batches)
    failed: set[str] = field(default_factory=set)

    def due(self, every: timedelta) -> Iterator[str]:
        """Do what is due, yielding a line for each thing that was done."""
        now, known = self.clock(), notes(self.warehouse)
        today = now.date()
        if not _is_of(known, REMOVED, today):
            yield from self.remove(today)
        yield from self.cluster(today, known)
        compacted = known.get((COMPACTED, ALL))
        if compacted is None or now - compacted.at >= every:
            yield from self._compact()
        if not _is_of(known, VACUUMED, today):
            yield from self._each(VACUUMED, self._vacuum, today)
        yield from self.comment(known)

    def comment(self, known: Notes) -> Iterator[str]:
        """Write the comments of columns, if any has changed since that was done."""
        digest, commented = comments.digest(), 0
        if (COMMENTED, digest) in known:
            return

        def comment(table: Table) -> None:
            nonlocal commented
            commented += comments.update(self.warehouse.spark, table.path, self.warehouse.path(table))

        yield from self._each(COMMENTED, comment, None, digest)
        if commented:
            yield f"the columns of {commented} tables commented"

    def remove(self, today: date) -> Iterator[str]:
        """Remove the rows that retention does not keep."""
        for layer in LAYERS:
            first = self.retention.first_kept_of(layer, today)
            if first is not None:
                note(self.warehouse, REMOVING, layer, self.clock(), first)

        def remove_from(table: Table) -> None:
            if table == totals.LAST_TOTALS:
                totals.remove_ended(self.warehouse)
            first = self.retention.first_kept(table, today)
            if first is not None:
                maintain.remove_before(self.warehouse, table, first)

        yield from self._each(REMOVED, remove_from, today)

    def cluster(self, today: date, known: Notes) -> Iterator[str]:
        """Cluster the days that are closed and were not clustered yet."""
        last = today - CLOSED_AFTER
        for table in maintain.ENTITIES:
            before = known.get((CLUSTERED, table.path))
            done = None if before is None else before.day
            if done is None or done < last:
                first = None if done is None else done + timedelta(days=1)
                try:
                    if not self.warehouse.exists(table):
                        continue
                    self.batches.wait()
                    if not maintain.is_clustered(self.warehouse, table, last):
                        maintain.cluster(self.warehouse, table, first, last)
                except CONFLICTS:
                    yield f"{table.name} is written by another process; it is clustered later"
                except ERRORS as error:
                    yield self._failed(table, CLUSTERED, error)
                else:
                    note(self.warehouse, CLUSTERED, table.path, self.clock(), last)
                    yield f"{table.name} clustered up to {last}"

    def _compact(self) -> Iterator[str]:
        files = 0

        def compact(table: Table) -> None:
            nonlocal files
            compacted = maintain.compact(self.warehouse, table)
            files += 0 if table in maintain.STATE else compacted

        yield from self._each(COMPACTED, compact, None)
        if files:
            yield f"{files:,} files compacted"

    def _failed(self, table: Table, task: str, error: Exception) -> str:
        self.failed.add(table.name)
        return f"Warning: {table.name} failed: {first_line(error)}; it is {task} later"

    def _vacuum(self, table: Table) -> None:
        maintain.vacuum(self.warehouse, table, self.keep_hours)

    def _each(
        self, task: str, act: Callable[[Table], None], day: date | None, subject: str = ALL
    ) -> Iterator[str]:
        """Do a task for all tables and note it, unless one failed or another process was in its way."""
        is_whole = True
        for table in (*maintain.ALL, *maintain.STATE):
            try:
                # Of a damaged log this is an error too.
                if self.warehouse.exists(table):
                    self.batches.wait()
                    act(table)
            except CONFLICTS:
                is_whole = False
                yield f"{table.name} is written by another process; it is {task} later"
            except ERRORS as error:
                is_whole = False
                yield self._failed(table, task, error)
        if is_whole:
            note(self.warehouse, task, subject, self.clock(), day)


def _is_of(known: Notes, task: str, day: date) -> bool:
    last = known.get((task, ALL))
    return last is not None and last.day is not None and last.day >= day


class Schedule:
    """A thread that does what is due, every `every`, while the block runs."""

    def __init__(
        self,
        due: Callable[[timedelta], Iterator[str]],
        every: timedelta,
        write: Callable[[str], None],
        first_s: float = FIRST_ROUND_S,
    ) -> None:
        self._due = due
        self._every = every
        self._write = write
        self._wait_s = first_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="maintenance", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        """Let no further round begin. A running one is not awaited: it may be ended at any point."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait(self._wait_s):
            try:
                for line in self._due(self._every):
                    self._write(f"maintenance: {line}")
            except (PySparkException, Py4JError, OSError) as error:
                # The stream goes on without it, and the next round tries again.
                if not self._ended.is_set():
                    self._write(f"maintenance failed and is tried again: {first_line(error)}")
            self._wait_s = self._every.total_seconds()

"""What tables that failed still lack: a batch goes on without them, and a later one makes it up.

For `run`, `days` and `otlp.tables`. A table of silver lacks versions of bronze, which must come in their
order: Delta takes no batch's number after a later one. A table of gold lacks minutes, which are made from
silver in any order. The notes are a table, so that a later process finds them; a note is removed when its
rows are there, and work that is done twice changes nothing.
"""

import uuid
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import astuple, dataclass
from functools import partial
from threading import Lock
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from pipeline.conflicts import OvertakenError, repeated
from pipeline.errors import first_line
from pipeline.tables import Table, Warehouse
from pipeline.times import Minutes

FAILED: Final = Table("_failed", (), ())
"""Only the pipeline reads this table."""

ERRORS: Final = (PySparkException, Py4JError, OSError, OvertakenError)
"""What a table that cannot be read or written raises."""

_SCHEMA: Final = (
    "table string, step string, writer string, batch bigint, version bigint, first bigint, last bigint, "
    "note string"
)

MINUTES_AGAIN: Final = (
    "its minutes are noted and made when it can be written. Mend or restore its folder; if you remove it, "
    "the next start makes all minutes again that silver has"
)
RECORDS_AGAIN: Final = (
    "its records stay in bronze, and are read again when it can be written. Mend its folder, or restore it "
    "from a backup"
)
DAY_AGAIN: Final = "its day is made again later. Mend its folder, or remove it"


@dataclass(frozen=True, slots=True)
class Version:
    """A batch, by its writer and number, and the version of bronze that has its records."""

    writer: str
    batch: int
    number: int


@dataclass(frozen=True, slots=True)
class _Note:
    """A row of `FAILED`: a table lacks what a step makes of a version, or the minutes from `first` to `last`.

    `table` is a path, or the name of a step that failed as a whole.
    """

    table: str
    step: str | None
    writer: str | None
    batch: int | None
    version: int | None
    first: int | None
    last: int | None
    note: str

    def is_of(self, step: str, writer: str) -> bool:
        return self.step == step and self.writer == writer


class Failures:
    """The notes of one warehouse, for any number of threads. `tell` gets a line for each failure; without it
    errors are raised instead. `note_...` raise the errors of the table of notes itself.
    """

    def __init__(self, tell: Callable[[str], None] | None = None) -> None:
        self._tell = tell
        self._lock = Lock()
        self._notes: list[_Note] = []
        self._days: set[tuple[str, str]] = set()

    def load(self, warehouse: Warehouse) -> None:
        """Read the notes of earlier processes."""
        rows = warehouse.read(FAILED).collect() if warehouse.exists(FAILED) else []
        with self._lock:
            self._notes = [_Note(*(row[name] for name in _Note.__slots__)) for row in rows]

    @property
    def tables(self) -> list[str]:
        """Return the names of what lacks something now."""
        with self._lock:
            paths = {*(note.table for note in self._notes), *(table for table, _ in self._days)}
        return sorted(path.replace("/", ".") for path in paths)

    def told(self, table: str, error: Exception, remedy: str) -> None:
        """Tell that a table failed, by its path; without `tell`, raise the error."""
        if self._tell is None:
            raise error
        self._tell(f"Warning: {table.replace('/', '.')} failed: {first_line(error)}; {remedy}.")

    def day_failed(self, table: str, day: str, error: Exception) -> None:
        """Tell that a table of days failed. The caller keeps its own note of the day."""
        self.told(table, error, DAY_AGAIN)
        with self._lock:
            self._days.add((table, day))

    def day_made(self, table: str, day: str) -> None:
        with self._lock:
            self._days.discard((table, day))

    # Tables that lack versions of bronze.

    def versions(self) -> list[tuple[str, Version]]:
        """Return the versions that steps must repeat, with the step, in order."""
        with self._lock:
            found = {
                (note.step, Version(note.writer or "", note.batch or 0, note.version or 0))
                for note in self._notes
                if note.step is not None
            }
        return sorted(found, key=lambda each: (each[1].number, each[0]))

    def is_blocked(self, table: str, step: str, version: Version) -> bool:
        """Return whether the table lacks an earlier version, which must come first."""
        with self._lock:
            return any(
                note.table == table
                and note.is_of(step, version.writer)
                and note.version is not None
                and note.version < version.number
                for note in self._notes
            )

    def lacking(self, step: str, version: Version) -> set[str]:
        """Return the tables that lack a version."""
        with self._lock:
            return {
                note.table
                for note in self._notes
                if note.is_of(step, version.writer) and note.batch == version.batch
            }

    def note_version(
        self, warehouse: Warehouse, table: str, step: str, version: Version, error: Exception | None
    ) -> None:
        """Note, durably, that a table lacks a version; without an error it is blocked and was not tried."""
        if error is not None:
            self.told(table, error, RECORDS_AGAIN)
        if table not in self.lacking(step, version):
            place = (version.writer, version.batch, version.number)
            self._add(warehouse, [_Note(table, step, *place, None, None, uuid.uuid4().hex)])

    def version_made(
        self, warehouse: Warehouse, tables: AbstractSet[str], step: str, version: Version
    ) -> None:
        """Remove the notes of tables that have the version now."""
        with self._lock:
            done = [
                note
                for note in self._notes
                if note.table in tables and note.is_of(step, version.writer) and note.batch == version.batch
            ]
        self._remove(warehouse, done)

    # Tables that lack minutes.

    def minutes(self, table: Table) -> set[int]:
        """Return the minutes that the table lacks."""
        found: set[int] = set()
        for note in self._of_minutes(table):
            assert note.first is not None and note.last is not None
            found.update(range(note.first, note.last + 1))
        return found

    def make(
        self,
        warehouse: Warehouse,
        table: Table,
        make: Callable[[], None],
        minutes: Callable[[], Iterable[int]],
    ) -> None:
        """Make minutes of a table. If that fails, or others of its minutes have failed before, note those
        that `minutes` returns.
        """
        if self._of_minutes(table):
            self._note_minutes(warehouse, table, minutes())
            return
        try:
            make()
        except ERRORS as error:
            self.told(table.path, error, MINUTES_AGAIN)
            self._note_minutes(warehouse, table, minutes())

    def make_again(self, warehouse: Warehouse, table: Table, make: Callable[[set[int]], None]) -> None:
        """Make the minutes that a table lacks, if there are any."""
        notes = self._of_minutes(table)
        if not notes:
            return
        try:
            make(self.minutes(table))
        except ERRORS as error:
            self.told(table.path, error, MINUTES_AGAIN)
        else:
            self._remove(warehouse, notes)

    def _of_minutes(self, table: Table) -> list[_Note]:
        with self._lock:
            return [note for note in self._notes if note.table == table.path and note.first is not None]

    def _note_minutes(self, warehouse: Warehouse, table: Table, minutes: Iterable[int]) -> None:
        new = Minutes.of(set(minutes) - self.minutes(table))
        nothing = (None, None, None, None)
        self._add(warehouse, [_Note(table.path, *nothing, *run, uuid.uuid4().hex) for run in new.runs])

    def _add(self, warehouse: Warehouse, notes: list[_Note]) -> None:
        if notes:
            rows = warehouse.spark.createDataFrame([astuple(note) for note in notes], _SCHEMA)
            warehouse.append(FAILED, rows.coalesce(1))
            with self._lock:
                self._notes += notes

    def _remove(self, warehouse: Warehouse, notes: list[_Note]) -> None:
        if notes:
            texts = ", ".join(f"'{note.note}'" for note in notes)
            repeated(partial(warehouse.delete, FAILED, f"note IN ({texts})"))
            with self._lock:
                self._notes = [note for note in self._notes if note not in notes]

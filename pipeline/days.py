"""Makes the tables of whole days and the advice: a job of its own beside the stream.

`run` notes the minutes that a batch has changed, after they are in gold; `make` makes what depends on them
and removes their notes afterwards. A kill leaves notes, which the next process finds, and what is made twice
is the same. What changes while it is made is noted again.

A day's cost does not grow with the day: sums of clients are brought forward by what is new (`forward`), the
tables that are made of them have as many rows as there are clients, and of the use of limits the changed
slots of `SLOT` minutes are made.
"""

import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import date, timedelta
from functools import partial, reduce
from typing import Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline import advice_of_day, silver
from pipeline.batches import Batches
from pipeline.conflicts import repeated
from pipeline.failures import ERRORS, Failures
from pipeline.formats import QUOTA_CHANGES
from pipeline.forward import bring_forward
from pipeline.gold import advice, clients, connections, limits, seconds, software, throttling, usage
from pipeline.tables import CLUSTER, DATE, Table, Warehouse
from pipeline.times import MINUTES_OF_A_DAY, Minutes, days_of
from pipeline.together import Step, Together

DUE: Final = Table("_due_days", ("day", "slot", "note"), ())
"""Notes of slots that were changed and are not yet in the tables of their days. Only the pipeline reads this
table. A note of an earlier version has no slot: all of its day is due.
"""

SLOT: Final = 10
"""Minutes of a slot: a change of one is not noted again until it is made."""

AT_ONCE: Final = 2
"""A table of a day may need much of the memory."""

_SLOTS_OF_A_DAY: Final = MINUTES_OF_A_DAY // SLOT

_DUE_SCHEMA: Final = "day string, slot bigint, note string"


class Days:
    """The slots that are due; for the thread of the batches and the one that makes the days. Each table of a
    day waits for `batches`.
    """

    def __init__(
        self,
        policy: advice.Policy = advice.Policy(),  # noqa: B008
        batches: Batches | None = None,
        failures: Failures | None = None,
    ) -> None:
        self._failures = Failures() if failures is None else failures
        self._policy = policy
        self._batches = Batches() if batches is None else batches
        self._noted: set[int] = set()
        self._lock = threading.Lock()
        self._together: Together | None = None

    def note(self, warehouse: Warehouse, minutes: Iterable[int], *, until_midnight: bool = False) -> None:
        """Note changed minutes, by their numbers; the change must be complete. A limit that changed holds
        `until_midnight`, and so changes all that follows in its day.
        """
        slots = {minute // SLOT for minute in minutes}
        if until_midnight:
            slots = {
                each
                for slot in slots
                for each in range(slot, (slot // _SLOTS_OF_A_DAY + 1) * _SLOTS_OF_A_DAY)
            }
        with self._lock:
            new = sorted(slots - self._noted)
            if new:
                note = uuid.uuid4().hex
                rows = [(_day_of(slot), slot, note) for slot in new]
                warehouse.append(DUE, warehouse.spark.createDataFrame(rows, _DUE_SCHEMA).coalesce(1))
                self._noted.update(new)

    def make(self, warehouse: Warehouse) -> None:
        """Make what is due, the notes of other processes too."""
        with self._lock:
            # A later change must be noted again: the tables below may be read before it.
            self._noted.clear()
            notes = _notes(warehouse)
        if not notes:
            return
        together = self._together
        if together is None or together.warehouse is not warehouse:
            together = self._together = Together(warehouse)
        slots = defaultdict[str, set[int | None]](set)
        for row in notes:
            slots[row["day"]].add(row["slot"])
        minutes = {day: _minutes(day, of_day) for day, of_day in slots.items()}
        is_forward = self._bring_forward(together, minutes)
        for day, of_day in sorted(minutes.items()):
            is_made = self._run(together, day, _steps_of(day, of_day, self._policy))
            if not (is_made and is_forward):
                continue  # It stays due.
            done = ", ".join(f"'{row['note']}'" for row in notes if row["day"] == day)
            repeated(partial(warehouse.delete, DUE, f"day = '{day}' AND note IN ({done})"))

    def _bring_forward(self, together: Together, days: Mapping[str, Minutes]) -> bool:
        """Let the sums of clients have all that silver has of these days, and the seconds all of their
        changed minutes. What names software is needed from days before them too. Return whether no table
        failed.
        """
        each = {date.fromisoformat(day) for day in days}
        look_back = range(software.LOOK_BACK.days + 1)
        before = {f"{day - timedelta(days=ago)}" for day in each for ago in look_back}
        steps: dict[str, Step] = {
            forward.table.path: partial(
                bring_forward, forward=forward, days=days if forward is clients.REQUEST_SUMS else before
            )
            for forward in clients.ALL
        }
        changed = Minutes.of(minute for minutes in days.values() for minute in minutes)
        made = partial(advice_of_day.make_seconds, minutes=changed)
        steps[seconds.SECONDS.path] = partial(_repeated, made)
        return self._run(together, "forward", steps)

    def _run(self, together: Together, name: str, steps: Mapping[str, Step]) -> bool:
        """Run the steps, by their tables; return whether none failed."""
        failed = set[str]()

        def after_batch(table: str, step: Step) -> Step:
            def run(warehouse: Warehouse) -> None:
                self._batches.wait()
                try:
                    step(warehouse)
                except ERRORS as error:
                    self._failures.day_failed(table, name, error)
                    failed.add(table)
                else:
                    self._failures.day_made(table, name)

            return run

        each = {table: after_batch(table, step) for table, step in steps.items()}
        together.run(f"weir-{name}", each, at_once=AT_ONCE)
        return not failed


def _notes(warehouse: Warehouse) -> list[Row]:
    if not warehouse.exists(DUE):
        return []
    notes = warehouse.read(DUE)
    if "slot" not in notes.columns:
        notes = notes.withColumn("slot", F.lit(None).cast("bigint"))
    return list(notes.collect())


def _day_of(slot: int) -> str:
    (day,) = days_of([slot * SLOT])
    return day


def _minutes(day: str, slots: Iterable[int | None]) -> Minutes:
    """Return the minutes of slots; all of the day if one is None."""
    known = [slot for slot in slots if slot is not None]
    if len(known) < len(list(slots)):
        return Minutes.of_day(day)
    return Minutes.of(minute for slot in known for minute in range(slot * SLOT, (slot + 1) * SLOT))


def _steps_of(day: str, minutes: Minutes, policy: advice.Policy) -> dict[str, Step]:
    """Return what makes each table of a day; another process that writes it makes it repeat its own step."""
    on_the_day = f"{DATE} = DATE '{day}'"

    def of(source: Table, table: Table, make: Callable[[DataFrame], DataFrame]) -> Step:
        def step(warehouse: Warehouse) -> None:
            if warehouse.exists(source):
                warehouse.replace(table, make(warehouse.read(source).where(on_the_day)), on_the_day)

        return step

    def advised(warehouse: Warehouse) -> None:
        advice_of_day.make(warehouse, day, policy)

    def utilised(warehouse: Warehouse) -> None:
        if warehouse.exists(usage.USAGE) and warehouse.exists(silver.TABLES[QUOTA_CHANGES]):
            used = warehouse.read(usage.USAGE).where(minutes.of_rows())
            warehouse.replace(limits.UTILISATION, _utilisation(warehouse, used, day), minutes.of_rows())

    requests, closed = clients.REQUESTS_OF_CLIENTS, clients.CONNECTIONS_OF_CLIENTS
    throttled = clients.THROTTLED_CONNECTIONS
    # The longest begin first.
    steps: dict[Table, Step] = {
        limits.UTILISATION: utilised,
        advice.TABLE: advised,
        software.TABLE: partial(software.make_day, day=day),
        usage.OFFENDERS: of(requests, usage.OFFENDERS, usage.top_offenders_per_day),
        connections.SHARED_CLIENT_IDS: of(
            closed, connections.SHARED_CLIENT_IDS, connections.shared_client_ids_per_day
        ),
        throttling.COMPLIANCE: of(throttled, throttling.COMPLIANCE, throttling.throttle_compliance_per_day),
    }
    return {table.path: partial(_repeated, step) for table, step in steps.items()}


def _repeated(step: Step, warehouse: Warehouse) -> None:
    repeated(partial(step, warehouse))


def _utilisation(warehouse: Warehouse, used: DataFrame, day: str) -> DataFrame:
    changes = warehouse.read(silver.TABLES[QUOTA_CHANGES])
    parts = warehouse.read(silver.SNAPSHOTS) if warehouse.exists(silver.SNAPSHOTS) else None

    def of_cluster(cluster: str | None) -> DataFrame:
        is_of = F.col(CLUSTER).eqNullSafe(cluster)
        known_parts = None if parts is None else parts.where(is_of)
        held = limits.limits_over_time(changes.where(is_of), known_parts, date.fromisoformat(day))
        return limits.utilisation_per_minute(used.where(is_of), held)

    clusters = [row[CLUSTER] for row in used.select(CLUSTER).distinct().collect()]
    each = [of_cluster(cluster) for cluster in sorted(clusters, key=str)] or [of_cluster(None)]
    return reduce(DataFrame.unionByName, each)


class DayJob:
    """Makes the due days every `every_s` seconds, in a thread and a session of its own beside a stream.

    Leaving the block waits for the day that is being made.
    """

    def __init__(self, days: Days, warehouse: Warehouse, every_s: float) -> None:
        self._days = days
        self._warehouse = warehouse
        self._every_s = every_s
        self._ended = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="days", daemon=True)

    def __enter__(self) -> "DayJob":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def check(self) -> None:
        """Raise the error that ended the job, if any."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            warehouse = self._warehouse.beside()
            while not self._ended.wait(self._every_s):
                self._days.make(warehouse)
        except Exception as error:  # noqa: BLE001 - `check` raises it in the stream's thread.
            self._error = error

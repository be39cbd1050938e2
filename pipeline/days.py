"""Recomputes the tables of whole days and the advice: a job of its own beside the stream.

`run` notes the days that a batch has changed, after its minutes are in gold; `make` recomputes the noted days
and removes their notes afterwards. A kill leaves notes, which the next process finds, and a day that is made
twice is the same. A day that changes while it is made is noted again.
"""

import threading
import uuid
from collections.abc import Callable, Iterable
from datetime import date
from functools import partial, reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline import advice_of_day, silver
from pipeline.batches import Batches
from pipeline.conflicts import repeated
from pipeline.formats import CONNECTIONS, QUOTA_CHANGES, THROTTLES
from pipeline.gold import advice, connections, limits, software, throttling, usage
from pipeline.tables import CLUSTER, DATE, Table, Warehouse
from pipeline.together import Step, Together

DUE: Final = Table("_due_days", ("day", "note"), ())
"""Notes of days that were changed and not yet recomputed. Only the pipeline reads this table."""

AT_ONCE: Final = 2
"""A table of a day may need much of the memory."""

_DUE_SCHEMA: Final = "day string, note string"


class Days:
    """The days that are due; for the thread of the batches and the one that makes the days. Each table of a
    day waits for `batches`.
    """

    def __init__(
        self,
        policy: advice.Policy = advice.Policy(),  # noqa: B008
        batches: Batches | None = None,
    ) -> None:
        self._policy = policy
        self._batches = Batches() if batches is None else batches
        self._noted: set[str] = set()
        self._lock = threading.Lock()
        self._together: Together | None = None

    def note(self, warehouse: Warehouse, days: Iterable[str]) -> None:
        """Note changed days; the change must be complete."""
        with self._lock:
            new = sorted(set(days) - self._noted)
            if new:
                note = uuid.uuid4().hex
                rows = warehouse.spark.createDataFrame([(day, note) for day in new], _DUE_SCHEMA)
                warehouse.append(DUE, rows.coalesce(1))
                self._noted.update(new)

    def make(self, warehouse: Warehouse) -> None:
        """Recompute the due days, those of other processes too."""
        with self._lock:
            # A later change must be noted again: the tables below may be read before it.
            self._noted.clear()
            notes = warehouse.read(DUE).collect() if warehouse.exists(DUE) else []
        together = self._together
        if together is None or together.warehouse is not warehouse:
            together = self._together = Together(warehouse)
        for day in sorted({row["day"] for row in notes}):
            _make_day(together, day, self._policy, self._batches)
            done = ", ".join(f"'{row['note']}'" for row in notes if row["day"] == day)
            repeated(partial(warehouse.delete, DUE, f"day = '{day}' AND note IN ({done})"))


def _make_day(together: Together, day: str, policy: advice.Policy, batches: Batches) -> None:
    """Recompute the tables of a day; the longest begin first."""

    def after_batch(step: Step) -> Step:
        def run(warehouse: Warehouse) -> None:
            batches.wait()
            step(warehouse)

        return run

    steps = {table: after_batch(step) for table, step in _steps_of(day, policy).items()}
    together.run(f"weir-{day}", steps, at_once=AT_ONCE)


def _steps_of(day: str, policy: advice.Policy) -> dict[str, Step]:
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
            used = warehouse.read(usage.USAGE).where(on_the_day)
            warehouse.replace(limits.UTILISATION, _utilisation(warehouse, used, day), on_the_day)

    closed, throttled = silver.TABLES[CONNECTIONS], silver.TABLES[THROTTLES]
    steps: dict[Table, Step] = {
        limits.UTILISATION: utilised,
        software.TABLE: partial(software.make_day, day=day),
        advice.TABLE: advised,
        usage.OFFENDERS: of(usage.USAGE, usage.OFFENDERS, usage.top_offenders_per_day),
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

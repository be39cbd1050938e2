"""The steps of maintenance that were done, and up to which day: a table that is only appended to.

For `maintenance`, and for `run`, which must not add rows of days that retention has removed. A step is noted
after it; removal is noted before it too, because a killed one may have removed rows.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline.tables import DATE, Table, Warehouse

LEDGER: Final = Table("_maintenance", (), ())
"""Not below a layer: it is about tables, and describes no event."""

_SCHEMA: Final = "at timestamp, task string, subject string, day date"


@dataclass(frozen=True, slots=True)
class Note:
    """The last time of a task for a subject (a table or a layer), and the last day that it reached."""

    at: datetime
    day: date | None


Notes = dict[tuple[str, str], Note]
"""By task and subject."""


def notes(warehouse: Warehouse) -> Notes:
    """Return the last note of each task and subject."""
    if not warehouse.exists(LEDGER):
        return {}
    last = (
        warehouse.read(LEDGER)
        .groupBy("task", "subject")
        .agg(F.max("at").alias("at"), F.max("day").alias("day"))
    )
    seconds = last.select("task", "subject", F.unix_millis("at").alias("ms"), "day").collect()
    return {
        (row["task"], row["subject"]): Note(datetime.fromtimestamp(row["ms"] / 1000, UTC), row["day"])
        for row in seconds
    }


def note(warehouse: Warehouse, task: str, subject: str, at: datetime, day: date | None = None) -> None:
    """Append a note. A kill leaves it whole or absent."""
    rows = warehouse.spark.createDataFrame([(at, task, subject, day)], _SCHEMA).coalesce(1)
    rows.write.format("delta").mode("append").save(warehouse.path(LEDGER))


REMOVING: Final = "removing"
"""The task of which `day` is the first that a layer keeps."""


def first_addable(known: Notes) -> date | None:
    """Return the first day whose records may be added to bronze; None if nothing was ever removed.

    Bronze no longer knows which records of earlier days it had, so they could be added twice. A record's
    event may be a day older, and gold is computed from all of silver's rows of a minute.
    """
    bronze = known.get((REMOVING, "bronze"))
    silver = known.get((REMOVING, "silver"))
    days = [
        *([bronze.day] if bronze and bronze.day else []),
        *([silver.day + timedelta(days=1)] if silver and silver.day else []),
    ]
    return max(days, default=None)


def addable(warehouse: Warehouse, dated: DataFrame) -> DataFrame:
    """Return the records without those of days that retention has removed."""
    first = first_addable(notes(warehouse))
    return dated if first is None else dated.where(F.col(DATE) >= F.lit(first))


def left_out(warehouse: Warehouse, raw: DataFrame) -> tuple[int, date | None]:
    """Return how many records `addable` leaves out, and the first day that it does not."""
    first = first_addable(notes(warehouse))
    if first is None:
        return 0, None
    return raw.where(F.to_date("timestamp") < F.lit(first)).count(), first

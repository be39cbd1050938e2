"""Minutes of events, and ranges of minutes and days as conditions of Spark and Delta."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

MINUTE: Final = "minute"


@dataclass(frozen=True, slots=True)
class Touched:
    """The first and the last changed minute, and the days of all changed minutes; as text, in UTC."""

    first: str
    last: str
    days: frozenset[str]

    @classmethod
    def by_times(cls, least_and_most: Collection[tuple[str, str]]) -> "Touched | None":
        """Return the touched minutes of ranges of rows, each at most a day long; None without ranges."""
        minutes = [minute_text(time) for both in least_and_most for time in both]
        if not minutes:
            return None
        return cls(min(minutes), max(minutes), frozenset(minute[:10] for minute in minutes))


def minute_of(time: str = "time") -> Column:
    """Return the minute of an event. An event's time is the end of the second that it covers."""
    return F.date_trunc("minute", F.col(time) - F.expr("INTERVAL 1 MILLISECOND"))


def touched(rows: DataFrame, minute: Column) -> tuple[int, Touched | None]:
    """Return the number of rows with a minute, and the touched minutes."""
    day = F.date_format(minute, "yyyy-MM-dd")
    edges = (_as_text(edge(minute)) for edge in (F.min, F.max))
    found = rows.agg(F.count(minute), *edges, F.collect_set(day)).first()
    assert found is not None
    return found[0], Touched(found[1], found[2], frozenset(found[3])) if found[0] else None


def minute_text(time: str) -> str:
    """Return the minute that ends at or contains this time: `minute_of` for a time as text."""
    before = datetime.fromisoformat(time) - timedelta(milliseconds=1)
    return f"{before:%Y-%m-%d %H:%M}:00"


def in_minutes(column: str, first: str, last: str) -> Column:
    """Return whether a time is in one of the minutes from `first` to `last`, both included.

    The form lets Delta skip files of other times.
    """
    begin, end = F.to_timestamp(F.lit(first)), F.to_timestamp(F.lit(last)) + timedelta(minutes=1)
    return (F.col(column) > begin) & (F.col(column) <= end)


def from_to(column: str, kind: str, first: str, last: str) -> str:
    """Return a condition with both ends included. (Delta 4.1.0 cannot skip files for a BETWEEN.)"""
    return f"{column} >= {kind} '{first}' AND {column} <= {kind} '{last}'"


def near(column: str, first: str, last: str, *, before: int = 0, after: int = 0) -> str:
    """Return a condition for the days of events that belong to these minutes, extended by `before` and
    `after` days.

    An event at midnight belongs to the last minute of the day before.
    """
    begin = f"date_sub(DATE '{first[:10]}', {before})"
    return f"{column} >= {begin} AND {column} <= date_add(DATE '{last[:10]}', {1 + after})"


def _as_text(time: Column) -> Column:
    """Format a time in UTC, independent of the machine's time zone."""
    return F.date_format(time, "yyyy-MM-dd HH:mm:ss")

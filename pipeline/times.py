"""Stretches of minutes and days, as Spark and Delta are asked for them. For `run` and `otlp.batch`."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it


@dataclass(frozen=True, slots=True)
class Touched:
    """The first and the last minute that rows have changed, and the days of all of them; as text, in UTC."""

    first: str
    last: str
    days: frozenset[str]

    @classmethod
    def by_times(cls, least_and_most: Collection[tuple[str, str]]) -> "Touched | None":
        """By the times of stretches of rows, none of which is longer than a day. None if there are none."""
        minutes = [minute_text(time) for both in least_and_most for time in both]
        if not minutes:
            return None
        return cls(min(minutes), max(minutes), frozenset(minute[:10] for minute in minutes))


def touched(rows: DataFrame, minute: Column) -> tuple[int, Touched | None]:
    """How many rows have a minute, and which."""
    day = F.date_format(minute, "yyyy-MM-dd")
    edges = (_as_text(edge(minute)) for edge in (F.min, F.max))
    found = rows.agg(F.count(minute), *edges, F.collect_set(day)).first()
    assert found is not None
    return found[0], Touched(found[1], found[2], frozenset(found[3])) if found[0] else None


def minute_text(time: str) -> str:
    """The minute that ends with this moment or has it within: `gold.usage.minute_of` of a time as text."""
    before = datetime.fromisoformat(time) - timedelta(milliseconds=1)
    return f"{before:%Y-%m-%d %H:%M}:00"


def in_minutes(column: str, first: str, last: str) -> Column:
    """Whether a time belongs to one of the minutes from `first` to `last`, both included, in a way that lets
    Delta pass over files of other times.
    """
    begin, end = F.to_timestamp(F.lit(first)), F.to_timestamp(F.lit(last)) + timedelta(minutes=1)
    return (F.col(column) > begin) & (F.col(column) <= end)


def from_to(column: str, kind: str, first: str, last: str) -> str:
    """Both included. (Delta 4.1.0 cannot find the files of a BETWEEN.)"""
    return f"{column} >= {kind} '{first}' AND {column} <= {kind} '{last}'"


def near(column: str, first: str, last: str, *, before: int = 0, after: int = 0) -> str:
    """The days of those events that belong to these minutes: one at midnight closes the last minute of the
    day before. With so many days more `before` and `after`.
    """
    begin = f"date_sub(DATE '{first[:10]}', {before})"
    return f"{column} >= {begin} AND {column} <= date_add(DATE '{last[:10]}', {1 + after})"


def _as_text(time: Column) -> Column:
    """In UTC, whatever the clock of the machine says."""
    return F.date_format(time, "yyyy-MM-dd HH:mm:ss")

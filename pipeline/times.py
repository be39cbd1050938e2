"""Stretches of minutes and days, as Spark and Delta are asked for them. For `run` and `otlp.batch`."""

from datetime import date, datetime, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it


def edges(rows: DataFrame, minute: Column) -> tuple[int, tuple[str, str] | None]:
    """How many rows have one, and their first and last minute as text; None if there are none."""
    found = rows.agg(F.count(minute), *(_as_text(edge(minute)) for edge in (F.min, F.max))).first()
    assert found is not None
    return found[0], (found[1], found[2]) if found[0] else None


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


def days(first: str, last: str) -> set[str]:
    """Both included."""
    begin, end = date.fromisoformat(first[:10]), date.fromisoformat(last[:10])
    return {str(begin + timedelta(days=at)) for at in range((end - begin).days + 1)}


def near(column: str, first: str, last: str, *, before: int = 0, after: int = 0) -> str:
    """The days of those events that belong to these minutes: one at midnight closes the last minute of the
    day before. With so many days more `before` and `after`.
    """
    begin = f"date_sub(DATE '{first[:10]}', {before})"
    return f"{column} >= {begin} AND {column} <= date_add(DATE '{last[:10]}', {1 + after})"


def _as_text(time: Column) -> Column:
    """In UTC, whatever the clock of the machine says."""
    return F.date_format(time, "yyyy-MM-dd HH:mm:ss")

"""Stretches of minutes and days, as Spark and Delta are asked for them. For `run` and `otlp.batch`."""

from datetime import date, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it


def edges(rows: DataFrame, minute: Column) -> tuple[str, str] | None:
    """The first and the last minute of the rows, as text; None if there are none."""
    found = rows.agg(*(_as_text(edge(minute)) for edge in (F.min, F.max))).first()
    return None if found is None or found[0] is None else (found[0], found[1])


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

"""Stretches of minutes and days, as Spark and Delta are asked for them. For `run` and `otlp.batch`."""

from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

APART: Final = timedelta(hours=1)
"""Minutes that lie further from each other are made by themselves: one late event is no half day's work."""


def edges(rows: DataFrame, minute: Column) -> tuple[str, str] | None:
    """The first and the last minute of the rows, as text; None if there are none."""
    found = rows.agg(*(as_text(edge(minute)) for edge in (F.min, F.max))).first()
    return None if found is None or found[0] is None else (found[0], found[1])


def from_to(column: str, kind: str, first: str, last: str) -> str:
    """Both included. (Delta 4.1.0 cannot find the files of a BETWEEN.)"""
    return f"{column} >= {kind} '{first}' AND {column} <= {kind} '{last}'"


def days(first: str, last: str) -> set[str]:
    """Both included."""
    begin, end = date.fromisoformat(first[:10]), date.fromisoformat(last[:10])
    return {str(begin + timedelta(days=at)) for at in range((end - begin).days + 1)}


def stretches(minutes: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The first and the last minute of each stretch without a gap of more than `APART`."""
    begin = end = ""
    for minute in sorted(minutes):
        if begin and datetime.fromisoformat(minute) - datetime.fromisoformat(end) > APART:
            yield begin, end
            begin = ""
        begin, end = begin or minute, minute
    if begin:
        yield begin, end


def during(time: str, first: str, last: str) -> str:
    """The events that belong to these minutes: an event's time is the end of what it tells of."""
    return f"{time} > TIMESTAMP '{first}' AND {time} <= TIMESTAMP '{last}' + INTERVAL 1 MINUTE"


def near(column: str, first: str, last: str, *, before: int = 0, after: int = 0) -> str:
    """The days of those events that belong to these minutes: one at midnight closes the last minute of the
    day before. With so many days more `before` and `after`.
    """
    begin = f"date_sub(DATE '{first[:10]}', {before})"
    return f"{column} >= {begin} AND {column} <= date_add(DATE '{last[:10]}', {1 + after})"


def as_text(time: Column) -> Column:
    """In UTC, whatever the clock of the machine says."""
    return F.date_format(time, "yyyy-MM-dd HH:mm:ss")

"""Minutes of events, and sets of minutes as conditions of Spark and Delta.

A minute is a number: the minutes since 1970, UTC.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

MINUTE: Final = "minute"

MINUTES_OF_A_DAY: Final = 1440
MINUTE_US: Final = 60_000_000
DAY_US: Final = MINUTES_OF_A_DAY * MINUTE_US

MAX_RUNS: Final = 32
"""The most runs of a condition: a longer one costs more to plan than the minutes between two runs."""


@dataclass(frozen=True, slots=True)
class Minutes:
    """Changed minutes as runs of consecutive ones: the first and the last of each, in order."""

    runs: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, minutes: Iterable[int], max_runs: int = MAX_RUNS) -> "Minutes":
        """Join the nearest runs while there are more than `max_runs`."""
        ordered = sorted(set(minutes))
        gaps = sorted(
            ((later - earlier, later) for earlier, later in pairwise(ordered)),
            reverse=True,
        )
        begins = sorted(later for gap, later in gaps[: max_runs - 1] if gap > 1)
        runs, first = [], ordered[0] if ordered else 0
        for begin in begins:
            at = ordered.index(begin)
            runs.append((first, ordered[at - 1]))
            first = begin
        return cls((*runs, (first, ordered[-1])) if ordered else ())

    @classmethod
    def of_day(cls, day: str) -> "Minutes":
        """Return all minutes of a UTC day."""
        first = (date.fromisoformat(day).toordinal() - _EPOCH) * MINUTES_OF_A_DAY
        return cls(((first, first + MINUTES_OF_A_DAY - 1),))

    def __bool__(self) -> bool:
        return bool(self.runs)

    def __iter__(self) -> Iterator[int]:
        for first, last in self.runs:
            yield from range(first, last + 1)

    def of_rows(self) -> str:
        """Return a condition on the columns `date` and `minute` of a table with a row for each minute."""
        each = " OR ".join(
            # Delta 4.1.0 cannot skip files for a BETWEEN.
            f"({MINUTE} >= {_timestamp(first)} AND {MINUTE} <= {_timestamp(last)})"
            for first, last in self.runs
        )
        return f"{_dates(days_of(self))} AND ({each})"

    def of_events(self, time: str = "time", *, before: timedelta = timedelta()) -> str:
        """Return a condition on `date` and the time of events that belong to the minutes, or to the time
        `before` one of their runs.

        An event at midnight belongs to the last minute of the day before. The form lets Delta skip files of
        other times.
        """
        minutes_before = int(before / timedelta(minutes=1))
        runs = Minutes.of(
            at for first, last in self.runs for at in range(first - minutes_before, last + 1)
        ).runs
        each = " OR ".join(
            f"({time} > {_timestamp(first)} AND {time} <= {_timestamp(last + 1)})" for first, last in runs
        )
        days = {*days_of(at for run in runs for at in range(run[0], run[1] + 2))}
        return f"{_dates(sorted(days))} AND ({each})"


def minute_of(time: str | Column = "time") -> Column:
    """Return the minute of an event as a timestamp. An event's time is the end of the second that it
    covers.
    """
    return F.timestamp_micros(_begin_of(_last_us(time), MINUTE_US))


def second_of(time: str | Column = "time") -> Column:
    """Return the second of an event within its minute, 0 to 59."""
    return _div(F.pmod(_last_us(time), F.lit(MINUTE_US)), 1_000_000).cast("tinyint")


def number_of(minute: Column) -> Column:
    """Return a minute, a timestamp, as its number."""
    return _div(F.unix_micros(minute), MINUTE_US)


def minute_of_day(minute: Column) -> Column:
    """Return the number of a minute, a timestamp, in its UTC day."""
    return F.pmod(number_of(minute), F.lit(MINUTES_OF_A_DAY)).cast("int")


def day_of(time: str | Column) -> Column:
    """Return the UTC day of a timestamp as a date."""
    us = F.unix_micros(F.col(time) if isinstance(time, str) else time)
    return F.date_from_unix_date(_div(_begin_of(us, DAY_US), DAY_US).cast("int"))


def with_day(rows: DataFrame) -> DataFrame:
    """Return rows of minutes with their day."""
    return rows.select(day_of(MINUTE).alias("date"), "*")


# Arithmetic of integers: Spark's own functions make an object of the Java calendar for each row.


def _last_us(time: str | Column) -> Column:
    """Return the last moment, in milliseconds, before an event's time."""
    return F.unix_micros(F.col(time) if isinstance(time, str) else time) - 1_000


def _begin_of(us: Column, size: int) -> Column:
    """Return the begin of the interval of `size` that has a moment, before 1970 too."""
    return us - F.pmod(us, F.lit(size))


def _div(us: Column, size: int) -> Column:
    return F.call_function("div", us, F.lit(size).cast("bigint"))


def changes_of(minute: Column) -> tuple[Column, Column]:
    """Return aggregates of the rows with a minute: their number `rows`, and their `minutes`."""
    return F.count(minute).alias("rows"), F.collect_set(number_of(minute)).alias("minutes")


def changes_in(rows: DataFrame, minute: Column) -> dict[str, Any]:
    """Return the values of `changes_of`."""
    (found,) = rows.agg(*changes_of(minute)).collect()
    return {"rows": found["rows"], "minutes": found["minutes"]}


def days_of(minutes: Iterable[int]) -> list[str]:
    """Return the days of minutes as text, in order."""
    return [f"{date.fromordinal(_EPOCH + day)}" for day in sorted({at // MINUTES_OF_A_DAY for at in minutes})]


_EPOCH: Final = date(1970, 1, 1).toordinal()


def _dates(days: Iterable[str]) -> str:
    texts = [f"DATE '{day}'" for day in days]
    return f"date IN ({', '.join(texts)})"


def _timestamp(minute: int) -> str:
    return f"TIMESTAMP '{datetime.fromtimestamp(minute * 60, UTC):%Y-%m-%d %H:%M:00}'"

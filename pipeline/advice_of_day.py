"""Makes the seconds of changed minutes, and the advice of a day from its seconds.

Called by `days`, each time that a day has changed: only advice reads the seconds. Advice takes up to a third
of a second of a processor for a name and key, so that of the present day is made once an hour, or less often
of many names, and once more when the day is over.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline import silver
from pipeline.formats import REQUESTS
from pipeline.gold import advice, seconds, throttling, usage
from pipeline.tables import DATE, Table, Warehouse
from pipeline.times import MINUTE, Minutes

EVERY: Final = timedelta(hours=1)
"""So much of the present day must be new before its advice is made again."""

ROWS_AN_HOUR: Final = 3_000
"""The advice of a day with more rows is made less often. A row takes about a fifth of a second of a
processor at most.
"""


def every(rows: int) -> timedelta:
    """Return how much of the present day must be new, by the rows of its advice."""
    return max(EVERY, EVERY * (rows / ROWS_AN_HOUR))


def make(warehouse: Warehouse, day: str, policy: advice.Policy, today: date | None = None) -> None:
    """Replace the advice of a changed day, a UTC date, and of the day before if its advice lacks the last
    minutes. A day whose seconds are gone keeps its advice.

    Raises one of `CONFLICTS` if another process writes the same rows.
    """
    today = datetime.now(UTC).date() if today is None else today
    before = f"{date.fromisoformat(day) - timedelta(days=1)}"
    spans = _spans(warehouse, seconds.SECONDS, MINUTE, (before, day))
    known = _spans(warehouse, advice.TABLE, advice.UNTIL, (before, day))
    is_over = date.fromisoformat(day) < today
    is_new = not {day} <= spans.keys() & known.keys()
    if is_over or is_new or spans[day].last - known[day].last >= every(known[day].rows):
        _make_day(warehouse, day, policy, spans)
    if before in known and before in spans and known[before].last < spans[before].last:
        _make_day(warehouse, before, policy, spans)


class _Span(NamedTuple):
    first: datetime
    last: datetime
    rows: int


def _make_day(warehouse: Warehouse, day: str, policy: advice.Policy, spans: Mapping[str, _Span]) -> None:
    used = _spans(warehouse, usage.USAGE, MINUTE, (day,))
    if day in used and (day not in spans or spans[day].first > used[day].first):
        # A warehouse of an earlier version lacks them.
        make_seconds(warehouse, Minutes.of_day(day))
        spans = _spans(warehouse, seconds.SECONDS, MINUTE, (day,))
    if day not in spans:
        return
    throttled = None
    if warehouse.exists(throttling.THROTTLING):
        throttled = warehouse.read(throttling.THROTTLING).where(_on(day))
    of_day = warehouse.read(seconds.SECONDS).where(_on(day))
    rows = advice.quota_advice(of_day, throttled, F.lit(day).cast(DATE), policy)
    warehouse.replace(advice.TABLE, rows.withColumn(advice.UNTIL, F.lit(spans[day].last)), _on(day))


def make_seconds(warehouse: Warehouse, minutes: Minutes) -> None:
    """Make the seconds of these minutes from what silver still has of them. Raises like `make`."""
    requests = silver.TABLES[REQUESTS]
    if warehouse.exists(requests):
        events = warehouse.read(requests).where(minutes.of_events())
        warehouse.replace(seconds.SECONDS, seconds.usage_seconds(events), minutes.of_rows())


def _spans(warehouse: Warehouse, table: Table, column: str, days: Iterable[str]) -> dict[str, _Span]:
    """Return the least and the greatest time of each day that has any; of a table of an earlier version,
    which lacks the column, of none.
    """
    if not warehouse.exists(table):
        return {}
    rows = warehouse.read(table)
    if column not in rows.columns:
        return {}
    found = rows.where(" OR ".join(_on(day) for day in days)).groupBy(DATE)
    aggregates = F.min(column).alias("first"), F.max(column).alias("last"), F.count("*").alias("rows")
    return {
        f"{row[DATE]}": _Span(row["first"], row["last"], row["rows"])
        for row in found.agg(*aggregates).collect()
        if row["last"] is not None
    }


def _on(day: str) -> str:
    return f"{DATE} = DATE '{day}'"

"""Brings tables of days forward by what is new in silver: each row of silver is read once.

A table's commits say up to which version of each source a day has the rows. One commit changes rows and says
so; a kill at any point neither loses a row nor counts one twice. A day of which no commit says it is made
from all of its rows: a new day, and one whose commit is no longer among the newest or is so old that
maintenance has removed files of the versions after it.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial, reduce
from typing import Final

from pyspark.sql import DataFrame

from pipeline.conflicts import repeated
from pipeline.tables import DATE, Table, Warehouse

MAX_AGE: Final = timedelta(days=6)
"""The oldest state that is used: maintenance keeps the files that a version needs for a week."""

MAX_VERSIONS: Final = 10_000
"""The most versions of a source that are read for a day; all rows of the day are cheaper then."""

MAX_DAYS: Final = 10
"""The newest days that a commit speaks of: later events than two days are rare."""

WRITER: Final = "forward"

State = Mapping[str, Mapping[str, int]]
"""By day and path of the source: the version up to which the table has the rows."""


@dataclass(frozen=True, slots=True)
class Forward:
    """A table of days whose rows are sums of rows of silver.

    Each source's function returns rows with the table's columns that are not added up; `add_up` adds them up
    by the table's keys. It also adds up rows of the table itself.
    """

    table: Table
    sources: Mapping[Table, Callable[[DataFrame], DataFrame]]
    add_up: Callable[[DataFrame], DataFrame]


def bring_forward(warehouse: Warehouse, forward: Forward, days: Iterable[str]) -> None:
    """Let the table have all rows of the sources for these days."""
    repeated(partial(_bring_forward, warehouse, forward, sorted(set(days))))


def _bring_forward(warehouse: Warehouse, forward: Forward, days: list[str]) -> None:
    number, state = state_of(warehouse, forward.table)
    if not state.keys() >= set(days):
        for source in forward.sources:
            warehouse.keep_changes(source)
    versions = {source: warehouse.newest_version(source) for source in forward.sources}
    newest = {source.path: version for source, version in versions.items() if version >= 0}
    state = {day: has for day, has in state.items() if _is_usable(has, newest)}
    parts: list[DataFrame] = []
    changed = set[str]()
    for source, rows_of in forward.sources.items():
        for since, its_days in _by_version(state, days, source.path).items():
            if since == newest.get(source.path):
                continue
            if since is None:
                rows = warehouse.read(source, newest[source.path])
            else:
                rows = warehouse.changes(source, since + 1, newest[source.path])
            parts.append(rows_of(rows.where(_of(its_days))))
            changed.update(its_days)
    if not changed:
        return
    known = sorted(changed & state.keys())
    if known:
        parts.append(warehouse.read(forward.table).where(_of(known)).select(*parts[0].columns))
    rows = forward.add_up(reduce(DataFrame.unionByName, parts))
    following = {**state, **dict.fromkeys(changed, newest)}
    warehouse.replace_once(
        forward.table, rows, _of(sorted(changed)), WRITER, number + 1, _in_words(number + 1, following)
    )


def _is_usable(has: Mapping[str, int], newest: Mapping[str, int]) -> bool:
    """Return whether what follows these versions can be read, and is little enough."""
    return all(path in newest and 0 <= newest[path] - since <= MAX_VERSIONS for path, since in has.items())


def _by_version(state: State, days: Iterable[str], source: str) -> dict[int | None, list[str]]:
    """Return the days by the source's version up to which the table has them, None for no row of it."""
    found = defaultdict[int | None, list[str]](list)
    for day in days:
        found[state.get(day, {}).get(source)].append(day)
    return found


def state_of(warehouse: Warehouse, table: Table) -> tuple[int, State]:
    """Return the number of the newest commit that speaks of days, and what it says."""
    found = warehouse.newest_note(table, WRITER)
    if found is None:
        return 0, {}
    note, written = found
    said = json.loads(note)
    is_old = datetime.now(UTC) - written > MAX_AGE
    return said[WRITER], {} if is_old else said["days"]


def _in_words(number: int, state: State) -> str:
    days = {day: dict(state[day]) for day in sorted(state)[-MAX_DAYS:]}
    return json.dumps({WRITER: number, "days": days}, separators=(",", ":"))


def _of(days: Iterable[str]) -> str:
    texts = ", ".join(f"DATE '{day}'" for day in days)
    return f"{DATE} IN ({texts})"

"""The three tables of `weir top`: throttled clients, the rules nearest to their limits, the busiest
clients.

Used by the screen. A table defines its columns and its filter; columns.py computes the widths.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from broker.commands.top.columns import Column
from broker.commands.top.picture import Client, Held, Picture, Rule
from broker.commands.top.units import NOTHING, digits, milliseconds, rate, share, size

BAR: Final = 10
KINDS: Final = {"request": "time", "controller_mutation": "topics", "connection_rate": "connect"}
OBEYS: Final = {True: "yes", False: "no", None: NOTHING}


@dataclass(frozen=True, slots=True)
class Table:
    """A table's title, rows and columns. The filter searches `words`.

    `server_sorts` maps a column's title to the sort of GET /events, which sorts before it cuts the table to
    its first page.
    """

    title: str
    empty: str
    rows: Callable[[Picture], Iterable[Any]]
    words: Callable[[Any], Iterable[str]]
    columns: tuple[Column[Any], ...]
    server_sorts: tuple[tuple[str, str], ...] = ()

    @property
    def sortable(self) -> tuple[Column[Any], ...]:
        """Return the sortable columns; the first is the default."""
        return tuple(column for column in self.columns if column.sort is not None)

    def found(self, picture: Picture, needle: str, by: Column[Any], *, ascending: bool) -> list[Any]:
        """Return the rows whose words contain `needle`, ignoring case, sorted."""
        wanted = needle.casefold()
        rows = [
            row
            for row in self.rows(picture)
            if not wanted or any(wanted in word.casefold() for word in self.words(row))
        ]
        assert by.sort is not None
        return sorted(rows, key=by.sort, reverse=not ascending)


def bar(fraction: float) -> str:
    """Return a bar such as [#######   ]."""
    full = min(BAR, max(0, round(fraction * BAR)))
    return f"[{'#' * full}{' ' * (BAR - full)}]"


def _against(key: str, observed: float | None, bound: float) -> str:
    return f"{rate(key, observed, bound)} / {rate(key, bound)}"


HELD: Final = Table(
    "Throttled now",
    "No connection is throttled.",
    lambda picture: picture.held,
    lambda row: (row.client_id, row.principal, row.address, row.kind, row.rule),
    (
        Column[Held]("CLIENT", lambda row: row.client_id or '""', 10, 1, 3),
        Column[Held]("PRINCIPAL", lambda row: row.principal, 9, 7, 2),
        Column[Held]("ADDRESS", lambda row: row.address, 15, 9),
        Column[Held]("QUOTA", lambda row: KINDS.get(row.kind, row.kind), 7, 5),
        Column[Held]("RULE", lambda row: row.rule, 14, 4, 4),
        Column[Held](
            "USED / LIMIT",
            lambda row: _against(row.key, row.observed, row.bound),
            21,
            2,
            right=True,
            sort=lambda row: row.over,
        ),
        Column[Held](
            "DELAY",
            lambda row: milliseconds(row.delay_ms),
            9,
            8,
            right=True,
            sort=lambda row: row.delay_ms,
        ),
        Column[Held](
            "LEFT", lambda row: milliseconds(row.left_ms), 9, 3, right=True, sort=lambda row: row.left_ms
        ),
        Column[Held]("TIMES", lambda row: f"{row.times:,}", 7, 10, right=True, sort=lambda row: row.times),
        Column[Held]("OBEYS", lambda row: OBEYS[row.obeys], 5, 6),
    ),
)

RULES: Final = Table(
    "Rules nearest to their limits",
    "No rule applies.",
    lambda picture: picture.rules,
    lambda row: (row.entity, row.key),
    (
        Column[Rule]("RULE", lambda row: row.entity, 14, 1, 1),
        Column[Rule]("LIMIT", lambda row: row.key, 24, 4),
        Column[Rule](
            "USED / LIMIT", lambda row: _against(row.key, row.observed, row.value), 21, 3, right=True
        ),
        Column[Rule]("", lambda row: bar(row.used), BAR + 2, 5),
        Column[Rule]("USED", lambda row: share(row.used), 6, 2, right=True, sort=lambda row: row.used),
        Column[Rule]("MUTED", lambda row: f"{row.held:,}", 6, 6, right=True, sort=lambda row: row.held),
        Column[Rule]("MODE", lambda row: "shadow" if row.shadow else "", 6, 7),
    ),
)

CLIENTS: Final = Table(
    "Busiest clients",
    "No client is connected.",
    lambda picture: picture.clients,
    lambda row: (row.client_id, row.user),
    (
        Column[Client]("CLIENT", lambda row: row.client_id or '""', 10, 1, 2),
        Column[Client]("USER", lambda row: row.user, 9, 6, 1),
        Column[Client](
            "IN",
            lambda row: f"{size(row.bytes_in)}/s",
            9,
            2,
            right=True,
            sort=lambda row: row.bytes_in,
        ),
        Column[Client](
            "OUT", lambda row: f"{size(row.bytes_out)}/s", 9, 3, right=True, sort=lambda row: row.bytes_out
        ),
        Column[Client](
            "REQ/S", lambda row: digits(row.requests), 7, 4, right=True, sort=lambda row: row.requests
        ),
        Column[Client](
            "TIME", lambda row: f"{digits(row.time)} %", 7, 7, right=True, sort=lambda row: row.time
        ),
        Column[Client](
            "CONNS", lambda row: f"{row.connections:,}", 7, 5, right=True, sort=lambda row: row.connections
        ),
        Column[Client]("LIMITED BY", lambda row: row.limited_by or NOTHING, 18, 8, 1),
    ),
    (
        ("IN", "bytes_in"),
        ("OUT", "bytes_out"),
        ("REQ/S", "requests"),
        ("TIME", "request_percentage"),
        ("CONNS", "connections"),
    ),
)

TABLES: Final = (HELD, RULES, CLIENTS)

"""The three tables of `weir top`: throttled clients, the rules nearest to their limits, the busiest clients.

Used by the screen. Widths depend on the available width only and never on the cells' contents, so that
columns stay in place from one second to the next. Numbers have three significant digits and a unit, as on the
console's pages.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, Literal, TypeVar

import msgspec

from broker.common.quantities import group
from broker.tools.top.snapshot import ClientRow, LimitRow, Snapshot, ThrottledChannel

GAP: Final = 2
BAR: Final = 10
MISSING: Final = "-"
KINDS: Final = {"request": "time", "controller_mutation": "topics", "connection_rate": "connect"}
OBEYS: Final = {True: "yes", False: "no", None: MISSING}

_DECIMAL: Final = ("B", "kB", "MB", "GB", "TB", "PB")
_BINARY: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_BYTES: Final = ("producer_byte_rate", "consumer_byte_rate")
_PERCENT: Final = ("request_percentage",)

Row = TypeVar("Row")


class Column(msgspec.Struct, Generic[Row], frozen=True):
    """A column of `least` cells plus a share of the spare cells in proportion to `grows`.

    Columns with a high `rank` are dropped first. `sort` is the sort key of a sortable column; `ascending`
    its initial direction.
    """

    title: str
    text: Callable[[Row], str]
    least: int
    rank: int
    grows: int = 0
    align: Literal["left", "right"] = "left"
    sort: Callable[[Row], Any] | None = None
    ascending: bool = False


def fit(columns: Sequence[Column[Row]], width: int) -> list[tuple[Column[Row], int]]:
    """Return the columns that fit, in their order, with their widths; at least one."""
    chosen: list[Column[Row]] = []
    used = -GAP
    for column in sorted(columns, key=lambda each: each.rank):
        if used + GAP + column.least <= width:
            used += GAP + column.least
            chosen.append(column)
    if not chosen:
        return [(min(columns, key=lambda each: each.rank), width)]
    spare, parts = width - used, sum(column.grows for column in chosen)
    return [
        (column, column.least + (spare * column.grows // parts if parts else 0))
        for column in columns
        if column in chosen
    ]


class Table(msgspec.Struct, frozen=True):
    """A table's title, rows and columns. The filter searches `searched`.

    `server_sorts` maps a column's title to the sort of GET /events, which sorts before it cuts the table to
    its first page.
    """

    title: str
    empty: str
    rows: Callable[[Snapshot], Iterable[Any]]
    searched: Callable[[Any], Iterable[str]]
    columns: tuple[Column[Any], ...]
    server_sorts: Mapping[str, str] = msgspec.field(default_factory=dict)

    @property
    def sortable(self) -> tuple[Column[Any], ...]:
        """Return the sortable columns; the first is the default."""
        return tuple(column for column in self.columns if column.sort is not None)

    def matching(self, snapshot: Snapshot, text: str, by: Column[Any], *, ascending: bool) -> list[Any]:
        """Return the rows that contain `text`, ignoring case, sorted."""
        wanted = text.casefold()
        rows = [
            row
            for row in self.rows(snapshot)
            if not wanted or any(wanted in each.casefold() for each in self.searched(row))
        ]
        assert by.sort is not None
        return sorted(rows, key=by.sort, reverse=not ascending)


def digits(value: float) -> str:
    """Format a number: 1.05, 31.5, 312, 12 345."""
    size = abs(value)
    if size >= 999.5 or value == int(value):
        return group(round(value))
    text = f"{value:.{0 if size >= 99.95 else 1 if size >= 9.995 else 2}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def size(value: float, *, binary: bool = False) -> str:
    """Format a number of bytes: 1.2 MB, or 1.14 MiB."""
    base, names = (1024, _BINARY) if binary else (1000, _DECIMAL)
    step = 0
    while step < len(names) - 1 and abs(value) >= base * 0.9995:
        value /= base
        step += 1
    return f"{digits(value) if step else round(value)} {names[step]}"


def rate(key: str, value: float | None, bound: float | None = None) -> str:
    """Format a limit `key`, or the value compared with `bound`: 1048576 is 1 MiB and 1000000 is 1 MB."""
    if value is None:
        return MISSING
    if key in _BYTES:
        limit = value if bound is None else bound
        return f"{size(value, binary=limit >= 1024 and limit % 1024 == 0 and limit % 1000 != 0)}/s"
    return f"{digits(value)} %" if key in _PERCENT else f"{digits(value)}/s"


def share(fraction: float | None) -> str:
    """Format a fraction: 0.973 is 97 %."""
    return MISSING if fraction is None else f"{fraction * 100:.0f} %"


def milliseconds(value: float) -> str:
    """Format a time: 340 ms, 9 900 ms, 104 s."""
    if value < 9_999.5:
        return f"{group(max(0, round(value)))} ms"
    return f"{group(round(value / 1_000))} s"


def bar(fraction: float) -> str:
    """Return a bar such as [#######   ]."""
    full = min(BAR, max(0, round(fraction * BAR)))
    return f"[{'#' * full}{' ' * (BAR - full)}]"


def _usage(key: str, observed: float | None, bound: float) -> str:
    return f"{rate(key, observed, bound)} / {rate(key, bound)}"


def _number(
    title: str,
    text: Callable[[Any], str],
    least: int,
    rank: int,
    sort: Callable[[Any], float] | None = None,
) -> Column[Any]:
    return Column(title, text, least, rank, align="right", sort=sort)


def _throttled_client(row: ThrottledChannel) -> str:
    name = row.client_id or '""'
    return f"{name} at {row.gateway}" if row.gateway else name


THROTTLED: Final = Table(
    "Throttled now",
    "No connection is throttled.",
    lambda snapshot: snapshot.throttled.items,
    lambda row: (row.client_id, row.principal, row.address, row.quota_type, row.rule, row.gateway),
    (
        Column[ThrottledChannel]("CLIENT", _throttled_client, 10, 1, 3),
        Column[ThrottledChannel]("PRINCIPAL", lambda row: row.principal, 9, 7, 2),
        Column[ThrottledChannel]("ADDRESS", lambda row: row.address, 15, 9),
        Column[ThrottledChannel]("QUOTA", lambda row: KINDS.get(row.quota_type, row.quota_type), 7, 5),
        Column[ThrottledChannel]("RULE", lambda row: row.rule, 14, 4, 4),
        _number(
            "USED / LIMIT",
            lambda row: _usage(row.key, row.observed, row.bound),
            21,
            2,
            lambda row: row.excess,
        ),
        _number("DELAY", lambda row: milliseconds(row.throttle_ms), 9, 8, lambda row: row.throttle_ms),
        _number("LEFT", lambda row: milliseconds(row.remaining_ms), 9, 3, lambda row: row.remaining_ms),
        _number("TIMES", lambda row: group(row.times), 7, 10, lambda row: row.times),
        Column[ThrottledChannel]("OBEYS", lambda row: OBEYS[row.obeys], 5, 6),
    ),
)

RULES: Final = Table(
    "Rules nearest to their limits",
    "No rule applies.",
    Snapshot.rules,
    lambda row: (row.entity, row.key),
    (
        Column[LimitRow]("RULE", lambda row: row.entity, 14, 1, 1),
        Column[LimitRow]("LIMIT", lambda row: row.key, 24, 4),
        _number("USED / LIMIT", lambda row: _usage(row.key, row.limit.observed, row.limit.value), 21, 3),
        Column[LimitRow]("", lambda row: bar(row.used), BAR + 2, 5),
        _number("USED", lambda row: share(row.used), 6, 2, lambda row: row.used),
        _number("MUTED", lambda row: group(row.limit.throttled), 6, 6, lambda row: row.limit.throttled),
        Column[LimitRow]("MODE", lambda row: "shadow" if row.shadow else "", 6, 7),
    ),
)

CLIENTS: Final = Table(
    "Busiest clients",
    "No client is connected.",
    lambda snapshot: snapshot.usage.items,
    lambda row: (row.client_id, row.user),
    (
        Column[ClientRow]("CLIENT", lambda row: row.client_id or '""', 10, 1, 2),
        Column[ClientRow]("USER", lambda row: row.user, 9, 6, 1),
        _number("IN", lambda row: f"{size(row.bytes_in_per_s)}/s", 9, 2, lambda row: row.bytes_in_per_s),
        _number("OUT", lambda row: f"{size(row.bytes_out_per_s)}/s", 9, 3, lambda row: row.bytes_out_per_s),
        _number("REQ/S", lambda row: digits(row.requests_per_s), 7, 4, lambda row: row.requests_per_s),
        _number("TIME", lambda row: f"{digits(row.request_share)} %", 7, 7, lambda row: row.request_share),
        _number("CONNS", lambda row: group(row.connections), 7, 5, lambda row: row.connections),
        Column[ClientRow]("LIMITED BY", lambda row: ", ".join(row.limited_by) or MISSING, 18, 8, 1),
    ),
    {
        "IN": "bytes_in",
        "OUT": "bytes_out",
        "REQ/S": "requests",
        "TIME": "request_percentage",
        "CONNS": "connections",
    },
)

TABLES: Final = (THROTTLED, RULES, CLIENTS)

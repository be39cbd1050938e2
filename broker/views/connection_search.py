"""Search, order and filters of connections: for the console, and for gateways that list theirs at the console
of another one.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from broker.common.slices import Steps
from broker.controller.rows.connections import ConnectionRow

DEFAULT_SORT: Final = "since"

SORTS: Final[Mapping[str, Callable[[ConnectionRow], Any]]] = {
    "client": lambda row: row.client_id.casefold(),
    "principal": lambda row: row.principal.casefold(),
    "address": lambda row: row.address,
    "software": lambda row: (row.software_name.casefold(), version_order(row.software_version)),
    "version": lambda row: (version_order(row.software_version), row.software_name.casefold()),
    "listener": lambda row: row.listener,
    "upstream": lambda row: (row.upstream_node is None, row.upstream_node or 0, row.upstream),
    "requests": lambda row: row.requests,
    "bytes_in": lambda row: row.bytes_in,
    "bytes_out": lambda row: row.bytes_out,
    "state": lambda row: row.mute_state,
}

FILTERS: Final[Mapping[str, Callable[[ConnectionRow], bool]]] = {
    "muted": lambda row: row.mute_state != "not_muted",
    "throttled": lambda row: "throttled" in row.mute_state,
    "tls": lambda row: row.tls != "",
    "plain": lambda row: row.tls == "",
}


_NUMBERS: Final = re.compile(r"([0-9]{1,9})")


def version_order(version: str) -> tuple[tuple[int, str], ...]:
    """Return the sort key of a version: 2.9.0 is before 2.10.0."""
    return tuple(
        (int(part), "") if part.isdigit() else (-1, part) for part in _NUMBERS.split(version) if part
    )


_SORTED_AT_ONCE: Final = 256


class ConnectionQuery(msgspec.Struct, frozen=True):
    """`search` matches `search_texts`, ignoring case, `shape` is one of FILTERS and `sort` one of SORTS; None
    is the order of their opening. `rows` is the number of rows to return.
    """

    search: str = ""
    shape: str | None = None
    sort: str | None = None
    descending: bool = False
    rows: int = 100


class ConnectionList(msgspec.Struct, frozen=True):
    """The first `rows` of `total` that match, among `of` connections."""

    rows: tuple[ConnectionRow, ...]
    total: int
    of: int


class RemoteConnections(msgspec.Struct, frozen=True):
    """The lists of other gateways together. `unlisted` rows belong to the query and are missing, because a
    gateway lists no more; `unanswered` gateways have not answered in time.
    """

    rows: tuple[ConnectionRow, ...] = ()
    total: int = 0
    of: int = 0
    unlisted: int = 0
    unanswered: int = 0


def search_texts(row: ConnectionRow) -> tuple[str, ...]:
    return (
        row.connection_id,
        row.client_id,
        row.principal,
        row.address,
        row.proxy,
        f"{row.software_name} {row.software_version}",
        row.listener,
    )


def natural_order(row: ConnectionRow) -> tuple[int, str]:
    """Return the sort key of the default order, which breaks ties of the others."""
    return row.opened_at_ms, row.connection_id


def find_connections(rows: Iterable[ConnectionRow], query: ConnectionQuery) -> Steps[ConnectionList]:
    """Return the first rows that match in the order of the query."""
    needle = query.search.casefold()
    fits = None if query.shape is None else FILTERS[query.shape]
    measure = None if query.sort in (None, DEFAULT_SORT) else SORTS[query.sort or ""]
    best: list[ConnectionRow] = []
    new: list[ConnectionRow] = []
    total = of = 0
    for row in rows:
        of += 1
        yield
        if fits is not None and not fits(row):
            continue
        if needle and not any(needle in text.casefold() for text in search_texts(row)):
            continue
        total += 1
        new.append(row)
        if len(new) >= _SORTED_AT_ONCE:
            best, new = _first(best + new, measure, query), []
            yield
    return ConnectionList(tuple(_first(best + new, measure, query)), total, of)


def _first(
    rows: list[ConnectionRow], measure: Callable[[ConnectionRow], Any] | None, query: ConnectionQuery
) -> list[ConnectionRow]:
    if measure is None:
        rows.sort(key=natural_order, reverse=query.descending)
    else:
        rows.sort(key=natural_order)
        rows.sort(key=measure, reverse=query.descending)
    return rows[: query.rows]

"""SQL statements over one gold table, `t`, made of parts: a scope, a selection, an order, a search.

Used by webui.insights.queries. Pure: independent of files, processes and HTTP. Every statement restricts its
days, so that only these are read, and its rows have a total order, so that pages are consistent.
"""

from collections.abc import Mapping
from datetime import date
from typing import Final

import msgspec


class Scope(msgspec.Struct, frozen=True):
    """UTC days, both inclusive, of one cluster. Cluster None selects all clusters, "" the rows without a
    cluster, which earlier versions wrote.
    """

    first: date
    last: date
    cluster: str | None = None


class TableQuery(msgspec.Struct, frozen=True):
    """One question: an SQL statement, without LIMIT, over the table `table`."""

    table: str
    sql: str
    scope: Scope


class Selection(msgspec.Struct, frozen=True):
    """Rows that can be searched and sorted.

    `select` is a statement without an order. `natural` is a total order of its rows; it breaks the ties of
    other orders. `sorts` are the columns by which a caller may sort, with their expressions; `texts` are the
    expressions in which a search looks.
    """

    table: str
    select: str
    natural: str
    sorts: Mapping[str, str]
    texts: tuple[str, ...]
    scope: Scope

    def query(self, sort: str | None = None, order: str = "desc", search: str = "") -> TableQuery:
        """Return the question with rows in this order and, with a search, only rows that contain its text in
        upper or lower case.
        """
        sql = f"SELECT * FROM ({self.select})"
        if search:
            wanted = f"lower({literal(search)})"
            sql += f" WHERE {' OR '.join(f'strpos(lower({each}), {wanted}) > 0' for each in self.texts)}"
        first = "" if sort is None else f"{self.sorts[sort]} {order} NULLS LAST, "
        return TableQuery(self.table, f"{sql} ORDER BY {first}{self.natural}", self.scope)


class Where(msgspec.Struct):
    """The condition of a statement: its scope and further terms."""

    scope: Scope
    terms: list[str] = msgspec.field(default_factory=list)

    def equal(self, column: str, value: str | None) -> "Where":
        """Add a term, unless the value is None."""
        if value is not None:
            self.terms.append(f"{column} = {literal(value)}")
        return self

    def __str__(self) -> str:
        scope = self.scope
        days = f"date >= DATE '{scope.first}' AND date <= DATE '{scope.last}'"
        # deltalake ignores a condition on a constant null, which the column of an older table is.
        cluster = [] if scope.cluster is None else [f"coalesce({CLUSTER}, '') = {literal(scope.cluster)}"]
        return " AND ".join((days, *cluster, *self.terms))


CLUSTER: Final = '"cluster"'


def literal(text: str) -> str:
    """Quote a text for SQL; the quote is the only special character."""
    return "'" + text.replace("'", "''") + "'"


def columns(*names: str) -> dict[str, str]:
    """Return columns by which rows can be sorted."""
    return {name: f'"{name}"' for name in names}

"""GET /connections; GET and DELETE /connections/{id}: open connections.

Where gateways share limits, their connections are on the same pages.
"""

from heapq import nlargest
from itertools import chain
from typing import Any, Final

from broker.controller.commands import CloseConnection
from broker.controller.rows.connections import ConnectionRow, SoftwareRow
from broker.views.connection_search import (
    DEFAULT_SORT,
    FILTERS,
    SORTS,
    ConnectionQuery,
    natural_order,
    search_texts,
    version_order,
)
from broker.views.console import Views
from webui.problem import PROBLEM, Problem
from webui.rest.paging import page_of, page_query, page_schema, table_page
from webui.rest.replies import no_content
from webui.rest.routing import Call, Query, Reply, ResponseSpec, Route
from webui.schema import COUNT, Listing, Record, Text
from webui.tables.answers import as_json, schema_of
from webui.tables.listing import Page, RemoteRows, Table
from webui.tables.slices import collect, run_in_slices

CONNECTION: Final = schema_of(ConnectionRow, "Connection")
CONNECTION_PAGE: Final = page_schema(CONNECTION, unlisted=COUNT, unanswered=COUNT)

CONNECTIONS: Final[Table[ConnectionRow]] = Table(
    json=as_json,
    search_texts=search_texts,
    default_sort=DEFAULT_SORT,
    sort_key=natural_order,
    sorts=SORTS,
    filters=FILTERS,
)


async def connections(call: Call) -> Reply:
    others = await remote_rows(call.views, page_of(call))
    return Reply(
        await table_page(call, CONNECTIONS, chain(call.views.live.each_connection(), others.rows), others)
    )


async def remote_rows(views: Views, page: Page) -> RemoteRows:
    """Ask the other gateways that share limits for what belongs to the page."""
    rows = page.given + page.limit
    query = ConnectionQuery(page.search, page.filter, page.sort, page.descending, rows)
    found = await views.shares.connections(query)
    more = found.total - len(found.rows), found.of - len(found.rows)
    return RemoteRows(found.rows, *more, {"unlisted": found.unlisted, "unanswered": found.unanswered})


SOFTWARE_ROW: Final = schema_of(SoftwareRow, "ClientSoftware")
SOFTWARE: Final = Record({"items": Listing(SOFTWARE_ROW), "of": COUNT, "connections": COUNT})
MAX_SOFTWARE: Final = 100
"""Clients choose the texts, so their number has a bound."""


async def software_json(views: Views) -> dict[str, Any]:
    """Return the most frequent versions, sorted by name and version."""
    rows = await run_in_slices(views.live.software())
    most = nlargest(MAX_SOFTWARE, rows, lambda row: row.connections)
    most.sort(key=lambda row: (row.software_name.casefold(), version_order(row.software_version)))
    total = sum(row.connections for row in rows)
    return {"items": [as_json(row) for row in most], "of": len(rows), "connections": total}


async def software(call: Call) -> Reply:
    return Reply(await software_json(call.views))


async def connection(call: Call) -> Reply:
    wanted = call.path_params["id"]
    for row in await collect(call.views.live.each_connection()):
        if row.connection_id == wanted:
            return Reply(as_json(row))
    raise Problem(404, "Connection not found, or closed.")


async def close_connection(call: Call) -> Reply:
    outcome = await call.apply(CloseConnection(call.path_params["id"]))
    if not outcome.ok:
        raise Problem.of(outcome.error, outcome.message)
    call.console.live.refresh()
    return no_content()


_ID: Final = (Query("id", Text(min_length=1), "A `connection_id`."),)
_GONE: Final = ResponseSpec("Not found, or no longer present", PROBLEM)

ROUTES: Final = (
    Route(
        "GET /api/v1/connections",
        "listConnections",
        "Open connections. Where gateways share limits, those of all gateways: `gateway` is the id of the "
        "other one, which alone can close it. A gateway lists its first 500 rows at most: of those that "
        "belong to the page, `unlisted` are missing. `unanswered` gateways gave no answer in two seconds.",
        connections,
        {200: ResponseSpec("A page of connections", CONNECTION_PAGE)},
        query=page_query(CONNECTIONS),
    ),
    Route(
        "GET /api/v1/connections:software",
        "getConnectionSoftware",
        "Open connections of this server by client software and version: the 100 most frequent, in the order "
        "of names and versions; `of` is the number of all, `connections` that of all connections.",
        software,
        {200: ResponseSpec("The versions with their connections", SOFTWARE)},
    ),
    Route(
        "GET /api/v1/connections/{id}",
        "getConnection",
        "One connection.",
        connection,
        {200: ResponseSpec("The connection", CONNECTION), 404: _GONE},
        path_params=_ID,
    ),
    Route(
        "DELETE /api/v1/connections/{id}",
        "closeConnection",
        "Closes one connection; its client can reconnect. Requires the role editor.",
        close_connection,
        {204: ResponseSpec("The connection is closed"), 404: _GONE},
        path_params=_ID,
    ),
)

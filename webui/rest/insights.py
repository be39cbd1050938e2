"""The common parts of the answers of /insights and /insights/*: the scope of a request, pages, series, and
the state of the tables.

A request becomes a query (webui.insights.queries), another process reads the tables
(webui.insights.reader), and its response is passed on unchanged. webui.rest.insights_routes has the routes.
"""

import hashlib
import re
import shlex
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from broker.controller.rows.client_endpoint import ClientEndpoint
from webui.insights.reader import INSTALL, InsightsUnavailable
from webui.insights.statements import Scope, Selection, TableQuery
from webui.insights.tables import USAGE
from webui.problem import Problem
from webui.rest import insights_schemas as schemas
from webui.rest.paging import bad_cursor, digest_of, list_query, place_of
from webui.rest.routing import Call, Query, Reply
from webui.schema import Invalid, Text

MAX_DAYS: Final = 92
USUAL_DAYS: Final = 7
MAX_MINUTE_DAYS: Final = 1
SETTING: Final = "insights.warehouse"
STALE_AFTER_GAPS: Final = 2
LEAST_STALE_MS: Final = 300_000
"""The pipeline aggregates events every minute, and days every five minutes."""

UNKNOWN_GAP_MS: Final = 86_400_000
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_MAX_PLACE: Final = 10**18

MakeSelection = Callable[[Call, Scope], Selection]
MakeQuery = Callable[[Call, Scope], TableQuery]

SCOPE: Final = (
    Query("from", schemas.DAY, f"First UTC day; default {USUAL_DAYS - 1} days before `to`."),
    Query("to", schemas.DAY, "Last UTC day, inclusive; default today."),
    Query(
        "cluster",
        Text(),
        "Only this cluster; empty: only rows without a cluster, which earlier versions wrote. Default all.",
    ),
)


def page_parameters(
    sorts: Iterable[str], *, limit: int = 100, most: int = schemas.MAX_ROWS
) -> tuple[Query, ...]:
    """Return the parameters of a list that is searched, sorted and paged."""
    return (
        Query("search", Text(), "Only rows with this text in a name, ignoring case.", default=""),
        Query("sort", Text(choices=tuple(sorts)), "Sort column; default the order described above."),
        Query("order", Text(choices=("asc", "desc")), "Order of `sort`.", default="desc"),
        *list_query(limit=limit, most=most),
    )


def scope_of(call: Call) -> Scope:
    """Raises Invalid."""
    today = datetime.fromtimestamp(call.console.now_ms() / 1_000, UTC).date()
    last = day_of(call.query["to"], "to") or today
    first = day_of(call.query["from"], "from") or last - timedelta(
        days=min(USUAL_DAYS - 1, last.toordinal() - 1)
    )
    if first > last:
        raise Invalid("from", "must not be after `to`")
    if (last - first).days >= MAX_DAYS:
        raise Invalid("from", f"must be less than {MAX_DAYS} days before `to`")
    return Scope(first, last, call.query["cluster"])


def day_of(text: str | None, name: str) -> date | None:
    """Raises Invalid."""
    if text is None:
        return None
    try:
        # Reject the week and day-of-year formats of ISO 8601.
        return date.fromisoformat(text if _DAY.fullmatch(text) else "")
    except ValueError:
        raise Invalid(name, "must be a date such as 2026-01-31") from None


def _days(scope: Scope) -> dict[str, str]:
    """Return what also binds a cursor: the days that a request without `from` and `to` selects change."""
    return {"from": str(scope.first), "to": str(scope.last)}


def _cursor_of(call: Call, scope: Scope) -> tuple[int | None, int]:
    """Return the version of the table and the offset at which a page begins. Raises Problem 400."""
    match place_of(call, _days(scope)):
        case None:
            return None, 0
        case [int() as version, int() as offset] if (
            0 <= min(version, offset) <= max(version, offset) < _MAX_PLACE
        ):
            return version, offset
    raise bad_cursor("must be the `next` of the previous page")


def page_handler(make_selection: MakeSelection) -> Callable[[Call], Any]:
    async def handle(call: Call) -> Reply:
        return reply(call, await page_body(call, make_selection))

    return handle


async def page_body(call: Call, make_selection: MakeSelection, head: dict[str, Any] | None = None) -> bytes:
    """Return a page as JSON, with the fields of `head`. Raises Invalid and Problem."""
    scope = scope_of(call)
    version, offset = _cursor_of(call, scope)
    query = call.query
    wanted = make_selection(call, scope).query(query["sort"], query["order"], query["search"])
    return await _body(call, wanted, head or {}, (version, offset, query["limit"]), paged=True)


def series_handler(make_query: MakeQuery) -> Callable[[Call], Any]:
    async def handle(call: Call) -> Reply:
        scope, step = scope_of(call), call.query.get("step", "day")
        if step == "minute" and (scope.last - scope.first).days >= MAX_MINUTE_DAYS:
            raise Invalid("step", "`minute` requires a single day")
        rows = None, 0, schemas.MAX_POINTS
        return reply(call, await _body(call, make_query(call, scope), {"step": step}, rows, paged=False))

    return handle


async def _body(
    call: Call,
    query: TableQuery,
    head: dict[str, Any],
    rows: tuple[int | None, int, int],
    *,
    paged: bool,
) -> bytes:
    """Ask for `rows`: of a version of the table (None: the newest), an offset and a number."""
    version, offset, limit = rows
    scope = query.scope
    question = {
        "table": query.table,
        "sql": query.sql,
        "version": version,
        "offset": offset,
        "limit": limit,
        "cursor_digest": digest_of(call, _days(scope)) if paged else None,
        "head": {"from": str(scope.first), "to": str(scope.last), "cluster": scope.cluster} | head,
    }
    return await call.console.insights.rows(question)


def reply(call: Call, body: bytes) -> Reply:
    """Return the body, or 304 if the caller has it."""
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    if call.headers.get("If-None-Match") == tag:
        return Reply(b"", 304, headers={"ETag": tag})
    return Reply(body, headers={"ETag": tag})


async def state(call: Call) -> Reply:
    """Return the state of the tables, with setup steps if there are none."""
    reader = call.console.insights
    endpoint = call.views.server_info().endpoint
    answer: dict[str, Any] = {
        "warehouse": reader.warehouse,
        "problem": None,
        "newest_at": None,
        "written_at": None,
        "usual_ms": None,
        "setting": SETTING,
        "install": INSTALL,
        "command": pipeline_command(endpoint, reader.warehouse or "/srv/weir"),
        "tables": [],
    }
    try:
        tables = await reader.table_states()
    except InsightsUnavailable as problem:
        is_off = problem.members["code"] == "INSIGHTS_OFF"
        return Reply({"state": "off" if is_off else "missing"} | answer)
    except Problem as problem:
        return Reply({"state": "unreadable"} | answer | {"problem": problem.detail})
    return Reply(answer | {"tables": tables} | fresh(tables, call.console.now_ms()))


def pipeline_command(endpoint: ClientEndpoint, warehouse: str) -> str:
    """Return the line that runs the pipeline, for a POSIX shell."""
    words = ["weir", "pipeline", "run", "--continuous", "--bootstrap", endpoint.address]
    for key, value in endpoint.java().items():
        words += ["--option", f"{key}={value}"]
    return shlex.join([*words, "--warehouse", warehouse])


def fresh(tables: list[dict[str, Any]], now_ms: int) -> dict[str, Any]:
    """Return the freshness of the usage table, which stands for all tables because every client event changes
    it. It is stale if it has not been written for twice the longest recent interval between writes.
    """
    usage = next(table for table in tables if table["name"] == USAGE)
    if usage["state"] != "there":
        return {"state": "none" if usage["state"] == "none" else "unreadable", "problem": usage["problem"]}
    gap_ms, written_at = usage["gap_ms"], usage["written_at"]
    most_ms = UNKNOWN_GAP_MS if gap_ms is None else max(STALE_AFTER_GAPS * gap_ms, LEAST_STALE_MS)
    age_ms = 0.0 if written_at is None else now_ms - datetime.fromisoformat(written_at).timestamp() * 1_000
    return {
        "state": "stale" if age_ms > most_ms else "ready",
        "newest_at": usage["newest_at"],
        "written_at": written_at,
        "usual_ms": gap_ms,
    }

"""GET /insights and /insights/*: queries of the pipeline's gold tables.

A request becomes a query (webui.insights.queries), another process reads the tables
(webui.insights.reader), and its response is passed on unchanged.
"""

import hashlib
import re
import shlex
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from webui.insights import queries
from webui.insights.queries import ClientFilter, Days, TableQuery
from webui.insights.reader import INSTALL, InsightsUnavailable
from webui.insights.tables import USAGE
from webui.rest import insights_schemas as schemas
from webui.rest.problem import PROBLEM, Problem
from webui.rest.routing import Call, Query, Reply, ResponseSpec, Route
from webui.rest.schema import Invalid, Number, Record, Text

MAX_DAYS: Final = 92
USUAL_DAYS: Final = 7
MAX_MINUTE_DAYS: Final = 1
SETTING: Final = "insights.warehouse"
STALE_AFTER_GAPS: Final = 2
LEAST_STALE_MS: Final = 300_000
"""The pipeline aggregates events every minute, and days every five minutes."""

UNKNOWN_GAP_MS: Final = 86_400_000
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_CURSOR: Final = re.compile(r"(\d{1,18})-(\d{1,9})", re.ASCII)

MakeQuery = Callable[[Call, Days], TableQuery]


def _days_of(call: Call) -> Days:
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
    return Days(first, last)


def day_of(text: str | None, name: str) -> date | None:
    """Raises Invalid."""
    if text is None:
        return None
    try:
        # Reject the week and day-of-year formats of ISO 8601.
        return date.fromisoformat(text if _DAY.fullmatch(text) else "")
    except ValueError:
        raise Invalid(name, "must be a date such as 2026-01-31") from None


def _cursor_of(call: Call) -> tuple[int | None, int]:
    """Parse a cursor into version and offset. Raises Invalid."""
    text = call.query["cursor"]
    if text is None:
        return None, 0
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise Invalid("cursor", "must be the `next` of the previous page")
    return int(found[1]), int(found[2])


def page_handler(make_query: MakeQuery) -> Callable[[Call], Any]:
    async def handle(call: Call) -> Reply:
        days = _days_of(call)
        version, offset = _cursor_of(call)
        return await _reply(
            call, make_query(call, days), {}, version, offset, call.query["limit"], paged=True
        )

    return handle


def series_handler(make_query: MakeQuery) -> Callable[[Call], Any]:
    async def handle(call: Call) -> Reply:
        days, step = _days_of(call), call.query["step"]
        if step == "minute" and (days.last - days.first).days >= MAX_MINUTE_DAYS:
            raise Invalid("step", "`minute` requires a single day")
        return await _reply(
            call, make_query(call, days), {"step": step}, None, 0, schemas.MAX_POINTS, paged=False
        )

    return handle


async def _reply(
    call: Call,
    query: TableQuery,
    head: dict[str, Any],
    version: int | None,
    offset: int,
    limit: int,
    *,
    paged: bool,
) -> Reply:
    question = {
        "table": query.table,
        "sql": query.sql,
        "version": version,
        "offset": offset,
        "limit": limit,
        "paged": paged,
        "head": {"from": str(query.days.first), "to": str(query.days.last)} | head,
    }
    body = await call.console.insights.rows(question)
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    if call.headers.get("If-None-Match") == tag:
        return Reply(b"", 304, headers={"ETag": tag})
    return Reply(body, headers={"ETag": tag})


async def state(call: Call) -> Reply:
    """Return the state of the tables, with setup steps if there are none."""
    reader = call.console.insights
    bootstrap = call.console.backend.views.server_info().bootstrap_server
    answer: dict[str, Any] = {
        "warehouse": reader.warehouse,
        "problem": None,
        "newest_at": None,
        "written_at": None,
        "usual_ms": None,
        "setting": SETTING,
        "install": INSTALL,
        "command": f"weir pipeline run --continuous --bootstrap {bootstrap} --warehouse "
        + shlex.quote(reader.warehouse or "/srv/weir"),
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


def _who(call: Call) -> ClientFilter:
    return ClientFilter(call.query["user"], call.query["client-id"])


def _metric_series(call: Call, days: Days) -> TableQuery:
    metric = call.query["metric"]
    if metric is None:
        raise Invalid("metric", "is required: values of different metrics cannot be added")
    return queries.client_metrics_series(days, _who(call), metric, call.query["step"])


_NAMED: Final = Text(max_length=32_767)
_DAYS: Final = (
    Query("from", schemas.DAY, f"First UTC day; default {USUAL_DAYS - 1} days before `to`."),
    Query("to", schemas.DAY, "Last UTC day, inclusive; default today."),
)
_PAGE: Final = (
    Query(
        "limit",
        Number(integer=True, minimum=1, maximum=schemas.MAX_ROWS),
        "Maximum number of rows.",
        default=100,
    ),
    Query(
        "cursor", Text(max_length=64), "The `next` of the previous page; valid for one version of the table."
    ),
)
_WHO: Final = (
    Query("user", _NAMED, "Only this user; ANONYMOUS is all unauthenticated clients."),
    Query("client-id", _NAMED, "Only this client id."),
)
_STEP: Final = Query(
    "step",
    Text(choices=tuple(queries.STEP_US)),
    "Time step of a point; `minute` for a single day only.",
    default="hour",
)
_API: Final = Query("api", Text(), "Only this API, such as `Produce`.")


def _route(
    name: str, operation: str, about: str, handle: Callable[[Call], Any], schema: Record, *query: Query
) -> Route:
    refusals = {
        304: ResponseSpec("Unchanged since the ETag of If-None-Match"),
        404: ResponseSpec("The table does not exist yet, or the table reader is not installed", PROBLEM),
        410: ResponseSpec("The cursor's version of the table no longer exists", PROBLEM),
        502: ResponseSpec("The table is damaged, or was written by another program", PROBLEM),
    }
    headers = {"If-None-Match": "The ETag of an earlier response; 304 if nothing has changed."}
    answered = {200: ResponseSpec(about, schema)} | refusals
    return Route(
        "GET", f"/api/v1/insights/{name}", operation, about, handle, answered, query, headers=headers
    )


ROUTES: Final = (
    Route(
        "GET",
        "/api/v1/insights",
        "getInsights",
        "The pipeline's tables and their freshness, with setup steps if there are none.",
        state,
        {200: ResponseSpec("The state of the tables", schemas.STATE)},
    ),
    _route(
        "usage",
        "listUsageOverDays",
        "Usage per tenant, highest first. A tenant is a user, or the client id of an unauthenticated client.",
        page_handler(
            lambda call, days: queries.usage(days, _who(call), call.query["by"], call.query["sort"])
        ),
        schemas.USAGE,
        *_DAYS,
        *_WHO,
        Query(
            "by",
            Text(choices=("tenant", "client")),
            "Whether a row is a tenant or a client.",
            default="tenant",
        ),
        Query("sort", Text(choices=schemas.SORTS), "Sort column, highest first.", default="bytes"),
        *_PAGE,
    ),
    _route(
        "usage:series",
        "getUsageOverTime",
        "Usage over time, of all clients together or of one client.",
        series_handler(lambda call, days: queries.usage_series(days, _who(call), call.query["step"])),
        schemas.USAGE_SERIES,
        *_DAYS,
        *_WHO,
        _STEP,
    ),
    _route(
        "throttling",
        "listThrottlingOverDays",
        "Throttled clients with the rule, the longest total throttle time first.",
        page_handler(lambda call, days: queries.throttling(days, _who(call))),
        schemas.THROTTLING,
        *_DAYS,
        *_WHO,
        *_PAGE,
    ),
    _route(
        "throttling:series",
        "getThrottlingOverTime",
        "Number and duration of throttles over time.",
        series_handler(lambda call, days: queries.throttling_series(days, _who(call), call.query["step"])),
        schemas.THROTTLING_SERIES,
        *_DAYS,
        *_WHO,
        _STEP,
    ),
    _route(
        "latency",
        "listLatencyOverDays",
        "Duration of each request phase by API: mean of the minutes' p50 and p95, and the worst p99.",
        page_handler(lambda call, days: queries.latency(days, call.query["api"])),
        schemas.LATENCY,
        *_DAYS,
        _API,
        *_PAGE,
    ),
    _route(
        "latency:series",
        "getLatencyOverTime",
        "Duration of one request phase over time.",
        series_handler(
            lambda call, days: queries.latency_series(
                days, call.query["api"], call.query["phase"], call.query["step"]
            )
        ),
        schemas.LATENCY_SERIES,
        *_DAYS,
        _API,
        Query("phase", Text(choices=schemas.PHASES), "Of a request.", default="total"),
        _STEP,
    ),
    _route(
        "utilisation",
        "listUtilisation",
        "Utilisation of each limit, highest first; 1.0 is at the limit.",
        page_handler(lambda _call, days: queries.utilisation(days)),
        schemas.UTILISATION,
        *_DAYS,
        *_PAGE,
    ),
    _route(
        "storms",
        "listStorms",
        "Minutes in which one address made 60 or more connection attempts, newest first.",
        page_handler(lambda call, days: queries.storms(days, call.query["address"])),
        schemas.STORMS,
        *_DAYS,
        Query("address", Text(), "Only this address."),
        *_PAGE,
    ),
    _route(
        "shared-client-ids",
        "listSharedClientIds",
        "Client ids that several principals used, or one principal from several addresses, per day.",
        page_handler(lambda _call, days: queries.shared_client_ids(days)),
        schemas.SHARED_CLIENT_IDS,
        *_DAYS,
        *_PAGE,
    ),
    _route(
        "offenders",
        "listOffenders",
        "Top ten clients of each day by bytes, requests, throttle time and errors.",
        page_handler(lambda call, days: queries.offenders(days, call.query["by"])),
        schemas.OFFENDERS,
        *_DAYS,
        Query("by", Text(choices=schemas.BY), "Only this measure."),
        *_PAGE,
    ),
    _route(
        "throttle-compliance",
        "listThrottleCompliance",
        "Throttle compliance: whether clients wait for `throttle_time_ms`, per day, least compliant first.",
        page_handler(lambda call, days: queries.throttle_compliance(days, _who(call))),
        schemas.THROTTLE_COMPLIANCE,
        *_DAYS,
        *_WHO,
        *_PAGE,
    ),
    _route(
        "client-metrics",
        "listClientMetricsOverDays",
        "Metrics that clients pushed (KIP-714), per metric and client.",
        page_handler(lambda call, days: queries.client_metrics(days, _who(call), call.query["metric"])),
        schemas.CLIENT_METRICS,
        *_DAYS,
        *_WHO,
        Query("metric", _NAMED, "Only this metric."),
        *_PAGE,
    ),
    _route(
        "client-metrics:series",
        "getClientMetricOverTime",
        "One metric over time, of all clients together or of one client.",
        series_handler(_metric_series),
        schemas.CLIENT_METRICS_SERIES,
        *_DAYS,
        *_WHO,
        Query("metric", _NAMED, "The metric's name; required."),
        _STEP,
    ),
    _route(
        "lost",
        "listLostRecords",
        "Records of event topics that were deleted before the pipeline read them, per topic, the most first.",
        page_handler(lambda _call, days: queries.lost_records(days)),
        schemas.LOST,
        *_DAYS,
        *_PAGE,
    ),
    _route(
        "advice",
        "listAdvice",
        "Recommended limits by the newest day's use, with the reason as text.",
        page_handler(lambda call, days: queries.advice(days, _who(call))),
        schemas.ADVICE,
        *_DAYS,
        *_WHO,
        *_PAGE,
    ),
)

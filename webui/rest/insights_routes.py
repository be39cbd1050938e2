"""The routes of /insights and /insights/*: their parameters, queries and responses."""

from collections.abc import Callable, Iterable
from datetime import date
from typing import Any, Final

import msgspec

from broker.common.principal import ANONYMOUS
from webui.insights import queries
from webui.insights.queries import ClientFilter, Prices
from webui.insights.statements import Scope, Selection, TableQuery
from webui.problem import PROBLEM
from webui.quotas import ALL_KEYS, json_of
from webui.rest import insights_schemas as schemas
from webui.rest.insights import SCOPE, page_body, page_handler, page_parameters, reply, series_handler, state
from webui.rest.routing import Call, Query, Reply, ResponseSpec, Route
from webui.schema import Invalid, Record, Text
from webui.tables.slices import collect


def _who(call: Call) -> ClientFilter:
    return ClientFilter(call.query["user"], call.query["client_id"])


async def _cost(call: Call) -> Reply:
    """The prices are those of the configuration; without any, each cost is 0."""
    settings = call.console.settings
    head: dict[str, Any] = {
        "currency": settings.price_currency,
        "price_per_gb_produced": settings.price_per_gb_produced,
        "price_per_gb_fetched": settings.price_per_gb_fetched,
    }
    return reply(call, await page_body(call, _cost_selection, head))


def _cost_selection(call: Call, scope: Scope) -> Selection:
    return queries.cost(scope, _who(call), call.query["by"], _prices(call))


def _cost_series(call: Call, scope: Scope) -> TableQuery:
    return queries.cost_series(scope, _who(call), _prices(call), call.query["step"])


def _prices(call: Call) -> Prices:
    settings = call.console.settings
    return Prices(settings.price_per_gb_produced, settings.price_per_gb_fetched)


def _metric_series(call: Call, scope: Scope) -> TableQuery:
    metric = call.query["metric"]
    if metric is None:
        raise Invalid("metric", "is required: values of different metrics cannot be added")
    return queries.client_metrics_series(scope, _who(call), metric, call.query["step"])


MAX_HISTORY_ROWS: Final = 100
"""Each row has up to 92 days; a page of 100 rows is some 300 kB."""


class _NeededRow(msgspec.Struct):
    """A row of the tables. Its lists stay encoded: they are long, and only passed on."""

    cluster: str | None
    user: str | None
    client_id: str | None
    key: str
    days: msgspec.Raw
    needed: msgspec.Raw
    peak: msgspec.Raw
    recommended: msgspec.Raw
    oldest: float | None
    newest: float | None
    highest: float | None
    growth: float | None
    recommended_now: float | None
    limit: float | None = None
    rule: dict[str, str | None] = msgspec.field(default_factory=dict)


class _NeededPage(msgspec.Struct):
    first: str = msgspec.field(name="from")
    last: str = msgspec.field(name="to")
    cluster: str | None
    version: int
    written_at: str | None
    items: list[_NeededRow]
    next: str | None


async def _needed(call: Call) -> Reply:
    """Answer with the quota that each entity needed on each day, beside its present limit. The days come from
    the pipeline's tables, the limits from this broker's rules: only rows of this broker's cluster, and those
    without a cluster, have one.
    """
    page = msgspec.json.decode(await page_body(call, _needed_selection), type=_NeededPage)
    await _add_limits(call, page.items)
    return reply(call, msgspec.json.encode(page))


def _needed_selection(call: Call, scope: Scope) -> Selection:
    return queries.advice_history(scope, _who(call), call.query["key"])


async def _add_limits(call: Call, rows: list[_NeededRow]) -> None:
    overview = call.views.overview()
    # A gateway has the limits of its upstream cluster; "" until it has found that.
    own = overview.cluster_id if overview.upstream is None else overview.upstream.cluster_id
    ours = [row for row in rows if row.cluster is None or not own or row.cluster == own]
    clients = [(ANONYMOUS if row.user is None else row.user, row.client_id or "") for row in ours]
    keys = {row.key for row in ours}
    for row, limits in zip(ours, await collect(call.views.quotas.resolve_all(clients, keys)), strict=True):
        for now, _ in limits:
            if now.key == row.key:
                row.limit = now.bound
                row.rule = {} if now.matched is None else json_of(now.matched)


_NAMED: Final = Text(max_length=32_767)
_WHO: Final = (
    Query("user", _NAMED, "Only this user; ANONYMOUS is all unauthenticated clients."),
    Query("client_id", _NAMED, "Only this client id."),
)
_BY: Final = Query(
    "by", Text(choices=("tenant", "client")), "Whether a row is a tenant or a client.", default="tenant"
)
_STEP: Final = Query(
    "step",
    Text(choices=tuple(queries.STEP_US)),
    "Time step of a point; `minute` for a single day only.",
    default="hour",
)
_API: Final = Query("api", Text(), "Only this API, such as `Produce`.")

_ANY: Final = Scope(date.min, date.min)
_ALL: Final = ClientFilter()


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
        f"GET /api/v1/insights/{name}",
        operation,
        about,
        handle,
        answered,
        (*SCOPE, *query),
        headers=headers,
    )


def _listed(sorts: Iterable[str], *query: Query) -> tuple[Query, ...]:
    return (*query, *page_parameters(sorts))


ROUTES: Final = (
    Route(
        "GET /api/v1/insights",
        "getInsights",
        "The pipeline's tables and their freshness, with setup steps if there are none.",
        state,
        {200: ResponseSpec("The state of the tables", schemas.STATE)},
    ),
    _route(
        "clusters",
        "listClustersOfTables",
        "The clusters of the tables, with the first and the last day of each; `from` and `to` have no "
        "effect.",
        page_handler(lambda _call, scope: queries.clusters(scope)),
        schemas.CLUSTERS,
        *_listed(queries.clusters(_ANY).sorts),
    ),
    _route(
        "usage",
        "listUsageOverDays",
        "Usage per tenant, highest first. A tenant is a user, or the client id of an unauthenticated client.",
        page_handler(lambda call, scope: queries.usage(scope, _who(call), call.query["by"])),
        schemas.USAGE,
        *_listed(queries.usage(_ANY, _ALL, "tenant").sorts, *_WHO, _BY),
    ),
    _route(
        "usage:series",
        "getUsageOverTime",
        "Usage over time, of all clients together or of one client.",
        series_handler(lambda call, scope: queries.usage_series(scope, _who(call), call.query["step"])),
        schemas.USAGE_SERIES,
        *_WHO,
        _STEP,
    ),
    _route(
        "cost",
        "listCost",
        "Cost per tenant, highest first: its bytes times the prices of the configuration.",
        _cost,
        schemas.COST,
        *_listed(queries.cost(_ANY, _ALL, "tenant", Prices(0, 0)).sorts, *_WHO, _BY),
    ),
    _route(
        "cost:series",
        "getCostOverTime",
        "Cost over time, of all clients together or of one client.",
        series_handler(_cost_series),
        schemas.COST_SERIES,
        *_WHO,
        _STEP,
    ),
    _route(
        "throttling",
        "listThrottlingOverDays",
        "Throttled clients with the rule, the longest total throttle time first.",
        page_handler(lambda call, scope: queries.throttling(scope, _who(call))),
        schemas.THROTTLING,
        *_listed(queries.throttling(_ANY, _ALL).sorts, *_WHO),
    ),
    _route(
        "throttling:series",
        "getThrottlingOverTime",
        "Number and duration of throttles over time.",
        series_handler(lambda call, scope: queries.throttling_series(scope, _who(call), call.query["step"])),
        schemas.THROTTLING_SERIES,
        *_WHO,
        _STEP,
    ),
    _route(
        "latency",
        "listLatencyOverDays",
        "Duration of each request phase by API: mean of the minutes' p50 and p95, and the worst p99.",
        page_handler(lambda call, scope: queries.latency(scope, call.query["api"])),
        schemas.LATENCY,
        *_listed(queries.latency(_ANY, None).sorts, _API),
    ),
    _route(
        "latency:series",
        "getLatencyOverTime",
        "Duration of one request phase over time.",
        series_handler(
            lambda call, scope: queries.latency_series(
                scope, call.query["api"], call.query["phase"], call.query["step"]
            )
        ),
        schemas.LATENCY_SERIES,
        _API,
        Query("phase", Text(choices=schemas.PHASES), "Of a request.", default="total"),
        _STEP,
    ),
    _route(
        "latency-by-software",
        "listLatencyBySoftware",
        "Duration of whole requests by client software, version and API, the most requests first. "
        "`attribution` says whether the clients used one version on a day, several, or an unknown one.",
        page_handler(lambda call, scope: queries.latency_by_software(scope, call.query["api"])),
        schemas.LATENCY_BY_SOFTWARE,
        *_listed(queries.latency_by_software(_ANY, None).sorts, _API),
    ),
    _route(
        "latency-by-software:series",
        "getLatencyBySoftwareOverTime",
        f"Duration of whole requests by day, of the {queries.MAX_VERSIONS} versions of client software with "
        "the "
        "most requests.",
        series_handler(lambda call, scope: queries.latency_by_software_series(scope, call.query["api"])),
        schemas.LATENCY_BY_SOFTWARE_SERIES,
        _API,
    ),
    _route(
        "utilisation",
        "listUtilisation",
        "Utilisation of each limit, highest first; 1.0 is at the limit.",
        page_handler(lambda _call, scope: queries.utilisation(scope)),
        schemas.UTILISATION,
        *_listed(queries.utilisation(_ANY).sorts),
    ),
    _route(
        "storms",
        "listStorms",
        "Minutes in which one address made 60 or more connection attempts, newest first.",
        page_handler(lambda call, scope: queries.storms(scope, call.query["address"])),
        schemas.STORMS,
        *_listed(queries.storms(_ANY, None).sorts, Query("address", Text(), "Only this address.")),
    ),
    _route(
        "shared-client-ids",
        "listSharedClientIds",
        "Client ids that several principals used, or one principal from several addresses, per day.",
        page_handler(lambda _call, scope: queries.shared_client_ids(scope)),
        schemas.SHARED_CLIENT_IDS,
        *_listed(queries.shared_client_ids(_ANY).sorts),
    ),
    _route(
        "offenders",
        "listOffenders",
        "Top ten clients of each day by bytes, requests, throttle time and errors.",
        page_handler(lambda call, scope: queries.offenders(scope, call.query["by"])),
        schemas.OFFENDERS,
        *_listed(
            queries.offenders(_ANY, None).sorts, Query("by", Text(choices=schemas.BY), "Only this measure.")
        ),
    ),
    _route(
        "throttle-compliance",
        "listThrottleCompliance",
        "Throttle compliance: whether clients wait for `throttle_time_ms`, per day, least compliant first.",
        page_handler(lambda call, scope: queries.throttle_compliance(scope, _who(call))),
        schemas.THROTTLE_COMPLIANCE,
        *_listed(queries.throttle_compliance(_ANY, _ALL).sorts, *_WHO),
    ),
    _route(
        "throttle-compliance:summary",
        "listThrottleComplianceOverDays",
        "Throttle compliance per client over all days, the longest throttle time first.",
        page_handler(lambda call, scope: queries.throttle_compliance_summary(scope, _who(call))),
        schemas.THROTTLE_COMPLIANCE_SUMMARY,
        *_listed(queries.throttle_compliance_summary(_ANY, _ALL).sorts, *_WHO),
    ),
    _route(
        "throttle-compliance:series",
        "getThrottleComplianceOverTime",
        "Throttle time by day of clients that wait, of clients that send early, and of the others.",
        series_handler(lambda call, scope: queries.throttle_compliance_series(scope, _who(call))),
        schemas.THROTTLE_COMPLIANCE_SERIES,
        *_WHO,
    ),
    _route(
        "client-metrics",
        "listClientMetricsOverDays",
        "Metrics that clients pushed (KIP-714), per metric and client.",
        page_handler(lambda call, scope: queries.client_metrics(scope, _who(call), call.query["metric"])),
        schemas.CLIENT_METRICS,
        *_listed(
            queries.client_metrics(_ANY, _ALL, None).sorts,
            *_WHO,
            Query("metric", _NAMED, "Only this metric."),
        ),
    ),
    _route(
        "client-metrics:series",
        "getClientMetricOverTime",
        "One metric over time, of all clients together or of one client.",
        series_handler(_metric_series),
        schemas.CLIENT_METRICS_SERIES,
        *_WHO,
        Query("metric", _NAMED, "The metric's name; required."),
        _STEP,
    ),
    _route(
        "lost",
        "listLostRecords",
        "Records of event topics that were deleted before the pipeline read them, per topic, the most first.",
        page_handler(lambda _call, scope: queries.lost_records(scope)),
        schemas.LOST,
        *_listed(queries.lost_records(_ANY).sorts),
    ),
    _route(
        "advice",
        "listAdvice",
        "Recommended limits by the newest day's use, with the reason as text. `recommended` is null where a "
        "limit held, so that the need is unknown: `peak` is what it is at least. The shares of requests and "
        "of time and the longest wait are those of `recommended` if `basis` is `simulated`, and those of the "
        "limits of that day if it is `measured`; `held_limit` is the last one. They are null for days that "
        "an earlier version wrote.",
        page_handler(lambda call, scope: queries.advice(scope, _who(call))),
        schemas.ADVICE,
        *_listed(queries.advice(_ANY, _ALL).sorts, *_WHO),
    ),
    _route(
        "advice:history",
        "listNeededQuotas",
        "The quota that each entity needed on each day, beside the limit that this broker has for it now. "
        "The "
        "lists of a row have an element for each of its `days`; `growth` is `newest` divided by `oldest`.",
        _needed,
        schemas.ADVICE_HISTORY,
        *_WHO,
        Query("key", Text(choices=ALL_KEYS), "Only this quota key."),
        *page_parameters(queries.advice_history(_ANY, _ALL, None).sorts, limit=20, most=MAX_HISTORY_ROWS),
    ),
)

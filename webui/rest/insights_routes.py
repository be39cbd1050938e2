"""GET /insights and /insights/*: routes for queries of the pipeline's gold tables."""

from collections.abc import Callable
from typing import Any, Final

from webui.insights import questions
from webui.insights.questions import Days, Question, Who
from webui.rest import insights
from webui.rest import insights_answers as answers
from webui.rest.problem import PROBLEM
from webui.rest.routing import Answer, Call, Query, Route
from webui.rest.schema import Invalid, Number, Record, Text


def _who(call: Call) -> Who:
    return Who(call.query["user"], call.query["client-id"])


def _metric_series(call: Call, days: Days) -> Question:
    metric = call.query["metric"]
    if metric is None:
        raise Invalid("metric", "is required: values of different metrics cannot be added")
    return questions.client_metrics_series(days, _who(call), metric, call.query["step"])


_NAMED: Final = Text(longest=32_767)
_DAYS: Final = (
    Query("from", answers.DAY, f"First UTC day; default {insights.USUAL_DAYS - 1} days before `to`."),
    Query("to", answers.DAY, "Last UTC day, inclusive; default today."),
)
_PAGE: Final = (
    Query(
        "limit",
        Number(integer=True, least=1, most=answers.MAX_ROWS),
        "Maximum number of rows.",
        default=100,
    ),
    Query("cursor", Text(longest=64), "The `next` of the previous page; valid for one version of the table."),
)
_WHO: Final = (
    Query("user", _NAMED, "Only this user; ANONYMOUS is all unauthenticated clients."),
    Query("client-id", _NAMED, "Only this client id."),
)
_STEP: Final = Query(
    "step",
    Text(choices=tuple(questions.STEP_US)),
    "Time step of a point; `minute` for a single day only.",
    default="hour",
)
_API: Final = Query("api", Text(), "Only this API, such as `Produce`.")


def _route(
    name: str, operation: str, about: str, handle: Callable[[Call], Any], schema: Record, *query: Query
) -> Route:
    refusals = {
        304: Answer("Unchanged since the ETag of If-None-Match"),
        404: Answer("The table does not exist yet, or the table reader is not installed", PROBLEM),
        410: Answer("The cursor's version of the table no longer exists", PROBLEM),
        502: Answer("The table is damaged, or was written by another program", PROBLEM),
    }
    headers = {"If-None-Match": "The ETag of an earlier response; 304 if nothing has changed."}
    answered = {200: Answer(about, schema)} | refusals
    return Route(
        "GET", f"/api/v1/insights/{name}", operation, about, handle, answered, query, headers=headers
    )


ROUTES: Final = (
    Route(
        "GET",
        "/api/v1/insights",
        "getInsights",
        "The pipeline's tables and their freshness, with setup steps if there are none.",
        insights.state,
        {200: Answer("The state of the tables", answers.STATE)},
    ),
    _route(
        "usage",
        "listUsageOverDays",
        "Usage per tenant, highest first. A tenant is a user, or the client id of an unauthenticated client.",
        insights.listed(
            lambda call, days: questions.usage(days, _who(call), call.query["by"], call.query["sort"])
        ),
        answers.USAGE,
        *_DAYS,
        *_WHO,
        Query(
            "by",
            Text(choices=("tenant", "client")),
            "Whether a row is a tenant or a client.",
            default="tenant",
        ),
        Query("sort", Text(choices=answers.SORTS), "Sort column, highest first.", default="bytes"),
        *_PAGE,
    ),
    _route(
        "usage:series",
        "getUsageOverTime",
        "Usage over time, of all clients together or of one client.",
        insights.drawn(lambda call, days: questions.usage_series(days, _who(call), call.query["step"])),
        answers.USAGE_SERIES,
        *_DAYS,
        *_WHO,
        _STEP,
    ),
    _route(
        "throttling",
        "listThrottlingOverDays",
        "Throttled clients with the rule, the longest total throttle time first.",
        insights.listed(lambda call, days: questions.throttling(days, _who(call))),
        answers.THROTTLING,
        *_DAYS,
        *_WHO,
        *_PAGE,
    ),
    _route(
        "throttling:series",
        "getThrottlingOverTime",
        "Number and duration of throttles over time.",
        insights.drawn(lambda call, days: questions.throttling_series(days, _who(call), call.query["step"])),
        answers.THROTTLING_SERIES,
        *_DAYS,
        *_WHO,
        _STEP,
    ),
    _route(
        "latency",
        "listLatencyOverDays",
        "Duration of each request phase by API: mean of the minutes' p50 and p95, and the worst p99.",
        insights.listed(lambda call, days: questions.latency(days, call.query["api"])),
        answers.LATENCY,
        *_DAYS,
        _API,
        *_PAGE,
    ),
    _route(
        "latency:series",
        "getLatencyOverTime",
        "Duration of one request phase over time.",
        insights.drawn(
            lambda call, days: questions.latency_series(
                days, call.query["api"], call.query["phase"], call.query["step"]
            )
        ),
        answers.LATENCY_SERIES,
        *_DAYS,
        _API,
        Query("phase", Text(choices=answers.PHASES), "Of a request.", default="total"),
        _STEP,
    ),
    _route(
        "utilisation",
        "listUtilisation",
        "Utilisation of each limit, highest first; 1.0 is at the limit.",
        insights.listed(lambda _call, days: questions.utilisation(days)),
        answers.UTILISATION,
        *_DAYS,
        *_PAGE,
    ),
    _route(
        "storms",
        "listStorms",
        "Minutes in which one address made 60 or more connection attempts, newest first.",
        insights.listed(lambda call, days: questions.storms(days, call.query["address"])),
        answers.STORMS,
        *_DAYS,
        Query("address", Text(), "Only this address."),
        *_PAGE,
    ),
    _route(
        "shared-client-ids",
        "listSharedClientIds",
        "Client ids that several principals used, or one principal from several addresses, per day.",
        insights.listed(lambda _call, days: questions.shared_client_ids(days)),
        answers.SHARED_CLIENT_IDS,
        *_DAYS,
        *_PAGE,
    ),
    _route(
        "offenders",
        "listOffenders",
        "Top ten clients of each day by bytes, requests, throttle time and errors.",
        insights.listed(lambda call, days: questions.offenders(days, call.query["by"])),
        answers.OFFENDERS,
        *_DAYS,
        Query("by", Text(choices=answers.BY), "Only this measure."),
        *_PAGE,
    ),
    _route(
        "throttle-compliance",
        "listThrottleCompliance",
        "Throttle compliance: whether clients wait for `throttle_time_ms`, per day, least compliant first.",
        insights.listed(lambda call, days: questions.throttle_compliance(days, _who(call))),
        answers.THROTTLE_COMPLIANCE,
        *_DAYS,
        *_WHO,
        *_PAGE,
    ),
    _route(
        "client-metrics",
        "listClientMetricsOverDays",
        "Metrics that clients pushed (KIP-714), per metric and client.",
        insights.listed(lambda call, days: questions.client_metrics(days, _who(call), call.query["metric"])),
        answers.CLIENT_METRICS,
        *_DAYS,
        *_WHO,
        Query("metric", _NAMED, "Only this metric."),
        *_PAGE,
    ),
    _route(
        "client-metrics:series",
        "getClientMetricOverTime",
        "One metric over time, of all clients together or of one client.",
        insights.drawn(_metric_series),
        answers.CLIENT_METRICS_SERIES,
        *_DAYS,
        *_WHO,
        Query("metric", _NAMED, "The metric's name; required."),
        _STEP,
    ),
    _route(
        "advice",
        "listAdvice",
        "Recommended limits by the newest day's use, with the reason as text.",
        insights.listed(lambda call, days: questions.advice(days, _who(call))),
        answers.ADVICE,
        *_DAYS,
        *_WHO,
        *_PAGE,
    ),
)

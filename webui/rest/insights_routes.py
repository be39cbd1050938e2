"""GET /insights and /insights/*: what the pipeline's gold tables say, each question as a route."""

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
        raise Invalid("metric", "must be given: figures of different metrics cannot be added up")
    return questions.client_metrics_series(days, _who(call), metric, call.query["step"])


_NAMED: Final = Text(longest=32_767)
_DAYS: Final = (
    Query(
        "from", answers.DAY, f"The first UTC day; if left out, {insights.USUAL_DAYS - 1} days before `to`."
    ),
    Query("to", answers.DAY, "The last UTC day, included; if left out, today."),
)
_PAGE: Final = (
    Query(
        "limit",
        Number(integer=True, least=1, most=answers.MOST_ROWS),
        "How many rows to answer.",
        default=100,
    ),
    Query("cursor", Text(longest=64), "The `next` of the page before; of the same version of the table."),
)
_WHO: Final = (
    Query("user", _NAMED, "Only this user's; ANONYMOUS is everybody without a login."),
    Query("client-id", _NAMED, "Only this client id's."),
)
_STEP: Final = Query(
    "step", Text(choices=tuple(questions.STEP_US)), "Of a point; minutes for one day at most.", default="hour"
)
_API: Final = Query("api", Text(), "Only this API, as `Produce`.")


def _route(
    name: str, operation: str, about: str, handle: Callable[[Call], Any], schema: Record, *query: Query
) -> Route:
    refusals = {
        304: Answer("Nothing has changed since the ETag of If-None-Match"),
        404: Answer("There is no such table yet, or nothing to read tables with", PROBLEM),
        410: Answer("The version that the cursor is of is gone", PROBLEM),
        502: Answer("The table is damaged, or another program's", PROBLEM),
    }
    headers = {"If-None-Match": "The ETag that was read: 304 where nothing has changed."}
    answered = {200: Answer(about, schema)} | refusals
    return Route(
        "GET", f"/api/v1/insights/{name}", operation, about, handle, answered, query, headers=headers
    )


ROUTES: Final = (
    Route(
        "GET",
        "/api/v1/insights",
        "getInsights",
        "Which of the pipeline's tables there are, how fresh they are, and what to do where there are none.",
        insights.state,
        {200: Answer("The state of the tables", answers.STATE)},
    ),
    _route(
        "usage",
        "listUsageOverDays",
        "What each tenant moved and cost, most first. A tenant is a user, or without a login a client id.",
        insights.listed(
            lambda call, days: questions.usage(days, _who(call), call.query["by"], call.query["sort"])
        ),
        answers.USAGE,
        *_DAYS,
        *_WHO,
        Query("by", Text(choices=("tenant", "client")), "What a row is.", default="tenant"),
        Query("sort", Text(choices=answers.SORTS), "Most of what first.", default="bytes"),
        *_PAGE,
    ),
    _route(
        "usage:series",
        "getUsageOverTime",
        "The same over time, everybody together or one client.",
        insights.drawn(lambda call, days: questions.usage_series(days, _who(call), call.query["step"])),
        answers.USAGE_SERIES,
        *_DAYS,
        *_WHO,
        _STEP,
    ),
    _route(
        "throttling",
        "listThrottlingOverDays",
        "Who was held by which rule, the longest held first.",
        insights.listed(lambda call, days: questions.throttling(days, _who(call))),
        answers.THROTTLING,
        *_DAYS,
        *_WHO,
        *_PAGE,
    ),
    _route(
        "throttling:series",
        "getThrottlingOverTime",
        "How often and for how long clients were held, over time.",
        insights.drawn(lambda call, days: questions.throttling_series(days, _who(call), call.query["step"])),
        answers.THROTTLING_SERIES,
        *_DAYS,
        *_WHO,
        _STEP,
    ),
    _route(
        "latency",
        "listLatencyOverDays",
        "How long each phase of an API's requests took: the minutes' mean p50 and p95, the worst p99.",
        insights.listed(lambda call, days: questions.latency(days, call.query["api"])),
        answers.LATENCY,
        *_DAYS,
        _API,
        *_PAGE,
    ),
    _route(
        "latency:series",
        "getLatencyOverTime",
        "The same over time, for one phase.",
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
        "How much of each limit was used, the fullest first; 1.0 is at the limit.",
        insights.listed(lambda _call, days: questions.utilisation(days)),
        answers.UTILISATION,
        *_DAYS,
        *_PAGE,
    ),
    _route(
        "storms",
        "listStorms",
        "Minutes in which one address came sixty times or more, the newest first.",
        insights.listed(lambda call, days: questions.storms(days, call.query["address"])),
        answers.STORMS,
        *_DAYS,
        Query("address", Text(), "Only of this address."),
        *_PAGE,
    ),
    _route(
        "shared-client-ids",
        "listSharedClientIds",
        "Client ids that several principals used, or one principal from several addresses, by day.",
        insights.listed(lambda _call, days: questions.shared_client_ids(days)),
        answers.SHARED_CLIENT_IDS,
        *_DAYS,
        *_PAGE,
    ),
    _route(
        "offenders",
        "listOffenders",
        "The first ten clients of each day by bytes, requests, waits and errors.",
        insights.listed(lambda call, days: questions.offenders(days, call.query["by"])),
        answers.OFFENDERS,
        *_DAYS,
        Query("by", Text(choices=answers.BY), "Only by this measure."),
        *_PAGE,
    ),
    _route(
        "throttle-compliance",
        "listThrottleCompliance",
        "Clients by whether they wait out `throttle_time_ms`, by day; those that do not come first.",
        insights.listed(lambda call, days: questions.throttle_compliance(days, _who(call))),
        answers.THROTTLE_COMPLIANCE,
        *_DAYS,
        *_WHO,
        *_PAGE,
    ),
    _route(
        "client-metrics",
        "listClientMetricsOverDays",
        "What clients told of themselves (KIP-714), each metric of each client.",
        insights.listed(lambda call, days: questions.client_metrics(days, _who(call), call.query["metric"])),
        answers.CLIENT_METRICS,
        *_DAYS,
        *_WHO,
        Query("metric", _NAMED, "Only the metric of this name."),
        *_PAGE,
    ),
    _route(
        "client-metrics:series",
        "getClientMetricOverTime",
        "One metric over time, of everybody together or one client.",
        insights.drawn(_metric_series),
        answers.CLIENT_METRICS_SERIES,
        *_DAYS,
        *_WHO,
        Query("metric", _NAMED, "The metric's name; it must be given."),
        _STEP,
    ),
    _route(
        "advice",
        "listAdvice",
        "What each limit should be by the newest day's use, with the reason in words.",
        insights.listed(lambda call, days: questions.advice(days, _who(call))),
        answers.ADVICE,
        *_DAYS,
        *_WHO,
        *_PAGE,
    ),
)

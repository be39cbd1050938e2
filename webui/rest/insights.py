"""GET /insights and /insights/*: what the pipeline's gold tables say, how fresh they are, what to do without.

What is asked becomes a question (webui.insights.questions), another process reads (webui.insights.reader),
and its answer goes out as it came.
"""

import hashlib
import re
import shlex
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from webui.insights import questions
from webui.insights.questions import Days, Question, Who
from webui.insights.reader import INSTALL, NoInsights
from webui.insights.tables import USAGE
from webui.rest import insights_answers as answers
from webui.rest.problem import PROBLEM, Problem
from webui.rest.routing import Answer, Call, Query, Reply, Route
from webui.rest.schema import Invalid, Number, Record, Text

MOST_DAYS: Final = 92
USUAL_DAYS: Final = 7
MOST_MINUTE_DAYS: Final = 1
SETTING: Final = "insights.warehouse"
STALE_AFTER_GAPS: Final = 2
LEAST_STALE_MS: Final = 300_000
"""Events are summed up by the minute, and days every five."""

UNKNOWN_GAP_MS: Final = 86_400_000
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_CURSOR: Final = re.compile(r"(\d{1,18})-(\d{1,9})", re.ASCII)

Ask = Callable[[Call, Days], Question]


def _days_of(call: Call) -> Days:
    """Raises Invalid."""
    today = datetime.fromtimestamp(call.console.now_ms() / 1_000, UTC).date()
    last = _day(call.query["to"], "to") or today
    first = _day(call.query["from"], "from") or last - timedelta(
        days=min(USUAL_DAYS - 1, last.toordinal() - 1)
    )
    if first > last:
        raise Invalid("from", "must not be after `to`")
    if (last - first).days >= MOST_DAYS:
        raise Invalid("from", f"must be less than {MOST_DAYS} days before `to`")
    return Days(first, last)


def _day(text: str | None, name: str) -> date | None:
    if text is None:
        return None
    try:
        # The other forms of ISO 8601 are weeks and days of the year.
        return date.fromisoformat(text if _DAY.fullmatch(text) else "")
    except ValueError:
        raise Invalid(name, "must be a day, as 2026-01-31") from None


def _cursor_of(call: Call) -> tuple[int | None, int]:
    """Version and offset. Raises Invalid."""
    text = call.query["cursor"]
    if text is None:
        return None, 0
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise Invalid("cursor", "must be the `next` of the page before")
    return int(found[1]), int(found[2])


def _listed(ask: Ask) -> Callable[[Call], Any]:
    async def handle(call: Call) -> Reply:
        days = _days_of(call)
        version, offset = _cursor_of(call)
        return await _reply(call, ask(call, days), {}, version, offset, call.query["limit"], paged=True)

    return handle


def _drawn(ask: Ask) -> Callable[[Call], Any]:
    async def handle(call: Call) -> Reply:
        days, step = _days_of(call), call.query["step"]
        if step == "minute" and (days.last - days.first).days >= MOST_MINUTE_DAYS:
            raise Invalid("step", "minutes are told of one day at a time")
        return await _reply(call, ask(call, days), {"step": step}, None, 0, answers.MOST_POINTS, paged=False)

    return handle


async def _reply(
    call: Call,
    asked: Question,
    head: dict[str, Any],
    version: int | None,
    offset: int,
    limit: int,
    *,
    paged: bool,
) -> Reply:
    question = {
        "table": asked.table,
        "sql": asked.sql,
        "version": version,
        "offset": offset,
        "limit": limit,
        "paged": paged,
        "head": {"from": str(asked.days.first), "to": str(asked.days.last)} | head,
    }
    body = await call.console.insights.rows(question)
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    if call.headers.get("If-None-Match") == tag:
        return Reply(b"", 304, headers={"ETag": tag})
    return Reply(body, headers={"ETag": tag})


async def state(call: Call) -> Reply:
    """Always an answer: where there is nothing, it says what to do."""
    reader = call.console.insights
    bootstrap = next(iter(call.console.backend.views.overview().bootstrap), "localhost:9092")
    told: dict[str, Any] = {
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
        tables = await reader.look()
    except NoInsights as problem:
        is_off = problem.members["code"] == "INSIGHTS_OFF"
        return Reply({"state": "off" if is_off else "missing"} | told)
    except Problem as problem:
        return Reply({"state": "unreadable"} | told | {"problem": problem.detail})
    return Reply(told | {"tables": tables} | fresh(tables, call.console.now_ms()))


def fresh(tables: list[dict[str, Any]], now_ms: int) -> dict[str, Any]:
    """Usage is what every event of a client changes, so it tells how fresh they all are. They are stale when
    it was not written for twice as long as it lately took at most.
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


def _who(call: Call) -> Who:
    return Who(call.query["user"], call.query["client-id"])


_NAMED: Final = Text(longest=32_767)
_DAYS: Final = (
    Query("from", answers.DAY, f"The first UTC day; if left out, {USUAL_DAYS - 1} days before `to`."),
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
        state,
        {200: Answer("The state of the tables", answers.STATE)},
    ),
    _route(
        "usage",
        "listUsageOverDays",
        "What each tenant moved and cost, most first. A tenant is a user, or without a login a client id.",
        _listed(lambda call, days: questions.usage(days, _who(call), call.query["by"], call.query["sort"])),
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
        _drawn(lambda call, days: questions.usage_series(days, _who(call), call.query["step"])),
        answers.USAGE_SERIES,
        *_DAYS,
        *_WHO,
        _STEP,
    ),
    _route(
        "throttling",
        "listThrottlingOverDays",
        "Who was held by which rule, the longest held first.",
        _listed(lambda call, days: questions.throttling(days, _who(call))),
        answers.THROTTLING,
        *_DAYS,
        *_WHO,
        *_PAGE,
    ),
    _route(
        "throttling:series",
        "getThrottlingOverTime",
        "How often and for how long clients were held, over time.",
        _drawn(lambda call, days: questions.throttling_series(days, _who(call), call.query["step"])),
        answers.THROTTLING_SERIES,
        *_DAYS,
        *_WHO,
        _STEP,
    ),
    _route(
        "latency",
        "listLatencyOverDays",
        "How long each phase of an API's requests took: the minutes' mean p50 and p95, the worst p99.",
        _listed(lambda call, days: questions.latency(days, call.query["api"])),
        answers.LATENCY,
        *_DAYS,
        _API,
        *_PAGE,
    ),
    _route(
        "latency:series",
        "getLatencyOverTime",
        "The same over time, for one phase.",
        _drawn(
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
        _listed(lambda _call, days: questions.utilisation(days)),
        answers.UTILISATION,
        *_DAYS,
        *_PAGE,
    ),
    _route(
        "storms",
        "listStorms",
        "Minutes in which one address came sixty times or more, the newest first.",
        _listed(lambda call, days: questions.storms(days, call.query["address"])),
        answers.STORMS,
        *_DAYS,
        Query("address", Text(), "Only of this address."),
        *_PAGE,
    ),
    _route(
        "borrowed-names",
        "listBorrowedNames",
        "Client ids that several principals used, or one principal from several addresses, by day.",
        _listed(lambda _call, days: questions.borrowed_names(days)),
        answers.BORROWED,
        *_DAYS,
        *_PAGE,
    ),
    _route(
        "offenders",
        "listOffenders",
        "The first ten clients of each day by bytes, requests, waits and errors.",
        _listed(lambda call, days: questions.offenders(days, call.query["by"])),
        answers.OFFENDERS,
        *_DAYS,
        Query("by", Text(choices=answers.BY), "Only by this measure."),
        *_PAGE,
    ),
    _route(
        "advice",
        "listAdvice",
        "What each limit should be by the newest day's use, with the reason in words.",
        _listed(lambda call, days: questions.advice(days, _who(call))),
        answers.ADVICE,
        *_DAYS,
        *_WHO,
        *_PAGE,
    ),
)

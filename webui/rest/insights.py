"""Handlers of /insights and /insights/*; the routes are in webui.rest.insights_routes.

A request becomes a question (webui.insights.questions), another process reads the tables
(webui.insights.reader), and its answer is passed on unchanged.
"""

import hashlib
import re
import shlex
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from webui.insights.questions import Days, Question
from webui.insights.reader import INSTALL, NoInsights
from webui.insights.tables import USAGE
from webui.rest import insights_answers as answers
from webui.rest.problem import Problem
from webui.rest.routing import Call, Reply
from webui.rest.schema import Invalid

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

Ask = Callable[[Call, Days], Question]


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


def listed(ask: Ask) -> Callable[[Call], Any]:
    async def handle(call: Call) -> Reply:
        days = _days_of(call)
        version, offset = _cursor_of(call)
        return await _reply(call, ask(call, days), {}, version, offset, call.query["limit"], paged=True)

    return handle


def drawn(ask: Ask) -> Callable[[Call], Any]:
    async def handle(call: Call) -> Reply:
        days, step = _days_of(call), call.query["step"]
        if step == "minute" and (days.last - days.first).days >= MAX_MINUTE_DAYS:
            raise Invalid("step", "`minute` requires a single day")
        return await _reply(call, ask(call, days), {"step": step}, None, 0, answers.MAX_POINTS, paged=False)

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
    """Return the state of the tables, with setup steps if there are none."""
    reader = call.console.insights
    bootstrap = next(iter(call.console.backend.views.overview().bootstrap), "localhost:9092")
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
        tables = await reader.look()
    except NoInsights as problem:
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

"""POST /insights/what-if: simulates recorded days with the current rules and with a proposed quota file."""

from collections.abc import Mapping
from datetime import date
from typing import Any, Final

from webui.problem import PROBLEM, Problem
from webui.quotas import ALL_KEYS, order_of
from webui.rest import insights_schemas as schemas
from webui.rest.insights import day_of
from webui.rest.quota_files import ENTRIES, document, parse_entries
from webui.rest.routing import Call, Reply, ResponseSpec, Route
from webui.schema import COUNT, Flag, Invalid, Listing, Names, Number, Record, Text
from webui.tables.slices import collect, run_in_slices, sort_in_slices

MAX_DAYS: Final = 7
MAX_LINES: Final = 100_000
LONGEST_LINE: Final = 16_384

ASKED: Final = Record(
    {
        "from": schemas.DAY,
        "to": schemas.DAY,
        "node": Number(integer=True, minimum=0, maximum=2**31 - 1),
        "cluster": Text(),
        "quotas": ENTRIES,
        "lines": Listing(Text(max_length=LONGEST_LINE), max_items=MAX_LINES),
        "keep_unlisted": Flag(),
    },
    optional=frozenset({"to", "node", "cluster", "quotas", "lines", "keep_unlisted"}),
)

_SHARE: Final = Number(minimum=0, maximum=1)
_OUTCOME: Final = Record(
    {
        "rule": Names(Text(max_length=schemas.LONGEST_TEXT, nullable=True)),
        "limit": Number(nullable=True),
        "throttles": COUNT,
        "throttled_share": _SHARE,
        "longest_ms": COUNT,
        "accepted_bytes": COUNT,
        "waiting_bytes": COUNT,
    }
)
_ROW: Final = Record(
    {
        "user": Text(max_length=schemas.LONGEST_TEXT),
        "client_id": Text(max_length=schemas.LONGEST_TEXT),
        "key": Text(choices=ALL_KEYS),
        "offered_bytes": COUNT,
        "now": _OUTCOME,
        "proposed": _OUTCOME,
    }
)
SIMULATED: Final = Record(
    {
        "from": schemas.DAY,
        "to": schemas.DAY,
        "seconds": COUNT,
        "clients": COUNT,
        "throttled_now": COUNT,
        "throttled_proposed": COUNT,
        "throttled_more": COUNT,
        "throttled_less": COUNT,
        "rules_met": COUNT,
        "not_simulated": Listing(Text(max_length=schemas.LONGEST_TEXT)),
        "items": Listing(_ROW),
    }
)


async def what_if(call: Call) -> Reply:
    first = _day(call.body["from"], "/from")
    last = _day(call.body.get("to", call.body["from"]), "/to")
    if not 0 <= (last - first).days < MAX_DAYS:
        raise Invalid("/to", f"must be one of the {MAX_DAYS} days from `from` on")
    proposed = await _proposed(call)
    rows = await sort_in_slices(call.views.quotas.each_quota(), lambda row: order_of(row.entity))
    now = await collect(document(rows))
    call.to_free.extend([rows, now])
    question = {
        "first": str(first),
        "last": str(last),
        "node": call.body.get("node"),
        "cluster": call.body.get("cluster"),
        "now": now,
        "proposed": proposed,
        "lines": call.body.get("lines"),
        "keep_unlisted": call.body.get("keep_unlisted", False),
    }
    simulated = await call.console.what_if.simulate(question)
    return Reply({"from": str(first), "to": str(last)} | simulated)


async def _proposed(call: Call) -> list[Any] | None:
    """Return the proposed rules; None if there are the lines of a file, which the simulating process parses.
    Raises Invalid and Problem.
    """
    body: Mapping[str, Any] = call.body
    if ("quotas" in body) == ("lines" in body):
        raise Invalid("/quotas", "either `quotas` or `lines` is required, and not both")
    if "lines" in body:
        return None
    parsed = await run_in_slices(parse_entries(body["quotas"], call.console.now_ms()))
    call.to_free.append(parsed.wanted)
    for reason in parsed.refused.values():
        raise Problem(400, reason, where="/quotas")
    listed: list[Any] = body["quotas"]
    return listed


def _day(text: str, where: str) -> date:
    """Raises Invalid."""
    found = day_of(text, where)
    assert found is not None
    return found


ROUTES: Final = (
    Route(
        "POST /api/v1/insights/what-if",
        "simulateWhatIf",
        "Clients that proposed rules would have throttled on recorded days, compared with the current "
        "rules, by the broker's own quota code. Changes nothing. `quotas` has all proposed rules, in the "
        "format of the export; or `lines` are those of a quota file, YAML or JSON. With `keep_unlisted`, the "
        "current rules of entities that they do not list stay. `cluster` and `node` name the broker whose "
        "clients are simulated, optional if there is only one.",
        what_if,
        {
            200: ResponseSpec(
                "Clients throttled under either set of rules, those that lose most first", SIMULATED
            ),
            404: ResponseSpec(
                "No client produced or fetched on these days, or the table reader is not installed", PROBLEM
            ),
            502: ResponseSpec("A table is damaged", PROBLEM),
        },
        body=ASKED,
        has_list=True,
    ),
)

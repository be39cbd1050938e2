"""GET /audit, GET /audit:export and POST /audit/{id}:undo: who changed what, from where, and the way back.

The trail is the metadata log itself, so it cannot disagree with what holds; an undo is another change in it.
"""

from collections.abc import AsyncGenerator
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from broker.control.commands import ChangeOrigin, QuotaAlteration, Undo
from broker.control.views import AuditEntry, AuditFilter
from broker.errors import ErrorCode
from webui.audit.rows import CSV_HEAD, KINDS, csv_line, entry_json, quota_entity, undo_command, undo_op
from webui.quotas.preview import preview
from webui.rest.answers import COUNT, ENTITY, NAME, REACH, TIME
from webui.rest.client_quotas import reach_json
from webui.rest.problem import PROBLEM, Problem
from webui.rest.routing import JSON, Answer, Call, Query, Reply, Route
from webui.rest.schema import Flag, Listing, Maybe, Number, Record, Text
from webui.tables.json_text import encode
from webui.tables.slices import gathered

MOST_ROWS: Final = 1_000
MOST_EXPORTED: Final = 100_000
LONGEST_VALUE: Final = 1_000_000
JSON_LINES: Final = "application/jsonl; charset=utf-8"
CSV: Final = "text/csv; charset=utf-8"

_VALUE = Text(longest=LONGEST_VALUE, nullable=True)
_SEQ = Number(integer=True, least=1, below=2.0**63)
ENTRY: Final = Record(
    {
        "id": COUNT,
        "batch": COUNT,
        "at": TIME,
        "actor": NAME,
        "role": Text(),
        "address": NAME,
        "door": Text(choices=tuple(ChangeOrigin)),
        "kind": Text(),
        "entity": NAME,
        "quota": Maybe(ENTITY),
        "key": NAME,
        "old": _VALUE,
        "new": _VALUE,
        "final": Text(nullable=True),
    }
)
TRAIL: Final = Record(
    {"items": Listing(ENTRY, most=MOST_ROWS), "next": Number(integer=True, least=1, nullable=True)}
)
UNDONE: Final = Record(
    {
        "change": ENTRY,
        "command": Text(longest=LONGEST_VALUE),
        "reach": Listing(REACH),
    }
)

_FILTER: Final = (
    Query("kind", Text(choices=KINDS), "Only changes of this kind."),
    Query("entity", Text(), "Only changes of this entity, as `entity` writes it."),
    Query("actor", Text(), "Only changes by this token or principal."),
    Query("door", Text(choices=tuple(ChangeOrigin)), "Only changes that came in this way."),
    Query("people", Flag(), "Without what the broker did by itself.", default=False),
    Query("search", Text(), "Only changes with this in entity, key, actor or address.", default=""),
    Query("before", _SEQ, "Only changes before this one: the `next` of the page before."),
)
_ORDER: Final = (
    Query("order", Text(choices=("desc", "asc")), "Newest or oldest first.", default="desc"),
    Query("after", _SEQ, "Only changes after this one: the `next` of the page before, oldest first."),
)


async def list_changes(call: Call) -> Reply:
    limit = call.query["limit"]
    query = call.query
    wanted = replace(
        _wanted(call, limit, query["before"]), after_seq=query["after"], oldest_first=query["order"] == "asc"
    )
    rows = await gathered(await call.console.backend.views.audit(wanted))
    items = await gathered(map(entry_json, rows))
    return Reply({"items": items, "next": rows[-1].seq if len(rows) == limit else None})


async def export_changes(call: Call) -> Reply:
    form = call.query["format"]
    name = f'attachment; filename="weir-audit.{form}"'
    media = CSV if form == "csv" else JSON_LINES
    return Reply(_lines(call, form), headers={"Content-Disposition": name}, media=media)


async def _lines(call: Call, form: str) -> AsyncGenerator[bytes, None]:
    """A thousand changes at a time, newest first; whoever takes the stream closes it."""
    before, written = call.query["before"], 0
    while written < MOST_EXPORTED and call.signed_in():
        rows = await gathered(await call.console.backend.views.audit(_wanted(call, MOST_ROWS, before)))
        if form == "csv":
            lines = map(csv_line, rows)
            yield b"".join(await gathered(lines if written else chain([CSV_HEAD], lines)))
        else:
            yield b"".join(await gathered(encode(entry_json(row)) + b"\n" for row in rows))
        if len(rows) < MOST_ROWS:
            return
        before, written = rows[-1].seq, written + len(rows)


async def undo(call: Call) -> Reply:
    seq, validate_only = call.place["id"], call.query["validate_only"]
    backend = call.console.backend
    outcome = await backend.control.apply(Undo(seq, validate_only), call.actor)
    if outcome.error is ErrorCode.INVALID_UPDATE_VERSION:
        raise Problem(409, outcome.message or "", code=outcome.error.name)
    if not outcome.ok:
        raise Problem.of(outcome.error, outcome.message)
    (row,) = await backend.views.audit(AuditFilter(seq=seq))
    if not validate_only:
        call.console.live.refresh()
    bootstrap = next(iter(backend.views.overview().bootstrap), "localhost:9092")
    reach = await _reach(call, row) if validate_only else []
    return Reply({"change": entry_json(row), "command": undo_command(bootstrap, row), "reach": reach})


async def _reach(call: Call, row: AuditEntry) -> list[dict[str, Any]]:
    pairs = quota_entity(row)
    if pairs is None or pairs[0][0] == "ip":
        return []
    op = undo_op(row)
    mark = QuotaAlteration(pairs, (), shadow=row.old is not None)
    edit = mark if op is None else QuotaAlteration(pairs, (op,))
    views = call.console.backend.views
    reaches = await preview(views, (edit,), await gathered(views.each_connection()))
    return [reach_json(each) for each in reaches]


def _wanted(call: Call, limit: int, before: int | None) -> AuditFilter:
    query = call.query
    return AuditFilter(
        kind=query["kind"],
        entity=query["entity"],
        actor=query["actor"],
        door=query["door"],
        not_door=ChangeOrigin.BROKER if query["people"] else None,
        search=query["search"] or None,
        before_seq=before,
        limit=limit,
    )


ROUTES: Final = (
    Route(
        "GET",
        "/api/v1/audit",
        "listChanges",
        "Every change: who, when, from where, through which door, from what to what.",
        list_changes,
        {200: Answer("Changes; `next` leads on where there are more", TRAIL)},
        query=(
            *_FILTER,
            *_ORDER,
            Query("limit", Number(integer=True, least=1, most=MOST_ROWS), "How many to answer.", default=100),
        ),
    ),
    Route(
        "GET",
        "/api/v1/audit:export",
        "exportChanges",
        "The same as a file, a change a line.",
        export_changes,
        {
            200: Answer(
                f"At most {MOST_EXPORTED} changes, newest first, as JSON lines or CSV",
                media=JSON_LINES,
                also=(CSV,),
            )
        },
        query=(*_FILTER, Query("format", Text(choices=("jsonl", "csv")), "Of the lines.", default="jsonl")),
    ),
    Route(
        "POST",
        "/api/v1/audit/{id}:undo",
        "undoChange",
        "Puts the old value back, as a new change; needs the role that the change itself needs.",
        undo,
        {
            200: Answer("What was undone, or would be, and whom that reaches", UNDONE, JSON),
            404: Answer("There is no such change", PROBLEM),
            409: Answer("It has been changed again since", PROBLEM),
        },
        query=(Query("validate_only", Flag(), "Change nothing; say what it would do.", default=False),),
        place=(Query("id", _SEQ, "The change."),),
    ),
)

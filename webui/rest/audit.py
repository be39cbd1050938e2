"""GET /audit, /audit/{id} and /audit:export, and POST /audit/{id}:undo: the trail of changes, and undo.

The trail is the metadata log itself, so it always matches the current state; an undo is another change in
it. broker.controller has already redacted secrets.
"""

import csv
import io
import shlex
from collections.abc import AsyncGenerator, Iterable
from itertools import chain
from typing import Any, Final

from msgspec.structs import replace

from broker.common.errors import ErrorCode
from broker.common.temporary_limits import read_temporary
from broker.controller.commands import (
    ChangeOrigin,
    EntityPairs,
    QuotaAlteration,
    QuotaOp,
    TemporaryOp,
    Undo,
)
from broker.controller.rows.broker import AuditEntry, ServerInfo
from broker.views.metadata import AuditFilter
from webui.problem import PROBLEM, Problem
from webui.problem_types import CHANGED_SINCE
from webui.quota_preview import connected_clients, preview
from webui.quotas import shell_command
from webui.rest.paging import NEXT, bad_cursor, list_query, next_of, place_of
from webui.rest.proof import PROOF_HEADER, require_proof
from webui.rest.reach import REACH, reaches_json
from webui.rest.replies import path_of
from webui.rest.routing import Call, Query, Reply, ResponseSpec, Route
from webui.schema import Flag, Listing, Number, Record, Text
from webui.tables.answers import as_json, schema_of
from webui.tables.json_output import encode
from webui.tables.slices import collect

TEMPORARY_QUOTA: Final = "temporary-quota"
SHADOW: Final = "shadow"
KINDS: Final = (
    "cluster",
    "topic",
    "topic-config",
    "client-quota",
    TEMPORARY_QUOTA,
    "broker-config",
    "client-metrics",
    "group-config",
    "producer-ids",
    "connection",
    "gateway",
    "records",
    "group",
    "transaction",
    "upstream",
    "user-scram",
    "delegation-token",
    "acl",
    "admin-token",
    "alert-rule",
    "alert-destination",
    "alert-silence",
)
TOOL_TYPES: Final = {
    "topic-config": "topics",
    "broker-config": "brokers",
    "client-metrics": "client-metrics",
    "group-config": "groups",
}
COLUMNS: Final = ("id", "at", "actor", "role", "address", "origin", "kind", "entity", "key", "old", "new")
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def undo_edit(row: AuditEntry, quota: EntityPairs) -> QuotaAlteration:
    """Return the edit that undoes a change of a client quota: of a limit, a temporary one, or the mark of
    shadow mode.
    """
    if row.kind == TEMPORARY_QUOTA:
        old = None if row.old is None else read_temporary(row.old)
        return QuotaAlteration(quota, (), temporary=(TemporaryOp(row.key, old),))
    if row.key == SHADOW:
        return QuotaAlteration(quota, (), shadow=row.old is not None)
    return QuotaAlteration(quota, (QuotaOp(row.key, None if row.old is None else float(row.old)),))


def undo_command(info: ServerInfo, row: AuditEntry) -> str:
    """Return the line for a shell that is equivalent to an undo; empty if no tool can do it."""
    if row.quota is not None:
        return shell_command(info, undo_edit(row, row.quota))
    if row.kind not in TOOL_TYPES:
        return ""
    words = [*info.endpoint.tool("kafka-configs.sh"), "--alter"]
    words += ["--delete-config", row.key] if row.old is None else ["--add-config", _assignment(row)]
    words += ["--entity-type", TOOL_TYPES[row.kind]]
    words += ["--entity-name", row.entity] if row.entity else ["--entity-default"]
    return shlex.join(words)


def csv_line(row: AuditEntry) -> bytes:
    """Format a line by RFC 4180. An apostrophe precedes a cell that a spreadsheet would evaluate as a
    formula.
    """
    fields = as_json(row)
    return _csv(_cell(fields[name]) for name in COLUMNS)


def _csv(cells: Iterable[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue().encode()


CSV_HEAD: Final = _csv(COLUMNS)


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _assignment(row: AuditEntry) -> str:
    """Put a value with a comma in brackets: the tool splits other values at commas."""
    value = row.old or ""
    return f"{row.key}=[{value}]" if "," in value else f"{row.key}={value}"


ACLS: Final = "acl"
"""The kind of their changes."""

MAX_ROWS: Final = 1_000
MAX_OF_ENTITY: Final = 100
"""Changes of one entity among which the undo itself is found; later ones are other people's."""

MAX_EXPORTED: Final = 100_000
LONGEST_VALUE: Final = 1_000_000
JSON_LINES: Final = "application/jsonl; charset=utf-8"
CSV: Final = "text/csv; charset=utf-8"

LARGEST_SEQ: Final = 2**63
_SEQ = Number(integer=True, minimum=1, exclusive_maximum=float(LARGEST_SEQ))
ENTRY: Final = schema_of(AuditEntry, "Change")
TRAIL: Final = Record({"items": Listing(ENTRY, max_items=MAX_ROWS), "next": NEXT})
UNDONE: Final = Record(
    {
        "change": ENTRY,
        "command": Text(max_length=LONGEST_VALUE),
        "reach": Listing(REACH),
    },
    title="Undo",
)

LOGS: Final = {"changes": False, "reads": True, "all": None}

_FILTER: Final = (
    Query(
        "log",
        Text(choices=tuple(LOGS)),
        "Changes, or who read records of topics through the console or REST, or both.",
        default="changes",
    ),
    Query("kind", Text(choices=KINDS), "Only changes of this kind."),
    Query("entity", Text(), "Only changes of this entity, in the format of the field `entity`."),
    Query("actor", Text(), "Only changes by this token or principal."),
    Query("origin", Text(choices=tuple(ChangeOrigin)), "Only changes of this origin."),
    Query("without_broker", Flag(), "Without changes made by the broker itself.", default=False),
    Query("search", Text(), "Only changes with this text in entity, key, actor or address.", default=""),
)
_ORDER: Final = Query(
    "order", Text(choices=("desc", "asc")), "Sort order: newest or oldest first.", default="desc"
)


async def list_changes(call: Call) -> Reply:
    limit, is_rising, last = call.query["limit"], call.query["order"] == "asc", _last_of(call)
    # One more row shows whether there is another page.
    wanted = _wanted(call, limit + 1, None if is_rising else last)
    if is_rising:
        wanted = replace(wanted, after_seq=last, oldest_first=True)
    rows = await collect(await call.views.metadata.audit(wanted))
    items = await collect(map(as_json, rows[:limit]))
    return Reply({"items": items, "next": next_of(call, rows[limit - 1].seq) if len(rows) > limit else None})


def _last_of(call: Call) -> int | None:
    """Return the last change of the previous page. Raises Problem 400."""
    match place_of(call):
        case None:
            return None
        case int() as seq if 0 < seq < LARGEST_SEQ:
            return seq
    raise bad_cursor("must be the `next` of the previous page")


async def get_change(call: Call) -> Reply:
    rows = list(await call.views.metadata.audit(AuditFilter(seq=call.path_params["id"])))
    if not rows:
        raise Problem(404, "Change not found.")
    return Reply(as_json(rows[0]))


async def export_changes(call: Call) -> Reply:
    form = call.query["format"]
    name = f'attachment; filename="weir-audit.{form}"'
    media = CSV if form == "csv" else JSON_LINES
    return Reply(_lines(call, form), headers={"Content-Disposition": name}, media=media)


async def _lines(call: Call, form: str) -> AsyncGenerator[bytes, None]:
    """Yield a thousand changes at a time, newest first. The consumer closes the stream."""
    before, written = call.query["before_id"], 0
    while written < MAX_EXPORTED and call.is_logged_in():
        rows = await collect(await call.views.metadata.audit(_wanted(call, MAX_ROWS, before)))
        if form == "csv":
            lines = map(csv_line, rows)
            yield b"".join(await collect(lines if written else chain([CSV_HEAD], lines)))
        else:
            yield b"".join(await collect(encode(as_json(row)) + b"\n" for row in rows))
        if len(rows) < MAX_ROWS:
            return
        before, written = rows[-1].seq, written + len(rows)


async def undo(call: Call) -> Reply:
    seq, validate_only = call.path_params["id"], call.query["validate_only"]
    backend = call.console.backend
    if not validate_only and any(
        row.kind == ACLS for row in await backend.views.metadata.audit(AuditFilter(seq=seq))
    ):
        await require_proof(call)  # as the change itself does
    outcome = await backend.control.apply(Undo(seq, validate_only), call.actor)
    if outcome.error is ErrorCode.INVALID_UPDATE_VERSION:
        raise Problem(409, outcome.message or "", kind=CHANGED_SINCE, code=outcome.error.name)
    if not outcome.ok:
        raise Problem.of(outcome.error, outcome.message)
    (row,) = await backend.views.metadata.audit(AuditFilter(seq=seq))
    if not validate_only:
        call.console.live.refresh()
    info = backend.views.server_info()
    reach = await _reach(call, row) if validate_only else []
    answer = {"change": as_json(row), "command": undo_command(info, row), "reach": reach}
    if validate_only:
        return Reply(answer)
    made = await _newest(call, row)
    return Reply(answer, status=201, headers={"Location": path_of("audit", str(made.seq))})


async def _newest(call: Call, undone: AuditEntry) -> AuditEntry:
    """Return the newest change of the value that an undo has restored."""
    of_entity = AuditFilter(kind=undone.kind, entity=undone.entity, limit=MAX_OF_ENTITY)
    rows = await call.views.metadata.audit(of_entity)
    return next((row for row in rows if row.key == undone.key), undone)


async def _reach(call: Call, row: AuditEntry) -> list[dict[str, Any]]:
    pairs = row.quota
    if pairs is None or pairs[0][0] == "ip":
        return []
    edit = undo_edit(row, pairs)
    reaches = await preview(call.views, (edit,), await connected_clients(call.views))
    return await reaches_json(reaches)


def _wanted(call: Call, limit: int, before: int | None) -> AuditFilter:
    query = call.query
    return AuditFilter(
        kind=query["kind"],
        entity=query["entity"],
        actor=query["actor"],
        origin=query["origin"],
        not_origin=ChangeOrigin.BROKER if query["without_broker"] else None,
        search=query["search"] or None,
        before_seq=before,
        limit=limit,
        reads=LOGS[query["log"]],
    )


_ID: Final = (Query("id", _SEQ, "The change."),)


ROUTES: Final = (
    Route(
        "GET /api/v1/audit",
        "listChanges",
        "All changes, with actor, time, address, origin, old value and new value.",
        list_changes,
        {200: ResponseSpec("A page of changes; `next` is the cursor of the next page, if any", TRAIL)},
        query=(*_FILTER, _ORDER, *list_query(most=MAX_ROWS)),
    ),
    Route(
        "GET /api/v1/audit/{id}",
        "getChange",
        "One change.",
        get_change,
        {200: ResponseSpec("The change", ENTRY), 404: ResponseSpec("Change not found", PROBLEM)},
        path_params=_ID,
    ),
    Route(
        "GET /api/v1/audit:export",
        "exportChanges",
        "The changes as a file, one per line.",
        export_changes,
        {
            200: ResponseSpec(
                f"At most {MAX_EXPORTED} changes, newest first, as JSON lines or CSV",
                media=JSON_LINES,
                also=(CSV,),
            )
        },
        query=(
            *_FILTER,
            Query(
                "before_id", _SEQ, "Only changes before this one, to continue after the last line of a file."
            ),
            Query("format", Text(choices=("jsonl", "csv")), "Format of the lines.", default="jsonl"),
        ),
    ),
    Route(
        "POST /api/v1/audit/{id}:undo",
        "undoChange",
        "Restores the old value, as a new change. Requires the role that the change itself requires, and of "
        "an ACL the secret again.",
        undo,
        {
            200: ResponseSpec(
                "Only with validate_only: the change to be undone, and the affected clients", UNDONE
            ),
            201: ResponseSpec("The change that was undone; Location is the new one", UNDONE),
            404: ResponseSpec("Change not found", PROBLEM),
            409: ResponseSpec("The value has changed again since", PROBLEM),
        },
        headers=PROOF_HEADER,
        query=(Query("validate_only", Flag(), "Only preview the effect; change nothing.", default=False),),
        path_params=_ID,
    ),
)

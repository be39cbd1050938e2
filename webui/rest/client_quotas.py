"""GET and PATCH /client-quotas: Kafka's filter and alteration, with versions against lost updates; and the
table of rules. webui.rest.client_quota_rule has the single rules.

GET takes DescribeClientQuotas' components as parameters, and searches, sorts and pages the result. PATCH
takes AlterClientQuotas' entries; with validate_only it changes nothing and previews the affected clients:
of all entries together, and for up to eight entries of each separately.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec.structs import replace

from broker.common.errors import ErrorCode
from broker.controller.commands import (
    AlterClientQuotas,
    QuotaAlteration,
    QuotaOp,
    QuotaOutcome,
    Role,
    TemporaryOp,
)
from broker.controller.rows.broker import ServerInfo
from broker.controller.rows.fields import LEFT_OUT, Measured, Moment, Node, RuleEntity
from broker.controller.rows.quotas import (
    MatchType,
    OverriddenBy,
    QuotaFilter,
    QuotaLimit,
    QuotaRow,
    ShadowUse,
)
from broker.views.console import Views
from webui.problem import Problem, problem_schema
from webui.quota_preview import connected_clients, preview
from webui.quotas import (
    ALL_KEYS,
    ENTITY,
    ENTITY_TYPES,
    LIMIT_KEYS,
    LONGEST_NAME,
    id_of,
    json_of,
    limit_in_json,
    order_of,
    pairs_of,
    shape_of,
    shell_command,
)
from webui.rest.paging import page_query, page_schema, table_page
from webui.rest.reach import REACH, reaches_json
from webui.rest.replies import etag, expected_version
from webui.rest.routing import Call, Query, Reply, ResponseSpec, Route
from webui.rest.temporary_quotas import (
    ALL_SHOWN,
    BEYOND,
    TEMPORARIES,
    TIMES,
    VALUE,
    TemporaryClientQuota,
    shown,
    temporary_of,
)
from webui.schema import COUNT, Flag, Invalid, Listing, Number, OneOf, Record, Schema, Text
from webui.tables.answers import as_json, schema_of
from webui.tables.json_output import finite
from webui.tables.listing import Table
from webui.tables.slices import collect, run_in_slices


class ClientQuotaLimit(msgspec.Struct, frozen=True):
    """One limit with its use, as in `QuotaLimit`. What does not apply to it is left out."""

    upstream_node: Annotated[Node | None, LEFT_OUT]
    gateway: Annotated[str | None, LEFT_OUT]
    overridden_by: Annotated[Annotated[OverriddenBy, msgspec.Meta(title="OverriddenBy")] | None, LEFT_OUT]
    shadow_throttles: Annotated[ShadowUse | None, LEFT_OUT]
    value: Annotated[float, msgspec.Meta(gt=0)]
    observed: Measured | None
    used: Measured | None
    throttled: int
    changed_at_ms: Moment
    changed_by: str


class ClientQuota(msgspec.Struct, frozen=True):
    """All limits of one entity that are in force, by key, and its temporary limits, in force or not yet."""

    id: str
    entity: RuleEntity
    limits: dict[str, ClientQuotaLimit]
    temporary: Annotated[dict[str, TemporaryClientQuota] | None, LEFT_OUT]
    shadow: bool
    version: int
    changed_at_ms: Moment
    changed_by: str


LIMIT: Final = schema_of(ClientQuotaLimit, "ClientQuotaLimit")
_LIMITS: Final = Record(dict.fromkeys(ALL_KEYS, LIMIT), optional=frozenset(ALL_KEYS))
QUOTA: Final = schema_of(ClientQuota, "ClientQuota", limits=_LIMITS, temporary=ALL_SHOWN)

QUOTAS: Final = page_schema(QUOTA, unlisted=COUNT)
"""`unlisted` limits that other gateways use are missing in the use of the rules."""

RESULT_FIELDS: Final[dict[str, Schema]] = {
    "entity": ENTITY,
    "error": Text(),
    "message": Text(max_length=4096, nullable=True),
    "current": Record(QUOTA.fields, optional=frozenset(QUOTA.fields)),
    "command": Text(max_length=200_000),
    "reach": Listing(REACH),
    "warnings": Listing(Text(max_length=4096)),
}

RESULTS_LIST: Final = Listing(Record(RESULT_FIELDS, optional=frozenset({"current", "reach"})))

RESULTS: Final = Record({"results": RESULTS_LIST, "reach": Listing(REACH)}, optional=frozenset({"reach"}))

REFUSED_RESULTS: Final = problem_schema(results=RESULTS_LIST)


SHAPES: Final = ("user", "client-id", "user+client-id", "ip", "default")
"""Kinds of rules; "default" selects rules with a default entity."""

PARAMETERS: Final = {"user": "user", "client-id": "client_id", "ip": "ip"}
"""The query parameter of each entity type."""


def row_json(row: QuotaRow) -> dict[str, Any]:
    limits = {limit.key: _limit(limit) for limit in row.limits}
    temporary = {each.key: shown(each, row.value(each.key)) for each in row.temporary}
    state = row.shadow, row.version, row.changed_at_ms, row.changed_by
    return as_json(ClientQuota(id_of(row.entity), row.entity, limits, temporary or None, *state))


def _limit(limit: QuotaLimit) -> ClientQuotaLimit:
    return ClientQuotaLimit(
        limit.upstream_node,
        limit.gateway or None,
        limit.overridden_by,
        limit.shadow,
        limit_in_json(limit.value),
        limit.observed,
        limit.used,
        limit.throttled,
        limit.changed_at_ms,
        limit.changed_by,
    )


def _is(shape: str) -> Callable[[QuotaRow], bool]:
    if shape == "default":
        return lambda row: any(name is None for _, name in row.entity)
    return lambda row: shape_of(row.entity) == shape


def _value(key: str) -> Callable[[QuotaRow], float | None]:
    return lambda row: row.value(key)


def _used(row: QuotaRow) -> float | None:
    return max((used for limit in row.limits if (used := finite(limit.used)) is not None), default=None)


RULES: Final[Table[QuotaRow]] = Table(
    json=row_json,
    search_texts=lambda row: [name or "<default>" for _, name in row.entity],
    default_sort="entity",
    sort_key=lambda row: order_of(row.entity),
    sorts={
        "changed": lambda row: row.changed_at_ms,
        "used": _used,
        **{key: _value(key) for key in LIMIT_KEYS},
    },
    filters={shape: _is(shape) for shape in SHAPES},
)


MAX_ENTRIES: Final = 1_000
MAX_PREVIEWS: Final = 8
"""Maximum number of entries with a separate preview; each one examines all connected clients."""
WANTED: Final = Record(
    {
        "limits": Record(dict.fromkeys(ALL_KEYS, VALUE), optional=frozenset(ALL_KEYS)),
        "temporary": TEMPORARIES,
        "shadow": Flag(),
    },
    optional=frozenset({"temporary", "shadow"}),
    title="WantedClientQuota",
)
"""All limits of an entity in a request; other limits are removed. Without `temporary` the temporary limits
stay.
"""


def check_wanted(wanted: Mapping[str, Any], where: str = "") -> None:
    """Raises Invalid for an entity without a limit."""
    if not wanted["limits"] and not wanted.get("temporary"):
        raise Invalid(f"{where}/limits", f"must have at least 1 of {', '.join(ALL_KEYS)}")


_NAME = Text(max_length=LONGEST_NAME)
_MATCH = Text(choices=tuple(MatchType))
_FILTER_QUERY: Final = (
    Query("user", _NAME, "A user; empty with user_match default or any."),
    Query("client_id", _NAME, "A client id; empty with client_id_match default or any."),
    Query("ip", _NAME, "An address; empty with ip_match default or any."),
    Query("match", _MATCH, "How to match all given names.", default="exact"),
    *(
        Query(f"{name}_match", _MATCH, f"How to match {name}, if different from `match`.")
        for name in PARAMETERS.values()
    ),
    Query("strict", Flag(), "Exclude entities with types other than those given.", default=False),
)

_KEY = Text(max_length=256)
_OP = OneOf(
    (
        Record({"key": _KEY, "value": VALUE, **TIMES}, optional=frozenset(TIMES)),
        Record({"key": _KEY, "remove": Flag(only=True)}),
        Record({"key": _KEY, "remove_temporary": Flag(only=True)}),
    )
)
EDIT: Final[Mapping[str, Schema]] = {"entity": ENTITY, "ops": Listing(_OP, max_items=16), "shadow": Flag()}
EDIT_OPTIONAL: Final = frozenset({"shadow"})
_VERSION: Final = {"version": Number(integer=True, minimum=0, exclusive_maximum=BEYOND)}
_PATCH: Final = Record(
    {
        "entries": Listing(
            Record({**EDIT, **_VERSION}, optional=EDIT_OPTIONAL | _VERSION.keys()),
            min_items=1,
            max_items=MAX_ENTRIES,
        )
    }
)


async def list_quotas(call: Call) -> Reply:
    components = _components(call.query)
    rows = await collect(call.views.quotas.each_quota(components, strict=call.query["strict"]))
    headers = {}
    if call.query["strict"] and components and all(one.match is not MatchType.ANY for one in components):
        # The filter names one entity, so the response has an ETag for a later If-Match.
        headers["ETag"] = etag(rows[0].version if rows else 0)
    page = await table_page(call, RULES, rows)
    return Reply(page | {"unlisted": call.views.shares.unlisted_use()}, headers=headers)


async def alter_quotas(call: Call) -> Reply:
    check_edits(call.body["entries"], "/entries")
    entries = await collect(
        alteration_of(entry, f"/entries/{index}") for index, entry in enumerate(call.body["entries"])
    )
    version = expected_version(call.headers)
    if version is not None:
        if len(entries) != 1:
            raise Problem(
                400, "If-Match applies to a single entry; with several entries set `version` in each."
            )
        entries = [replace(entries[0], expected_version=version)]
    validate_only = call.query["validate_only"]
    command = AlterClientQuotas(tuple(entries), validate_only)
    outcomes = await call.apply(command)
    if not validate_only:
        call.console.live.refresh()
    results = await _results(call, entries, outcomes)
    if validate_only and len(entries) <= MAX_PREVIEWS:
        await _add_reach(call, entries, results)
    refused = [outcome for outcome in outcomes if not outcome.ok]
    if len(refused) == len(outcomes):
        raise Problem.of(refused[0].error, refused[0].message, results=results)
    answer: dict[str, Any] = {"results": results}
    if validate_only and len(entries) > 1:
        sound = [entry for entry, outcome in zip(entries, outcomes, strict=True) if outcome.ok]
        answer |= await _together(call.views, sound)
    return Reply(answer, status=207 if refused else 200)


def _components(query: Mapping[str, Any]) -> list[QuotaFilter]:
    made = []
    for kind in ENTITY_TYPES:
        parameter = PARAMETERS[kind]
        name, own_match = query[parameter], query[f"{parameter}_match"]
        if name is None and own_match is None:
            continue
        match = MatchType(own_match or query["match"])
        if match is MatchType.EXACT and not name:
            raise Invalid(parameter, f"requires a name, or {parameter}_match=default or any")
        if match is not MatchType.EXACT and name:
            raise Invalid(parameter, f"must be empty with {parameter}_match={match}")
        made.append(QuotaFilter(kind, match, name if match is MatchType.EXACT else None))
    return made


def check_edits(entries: Sequence[Mapping[str, Any]], where: str) -> None:
    """Raises Invalid for the first entry without an operation."""
    for index, entry in enumerate(entries):
        if not entry["ops"] and "shadow" not in entry:
            raise Invalid(f"{where}/{index}/ops", "must have 1 to 16 elements if shadow is not given")


def alteration_of(entry: Mapping[str, Any], where: str) -> QuotaAlteration:
    """Return the edit of a request's entry. An op with times sets a temporary limit. Raises Invalid."""
    ops, temporary = [], []
    for index, op in enumerate(entry["ops"]):
        if "remove_temporary" in op:
            temporary.append(TemporaryOp(op["key"], None))
        elif TIMES.keys().isdisjoint(op):
            ops.append(QuotaOp(op["key"], op.get("value")))
        else:
            temporary.append(TemporaryOp(op["key"], temporary_of(op, f"{where}/ops/{index}")))
    state = entry.get("version"), entry.get("shadow")
    return QuotaAlteration(pairs_of(entry["entity"]), tuple(ops), *state, tuple(temporary))


async def _results(
    call: Call, entries: Sequence[QuotaAlteration], outcomes: Sequence[QuotaOutcome]
) -> list[dict[str, Any]]:
    info = call.views.server_info()
    if len(entries) == 1:
        rows = {entries[0].entity: await run_in_slices(call.views.quotas.quota(entries[0].entity))}
    else:
        wanted = {entry.entity for entry in entries}
        every = call.views.quotas.each_quota()
        found = await collect(row if row is not None and row.entity in wanted else None for row in every)
        rows = {row.entity: row for row in found}
    return await collect(
        _result(info, entry, outcome, rows.get(entry.entity))
        for entry, outcome in zip(entries, outcomes, strict=True)
    )


def _result(
    info: ServerInfo, entry: QuotaAlteration, outcome: QuotaOutcome, row: QuotaRow | None
) -> dict[str, Any]:
    return {
        "entity": json_of(entry.entity),
        "error": outcome.error.name,
        "message": outcome.message,
        "current": {} if row is None else row_json(row),
        "command": shell_command(info, entry),
        "warnings": list(outcome.warnings),
    }


async def _add_reach(
    call: Call, entries: Sequence[QuotaAlteration], results: Sequence[dict[str, Any]]
) -> None:
    if call.views.quotas.callback:
        return  # the callback's result is unknown in advance
    connected = await connected_clients(call.views)
    for entry, result in zip(entries, results, strict=True):
        if result["error"] == ErrorCode.NONE.name:
            reaches = await preview(call.views, (entry,), connected)
            result["reach"] = await reaches_json(reaches)


async def reach_of(views: Views, entry: QuotaAlteration) -> list[dict[str, Any]]:
    """Return the clients that an edit affects; empty if a quota callback decides, or for an address."""
    if views.quotas.callback or entry.entity[0][0] == "ip":
        return []
    return await reaches_json(await preview(views, (entry,), await connected_clients(views)))


async def _together(views: Views, entries: Sequence[QuotaAlteration]) -> dict[str, Any]:
    """Return the clients that several edits affect together; empty if a quota callback decides."""
    if views.quotas.callback:
        return {}
    reaches = await preview(views, entries, await connected_clients(views))
    return {"reach": await reaches_json(reaches)}


ROUTES: Final = (
    Route(
        "GET /api/v1/client-quotas",
        "listClientQuotas",
        "Quota rules with their use, filtered as DescribeClientQuotas does, then searched, sorted and paged.",
        list_quotas,
        {
            200: ResponseSpec('A page of rules; ETag if the filter names one entity ("0": no rule)', QUOTAS),
        },
        query=(*_FILTER_QUERY, *page_query(RULES)),
    ),
    Route(
        "PATCH /api/v1/client-quotas",
        "alterClientQuotas",
        "Sets and removes limits; with `shadow` an entity's limits are measured, not enforced. A value with "
        "`until` or `windows` is temporary: the permanent limit stays below it. Each entry is accepted or "
        "rejected separately.",
        alter_quotas,
        {
            200: ResponseSpec("Every entry was accepted", RESULTS),
            207: ResponseSpec("Some entries were rejected", RESULTS),
            400: ResponseSpec("Every entry was rejected, or the request is invalid", REFUSED_RESULTS),
            403: ResponseSpec("Insufficient role", REFUSED_RESULTS),
            412: ResponseSpec(
                "The entity changed in the meantime; `current` is its current state", REFUSED_RESULTS
            ),
        },
        query=(
            Query(
                "validate_only", Flag(), "Only preview the affected clients; change nothing.", default=False
            ),
        ),
        body=_PATCH,
        has_list=True,
        example={
            "entries": [
                {
                    "entity": {"client-id": "reporting"},
                    "ops": [{"key": "consumer_byte_rate", "value": 20000000}],
                },
                {"entity": {"user": None}, "ops": [{"key": "producer_byte_rate", "remove": True}]},
                {
                    "entity": {"user": "orders"},
                    "ops": [
                        {"key": "producer_byte_rate", "value": 50000000, "until": "2030-12-01T18:00:00Z"}
                    ],
                },
            ]
        },
        headers={
            "If-Match": "The ETag of the entity, for a request with one entry.",
            "If-None-Match": "`*`: only if the entity has no limits yet.",
        },
        role=Role.EDITOR,
    ),
)

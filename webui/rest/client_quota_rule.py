"""GET, PUT and DELETE /client-quotas/{id}: one quota rule as a resource, for tools that hold a desired state.

The id derives from the entity (webui.quotas). A PUT gives the rule exactly the listed limits, and
repeating it changes nothing. The command is that of PATCH /client-quotas.
"""

from typing import Any, Final

from msgspec.structs import replace

from broker.controller.commands import (
    AlterClientQuotas,
    EntityPairs,
    QuotaAlteration,
    QuotaOp,
    Role,
    TemporaryOp,
)
from broker.controller.rows.quotas import QuotaRow
from webui.problem import Problem, problem_schema, raise_refusal
from webui.quotas import (
    LIMIT_KEYS,
    LONGEST_ID,
    BadId,
    entity_of,
    shell_command,
)
from webui.rest.client_quotas import QUOTA, WANTED, check_wanted, reach_of, row_json
from webui.rest.reach import REACH
from webui.rest.replies import HEADERS, expected_version, no_content, path_of, stored, versioned
from webui.rest.routing import Call, Query, Reply, ResponseSpec, Route
from webui.rest.temporary_quotas import temporary_ops
from webui.schema import Flag, Invalid, Listing, Maybe, Record, Text
from webui.tables.slices import run_in_slices

IP_KEY: Final = "connection_creation_rate"

EDITED: Final = Record(
    {
        "current": Maybe(QUOTA),
        "command": Text(max_length=200_000),
        "warnings": Listing(Text(max_length=4096)),
        "reach": Listing(REACH),
    },
    title="ClientQuotaEdit",
)
REFUSED: Final = problem_schema(current=Maybe(QUOTA))

ID_OF_RULE: Final = (
    Query(
        "id",
        Text(max_length=LONGEST_ID, min_length=1),
        "The rule's entity: `user=alice`, `client-id=app`, `user=alice,client-id=app` or `ip=10.0.0.7`; "
        "without `=` the default, as in `user,client-id=app`. Other characters than letters, digits and "
        "`-._:@` are `~` and two hexadecimal digits for each byte of UTF-8.",
    ),
)
_VALIDATE: Final = Query(
    "validate_only", Flag(), "Only preview the affected clients; change nothing.", default=False
)


async def get_rule(call: Call) -> Reply:
    row = await _existing(call)
    return versioned(row_json(row), row.version)


async def put_rule(call: Call) -> Reply:
    entity, limits = entity_in_path(call), call.body["limits"]
    check_wanted(call.body)
    keys = _keys(entity)
    for key in limits:
        if key not in keys:
            raise Invalid(f"/limits/{key}", f"must be one of {', '.join(keys)} for this entity")
    # An op for each key, so that no reading of the present limits is needed, and equal ones change nothing.
    ops = tuple(QuotaOp(key, limits.get(key)) for key in keys)
    existed = (await _row(call)) is not None
    temporary = temporary_ops(call.body.get("temporary"), keys, "/temporary")
    state = expected_version(call.headers), call.body.get("shadow", False)
    entry = QuotaAlteration(entity, ops, *state, temporary)
    answer = await _alter(call, entry)
    row = await _row(call)
    path = path_of("client-quotas", call.path_params["id"])
    return stored(answer, 0 if row is None else row.version, path, existed=existed or row is None)


async def delete_rule(call: Call) -> Reply:
    row = await _existing(call)
    keys, version = _keys(row.entity), expected_version(call.headers)
    ops = tuple(QuotaOp(key, None) for key in keys)
    temporary = tuple(TemporaryOp(key, None) for key in keys)
    answer = await _alter(call, QuotaAlteration(row.entity, ops, version, temporary=temporary))
    return versioned(answer, row.version) if call.query["validate_only"] else no_content()


async def _alter(call: Call, entry: QuotaAlteration) -> dict[str, Any]:
    """Return what the edit did or would do. Raises Problem."""
    validate_only = call.query["validate_only"]
    edit = _changing(entry, await _row(call))
    command = AlterClientQuotas((entry,), validate_only)
    (outcome,) = await call.apply(command)
    row = await _row(call)
    current = None if row is None else row_json(row)
    raise_refusal(outcome, current)
    if not validate_only:
        call.console.live.refresh()
    return {
        "current": current,
        "command": shell_command(call.views.server_info(), edit),
        "warnings": list(outcome.warnings),
        "reach": await reach_of(call.views, edit) if validate_only else [],
    }


def _changing(entry: QuotaAlteration, row: QuotaRow | None) -> QuotaAlteration:
    """Return the edit without the ops that change nothing: Kafka's tool refuses to delete a missing limit."""
    limits = {} if row is None else row.permanent
    known = {} if row is None else {each.key: each.limit for each in row.temporary}
    is_shadow = row is not None and row.shadow
    ops = tuple(op for op in entry.ops if op.value != limits.get(op.key))
    temporary = tuple(op for op in entry.temporary if op.limit != known.get(op.key))
    shadow = None if entry.shadow is is_shadow else entry.shadow
    return replace(entry, ops=ops, shadow=shadow, temporary=temporary)


def _keys(entity: EntityPairs) -> tuple[str, ...]:
    return (IP_KEY,) if entity[0][0] == "ip" else LIMIT_KEYS


def entity_in_path(call: Call) -> EntityPairs:
    """Return the entity of the id in the path. Raises Invalid."""
    try:
        return entity_of(call.path_params["id"])
    except BadId as error:
        raise Invalid("id", str(error)) from None


async def _row(call: Call) -> QuotaRow | None:
    return await run_in_slices(call.views.quotas.quota(entity_in_path(call)))


async def _existing(call: Call) -> QuotaRow:
    row = await _row(call)
    if row is None:
        raise Problem(404, "This entity has no quota.")
    return row


_REFUSALS: Final = {
    400: ResponseSpec("Invalid id or limit", REFUSED),
    403: ResponseSpec("Insufficient role", REFUSED),
    412: ResponseSpec("The rule changed in the meantime; `current` is its current state", REFUSED),
}
_MISSING: Final = ResponseSpec("The entity has no quota", REFUSED)

ROUTES: Final = (
    Route(
        "GET /api/v1/client-quotas/{id}",
        "getClientQuota",
        "One rule with its use.",
        get_rule,
        {200: ResponseSpec("The rule; ETag: its version", QUOTA), 404: _MISSING},
        path_params=ID_OF_RULE,
    ),
    Route(
        "PUT /api/v1/client-quotas/{id}",
        "setClientQuota",
        "Creates a rule or gives it exactly the listed limits, enforced unless `shadow` is set. Temporary "
        "limits stay unless `temporary` is given.",
        put_rule,
        {
            200: ResponseSpec(
                "The rule after the change, or before it with validate_only; ETag: its version", EDITED
            ),
            201: ResponseSpec("The rule is new", EDITED),
            **_REFUSALS,
        },
        query=(_VALIDATE,),
        body=WANTED,
        has_list=True,
        headers=HEADERS,
        path_params=ID_OF_RULE,
        example={"limits": {"producer_byte_rate": 1000000, "consumer_byte_rate": 2000000}},
        role=Role.EDITOR,
    ),
    Route(
        "DELETE /api/v1/client-quotas/{id}",
        "removeClientQuota",
        "Removes all limits of a rule; the next rule in Kafka's order then applies to its clients.",
        delete_rule,
        {
            200: ResponseSpec(
                "Only with validate_only: the rule, and the clients that would leave it", EDITED
            ),
            204: ResponseSpec("The rule is removed"),
            404: _MISSING,
            **_REFUSALS,
        },
        query=(_VALIDATE,),
        headers=HEADERS,
        path_params=ID_OF_RULE,
    ),
)

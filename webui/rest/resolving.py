"""GET and POST /client-quotas:resolve: the rule that applies to a client, its usage, and the effect of edits.

GET resolves the current rules; POST takes edits in the format of PATCH /client-quotas and also returns each
limit after them. Neither changes anything, so both require only the role viewer.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from broker.common.errors import ApiError
from broker.common.principal import ANONYMOUS
from broker.controller.commands import QuotaAlteration
from broker.controller.rows.quotas import GatewayUse, NodeUse, ProbeRow, ResolvedLimit
from webui.entity_schema import ANY_ENTITY, ENTITY, LONGEST_NAME
from webui.problem import Problem
from webui.quotas import json_of
from webui.rest.client_quotas import EDIT, EDIT_OPTIONAL, alteration_of, check_edits
from webui.rest.routing import Call, Query, Reply, ResponseSpec, Route
from webui.schema import (
    COUNT,
    MAYBE,
    NAME,
    Flag,
    Listing,
    Number,
    Record,
    Schema,
    Text,
)
from webui.tables.answers import TAGS, as_json, schema_of, tags_json
from webui.tables.json_output import finite
from webui.tables.slices import run_in_slices

PATH: Final = "/api/v1/client-quotas:resolve"
MAX_EDITS: Final = 8

_NAME: Final = Text(max_length=LONGEST_NAME)
_STATE: Final[Mapping[str, Schema]] = {
    "bound": MAYBE,
    "observed": MAYBE,
    "measured_by": Text(choices=("quota", "connections"), nullable=True),
    "shadow": Flag(),
    "wait_ms": Number(integer=True, minimum=0, nullable=True),
    "first_wait_ms": COUNT,
    "nodes": Listing(schema_of(NodeUse)),
    "gateways": Listing(schema_of(GatewayUse)),
    "unlisted": Listing(NAME),
    "matched": ANY_ENTITY,
    "callback": Record({"class": NAME, "answered": Flag(), "tags": TAGS}),
    "probes": Listing(schema_of(ProbeRow, entity=ENTITY), max_items=8),
}
_OPTIONAL: Final = frozenset({"first_wait_ms", "matched", "callback", "nodes", "gateways", "unlisted"})
RESOLVED: Final = Record(
    {
        "user": _NAME,
        "client_id": _NAME,
        "ip": _NAME,
        "limits": Listing(
            Record(
                {
                    "key": Text(),
                    **_STATE,
                    "if": Record(_STATE, optional=_OPTIONAL),
                },
                optional=_OPTIONAL | {"if"},
            )
        ),
    },
    optional=frozenset({"ip"}),
    title="ResolvedQuotas",
)
QUESTION: Final = Record(
    {
        "user": _NAME,
        "client_id": _NAME,
        "ip": _NAME,
        "if": Listing(Record(EDIT, optional=EDIT_OPTIONAL), min_items=1, max_items=MAX_EDITS),
    },
    optional=frozenset({"user", "client_id", "ip"}),
)


async def resolve(call: Call) -> Reply:
    return await _answer(call, call.query["user"], call.query["client_id"], call.query["ip"], None)


async def resolve_if(call: Call) -> Reply:
    body = call.body
    check_edits(body["if"], "/if")
    edits = [alteration_of(entry) for entry in body["if"]]
    return await _answer(call, body.get("user", ""), body.get("client_id", ""), body.get("ip", ""), edits)


async def _answer(
    call: Call, user: str, client_id: str, ip: str, edits: Sequence[QuotaAlteration] | None
) -> Reply:
    views = call.console.backend.views
    callback = views.quotas.callback
    try:
        limits = await run_in_slices(views.quotas.resolve(user or None, client_id, ip or None, edits or ()))
    except ApiError as error:
        raise Problem.of(error.code, error.message) from error
    return Reply(
        {"user": user or ANONYMOUS, "client_id": client_id}
        | ({"ip": ip} if ip else {})
        | {
            "limits": [
                {"key": now.key}
                | _state_json(now, callback)
                | ({} if edits is None else {"if": _state_json(then, callback)})
                for now, then in limits
            ]
        }
    )


def _state_json(limit: ResolvedLimit, callback: str) -> dict[str, Any]:
    state: dict[str, Any] = {
        "bound": limit.bound,
        "observed": finite(limit.observed),
        "measured_by": limit.measured_by,
        "shadow": limit.shadow,
        "wait_ms": limit.wait_ms,
        "probes": [as_json(probe) for probe in limit.probes],
    }
    if limit.decided is not None:
        tags = limit.decided.tags
        state["callback"] = {"class": callback, "answered": tags is not None, "tags": tags_json(tags or ())}
    if limit.first_wait is not None:
        state["first_wait_ms"] = limit.first_wait.wait_ms
    if limit.nodes:
        state["nodes"] = [as_json(use) for use in limit.nodes]
    if limit.gateways:
        state["gateways"] = [as_json(use) for use in limit.gateways]
    if limit.unlisted:
        state["unlisted"] = list(limit.unlisted)
    return state if limit.matched is None else state | {"matched": json_of(limit.matched)}


ROUTES: Final = (
    Route(
        "GET",
        PATH,
        "resolveClientQuotas",
        "The rule that applies to a client for each kind of limit, with lookup order and usage. If "
        "a quota callback decides, no rule matches, and `callback` has its tags. Where gateways share "
        "limits, `gateways` has the use at each of them, and `unlisted` those that may have more than they "
        "report.",
        resolve,
        {200: ResponseSpec("The result; without `matched` if no rule limits this client", RESOLVED)},
        query=(
            Query("user", _NAME, f"The user; default {ANONYMOUS}.", default=""),
            Query("client_id", _NAME, "The client id.", default=""),
            Query("ip", _NAME, "An address, to resolve its limit as well.", default=""),
        ),
    ),
    Route(
        "POST",
        PATH,
        "resolveClientQuotasIf",
        "Like GET, and each limit after the given edits (`if`), with the first throttle that the edits would "
        "cause. Changes nothing.",
        resolve_if,
        {200: ResponseSpec("The current result, and the result after the edits", RESOLVED)},
        body=QUESTION,
        has_list=True,
    ),
)

"""GET and POST /client-quotas:resolve: the rule that applies to a client, its usage, and the effect of edits.

GET resolves the current rules; POST takes edits in the format of PATCH /client-quotas and also returns each
limit after them. Neither changes anything, so both require only the role viewer.
"""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from broker.common.errors import ApiError
from broker.common.principal import ANONYMOUS
from broker.controller.commands import QuotaAlteration
from broker.controller.rows.fields import LEFT_OUT, Measured, ShownEntity, Tags
from broker.controller.rows.quotas import GatewayUse, MeasuredBy, NodeUse, ProbeRow, ResolvedLimit
from webui.problem import Problem
from webui.quotas import LONGEST_NAME
from webui.rest.client_quotas import EDIT, EDIT_OPTIONAL, alteration_of, check_edits
from webui.rest.routing import Call, Query, Reply, ResponseSpec, Route
from webui.schema import Listing, Record, Text
from webui.tables.answers import as_json, schema_of
from webui.tables.slices import run_in_slices

MAX_EDITS: Final = 8

_NAME: Final = Text(max_length=LONGEST_NAME)


class CallbackAnswer(msgspec.Struct, frozen=True):
    """What a quota callback decided; without `answered` it failed."""

    name: str = msgspec.field(name="class")
    answered: bool
    tags: Tags


class LimitState(msgspec.Struct, frozen=True):
    """What applies to a client for one key, as in `ResolvedLimit`. What does not is left out."""

    bound: float | None
    observed: Measured | None
    measured_by: MeasuredBy | None
    shadow: bool
    wait_ms: int | None
    probes: Annotated[tuple[ProbeRow, ...], msgspec.Meta(max_length=8)]
    callback: Annotated[CallbackAnswer | None, LEFT_OUT]
    first_wait_ms: Annotated[int | None, LEFT_OUT]
    nodes: Annotated[tuple[NodeUse, ...] | None, LEFT_OUT]
    gateways: Annotated[tuple[GatewayUse, ...] | None, LEFT_OUT]
    unlisted: Annotated[tuple[str, ...] | None, LEFT_OUT]
    matched: Annotated[ShownEntity | None, LEFT_OUT]

    @classmethod
    def of(cls, limit: ResolvedLimit, callback: str) -> "LimitState":
        """`callback` is the class of the quota callback."""
        decided, wait = limit.decided, limit.first_wait
        tags = None if decided is None else decided.tags
        return cls(
            limit.bound,
            limit.observed,
            limit.measured_by,
            limit.shadow,
            limit.wait_ms,
            limit.probes,
            None if decided is None else CallbackAnswer(callback, tags is not None, tags or ()),
            None if wait is None else wait.wait_ms,
            limit.nodes or None,
            limit.gateways or None,
            limit.unlisted or None,
            limit.matched,
        )


_STATE: Final = schema_of(LimitState)
_LIMIT: Final = Record({"key": Text(), **_STATE.fields, "if": _STATE}, optional=_STATE.optional | {"if"})
RESOLVED: Final = Record(
    {"user": _NAME, "client_id": _NAME, "ip": _NAME, "limits": Listing(_LIMIT)},
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
    edits = [alteration_of(entry, f"/if/{index}") for index, entry in enumerate(body["if"])]
    return await _answer(call, body.get("user", ""), body.get("client_id", ""), body.get("ip", ""), edits)


async def _answer(
    call: Call, user: str, client_id: str, ip: str, edits: Sequence[QuotaAlteration] | None
) -> Reply:
    callback = call.views.quotas.callback
    try:
        limits = await run_in_slices(
            call.views.quotas.resolve(user or None, client_id, ip or None, edits or ())
        )
    except ApiError as error:
        raise Problem.of(error.code, error.message) from error
    return Reply(
        {"user": user or ANONYMOUS, "client_id": client_id}
        | ({"ip": ip} if ip else {})
        | {
            "limits": [
                {"key": now.key}
                | as_json(LimitState.of(now, callback))
                | ({} if edits is None else {"if": as_json(LimitState.of(then, callback))})
                for now, then in limits
            ]
        }
    )


ROUTES: Final = (
    Route(
        "GET /api/v1/client-quotas:resolve",
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
        "POST /api/v1/client-quotas:resolve",
        "resolveClientQuotasIf",
        "Like GET, and each limit after the given edits (`if`), with the first throttle that the edits would "
        "cause. Changes nothing.",
        resolve_if,
        {200: ResponseSpec("The current result, and the result after the edits", RESOLVED)},
        body=QUESTION,
        has_list=True,
    ),
)

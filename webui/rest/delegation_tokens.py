"""GET /delegation-tokens; GET and DELETE /delegation-tokens/{id}: who can log in as whom with a token.

DELETE is the command of ExpireDelegationToken with a negative period. No response has an HMAC, which is the
token's password. A browser proves its user's secret again for a change, as for SCRAM users.
"""

from typing import Final

from broker.common.errors import ErrorCode
from broker.controller.delegation_tokens import LONGEST_PRINCIPAL, MAX_RENEWERS, ExpireDelegationToken
from broker.views.metadata import DelegationTokenRow, DelegationTokenViews
from webui.problem import PROBLEM, Problem, problem_schema, raise_refusal
from webui.rest.paging import page_query, page_schema, table_page
from webui.rest.proof import PROOF_HEADER, require_proof
from webui.rest.replies import IF_MATCH, expected_version, no_content, versioned
from webui.rest.routing import Call, Query, Reply, ResponseSpec, Route
from webui.rest.upstream import refuse_for_gateway
from webui.schema import Listing, Maybe, Text
from webui.tables.answers import as_json, schema_of
from webui.tables.listing import Table

AT_ONCE_MS: Final = -1
"""A period of ExpireDelegationToken: the token is removed."""


TOKENS: Final[Table[DelegationTokenRow]] = Table(
    json=as_json,
    search_texts=lambda row: (row.token_id, row.owner, row.requester, *row.renewers),
    default_sort="owner",
    sort_key=lambda row: (row.owner, row.issued_at_ms, row.token_id),
    sorts={
        "issued": lambda row: row.issued_at_ms,
        "expires": lambda row: row.expires_at_ms,
        "max-expires": lambda row: row.max_at_ms,
    },
)

TOKEN: Final = schema_of(
    DelegationTokenRow,
    "DelegationToken",
    renewers=Listing(Text(max_length=LONGEST_PRINCIPAL), max_items=MAX_RENEWERS),
)
TOKEN_PAGE: Final = page_schema(TOKEN)
REFUSED: Final = problem_schema(current=Maybe(TOKEN))


async def list_tokens(call: Call) -> Reply:
    return Reply(await table_page(call, TOKENS, _tokens(call).each()))


async def get_token(call: Call) -> Reply:
    row = _existing(call, _tokens(call))
    return versioned(as_json(row), row.version)


async def expire_token(call: Call) -> Reply:
    views = _tokens(call)
    await require_proof(call)
    token_id = _existing(call, views).token_id
    expected = expected_version(call.headers)
    command = ExpireDelegationToken(token_id, AT_ONCE_MS, call.console.now_ms(), expected)
    outcome = await call.apply(command)
    row = views.one(token_id)
    raise_refusal(outcome, None if row is None else as_json(row))
    call.console.live.refresh()
    return no_content()


def _tokens(call: Call) -> DelegationTokenViews:
    """Raises Problem 404 at a gateway, 409 without a secret key."""
    refuse_for_gateway(call.views, "delegation tokens")
    if not call.views.delegation_tokens.enabled:
        detail = "Delegation tokens are not enabled: delegation.token.secret.key is empty."
        raise Problem.of(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, detail)
    return call.views.delegation_tokens


def _existing(call: Call, views: DelegationTokenViews) -> DelegationTokenRow:
    row = views.one(call.path_params["id"])
    if row is None:
        raise Problem(404, "There is no such delegation token; it may have expired and been removed.")
    return row


_ID: Final = (Query("id", Text(min_length=1), "The token's id."),)
_OFF: Final = ResponseSpec("Delegation tokens are not enabled: no `delegation.token.secret.key`", PROBLEM)
_GATEWAY: Final = ResponseSpec("This is a gateway: delegation tokens are the upstream cluster's", PROBLEM)
_NONE: Final = ResponseSpec("There is no such delegation token, or this is a gateway", PROBLEM)

ROUTES: Final = (
    Route(
        "GET /api/v1/delegation-tokens",
        "listDelegationTokens",
        "Delegation tokens without their HMACs, expired ones too until they are removed.",
        list_tokens,
        {200: ResponseSpec("A page of tokens", TOKEN_PAGE), 404: _GATEWAY, 409: _OFF},
        query=page_query(TOKENS),
    ),
    Route(
        "GET /api/v1/delegation-tokens/{id}",
        "getDelegationToken",
        "One delegation token, without its HMAC.",
        get_token,
        {200: ResponseSpec("The token; ETag: its version", TOKEN), 404: _NONE, 409: _OFF},
        path_params=_ID,
    ),
    Route(
        "DELETE /api/v1/delegation-tokens/{id}",
        "expireDelegationToken",
        "Expires a delegation token at once and removes it, as ExpireDelegationToken does. Nobody can log in "
        "with it any more; connections that did last until its former expiry. Requires the role admin.",
        expire_token,
        {
            204: ResponseSpec("The token is expired"),
            404: _NONE,
            409: _OFF,
            412: ResponseSpec("The token was renewed meanwhile; `current` is its current state", REFUSED),
        },
        headers={**IF_MATCH, **PROOF_HEADER},
        path_params=_ID,
    ),
)

"""GET and POST /tokens, GET and DELETE /tokens/{name}, POST /tokens/{name}:renew: access tokens, roles and
expiry.

Only one response contains a secret; the broker stores its hash. Sessions of a revoked token end with their
next request.
"""

from typing import Any, Final

from broker.control.commands import IssueAdminToken, RevokeAdminToken, Role
from broker.control.views import TokenRow
from broker.errors import ApiError, ErrorCode
from webui.rest import proving
from webui.rest.answers import COUNT, NAME, TIME
from webui.rest.conditions import HEADERS, etag, expected_version
from webui.rest.problem import PROBLEM, PROBLEM_FIELDS, Problem
from webui.rest.proving import prove_again
from webui.rest.routing import Answer, Call, Query, Reply, Route
from webui.rest.schema import Listing, Maybe, Number, Record, Text
from webui.tables.json_output import utc

MAX_TOKENS: Final = 1_000
ROLES: Final = ("viewer", "editor", "admin")
LONGEST_NAME: Final = 64
SHORTEST_LIFE_MS: Final = 60_000
LONGEST_LIFE_MS: Final = 10 * 366 * 86_400_000

_ROLE = Text(choices=ROLES)
_LIFE = Number(integer=True, least=SHORTEST_LIFE_MS, most=LONGEST_LIFE_MS, nullable=True)
_MOMENT = Text(form="date-time", nullable=True)
_NEW = Text(longest=LONGEST_NAME, shortest=1)
TOKEN: Final = Record(
    {
        "name": NAME,
        "role": _ROLE,
        "changed_at": TIME,
        "changed_by": NAME,
        "expires_at": _MOMENT,
        "expires_in_ms": Number(integer=True, least=0, nullable=True),
        "last_used_at": _MOMENT,
        "password_set_at": _MOMENT,
        "version": COUNT,
    }
)
TOKENS: Final = Record({"items": Listing(TOKEN, most=MAX_TOKENS), "mine": NAME})
ISSUED: Final = Record({"name": NAME, "role": _ROLE, "expires_at": _MOMENT, "secret": NAME})
REFUSED: Final = Record(
    {**PROBLEM_FIELDS, "current": Maybe(TOKEN)}, optional=frozenset({"code", "where", "current"})
)
PLACE: Final = (Query("name", _NEW, "The token's name."),)


async def list_tokens(call: Call) -> Reply:
    rows = call.console.backend.views.tokens()[:MAX_TOKENS]
    return Reply({"items": [token_json(call, row) for row in rows], "mine": call.actor.name})


async def get_token(call: Call) -> Reply:
    row = existing(call)
    return Reply(token_json(call, row), headers={"ETag": etag(row.version)})


def token_json(call: Call, row: TokenRow) -> dict[str, Any]:
    expires_at_ms = row.expires_at_ms
    return {
        "name": row.name,
        "role": row.role,
        "changed_at": utc(row.changed_at_ms),
        "changed_by": row.changed_by,
        "expires_at": None if expires_at_ms is None else utc(expires_at_ms),
        "expires_in_ms": None if expires_at_ms is None else max(0, expires_at_ms - call.console.now_ms()),
        "last_used_at": _last_used(call, row.name),
        "password_set_at": None if row.password_at_ms is None else utc(row.password_at_ms),
        "version": row.version,
    }


def _last_used(call: Call, name: str) -> str | None:
    unused_ms = call.console.authenticator.unused_for_ms(name)
    return None if unused_ms is None else utc(call.console.now_ms() - unused_ms)


async def issue_token(call: Call) -> Reply:
    await prove_again(call)
    name, role = call.body["name"], Role[call.body["role"].upper()]
    try:
        return await _issue(call, name, role, 0, 201)
    except ApiError as error:
        if error.code is not ErrorCode.INVALID_UPDATE_VERSION:
            raise
        detail = "A token of this name exists; renew it, or choose another name."
        raise Problem(409, detail, where="/name") from error


async def renew_token(call: Call) -> Reply:
    await prove_again(call)
    row, expected = existing(call), expected_version(call.headers)
    try:
        # A concurrently revoked token must not return with its old role.
        version = row.version if expected is None else expected
        return await _issue(call, row.name, Role[row.role.upper()], version, 200)
    except ApiError as error:
        raise refusal(call, error.code, error.message) from error


async def revoke_token(call: Call) -> Reply:
    await prove_again(call)
    command = RevokeAdminToken(call.place["name"], expected_version(call.headers))
    outcome = await call.console.backend.control.apply(command, call.actor)
    if not outcome.ok:
        raise refusal(call, outcome.error, outcome.message)
    return Reply(b"", status=204)


async def _issue(call: Call, name: str, role: Role, version: int, status: int) -> Reply:
    """Raises ApiError."""
    life_ms = call.body.get("expires_in_ms")
    expires_at_ms = None if life_ms is None else call.console.now_ms() + int(life_ms)
    command = IssueAdminToken(name, role, expires_at_ms=expires_at_ms, expected_version=version)
    token = await call.console.backend.control.apply(command, call.actor)
    answer = {
        "name": token.name,
        "role": token.role.name.lower(),
        "expires_at": None if expires_at_ms is None else utc(expires_at_ms),
        "secret": token.secret,
    }
    row = _token(call, name)
    return Reply(answer, status=status, headers={} if row is None else {"ETag": etag(row.version)})


def refusal(call: Call, error: ErrorCode, message: str | None) -> Problem:
    """Return the conflict with the token's current state; null if it is revoked."""
    if error is not ErrorCode.INVALID_UPDATE_VERSION:
        return Problem.of(error, message)
    row = _token(call, call.place["name"])
    return Problem.of(error, message, current=None if row is None else token_json(call, row))


def existing(call: Call) -> TokenRow:
    row = _token(call, call.place["name"])
    if row is None:
        raise Problem(404, "Token not found.")
    return row


def _token(call: Call, name: str) -> TokenRow | None:
    return next((row for row in call.console.backend.views.tokens() if row.name == name), None)


MISSING: Final = Answer("Token not found", PROBLEM)
CHANGED: Final = Answer("The token changed in the meantime; `current` is its current state", REFUSED)

ROUTES: Final = (
    Route(
        "GET",
        "/api/v1/tokens",
        "listTokens",
        "Access tokens with their roles; `mine` is the requesting token.",
        list_tokens,
        {200: Answer("The tokens, by name, without their secrets", TOKENS)},
    ),
    Route(
        "POST",
        "/api/v1/tokens",
        "issueToken",
        "Creates a token. Requires the role admin.",
        issue_token,
        {
            201: Answer("The token with its secret, which is never shown again", ISSUED),
            409: Answer("A token of this name exists", PROBLEM),
        },
        body=Record(
            {"name": _NEW, "role": _ROLE, "expires_in_ms": _LIFE}, optional=frozenset({"expires_in_ms"})
        ),
        headers=proving.HEADERS,
    ),
    Route(
        "GET",
        "/api/v1/tokens/{name}",
        "getToken",
        "One token, without its secret.",
        get_token,
        {200: Answer("The token; ETag: its version", TOKEN), 404: MISSING},
        place=PLACE,
    ),
    Route(
        "POST",
        "/api/v1/tokens/{name}:renew",
        "renewToken",
        "Renews a token's secret and expiry; the old secret becomes invalid. Requires the role admin.",
        renew_token,
        {200: Answer("The token with its new secret", ISSUED), 404: MISSING, 412: CHANGED},
        body=Record({"expires_in_ms": _LIFE}),
        headers={"If-Match": HEADERS["If-Match"], **proving.HEADERS},
        place=PLACE,
    ),
    Route(
        "DELETE",
        "/api/v1/tokens/{name}",
        "revokeToken",
        "Revokes a token, except the last admin token without expiry. Requires the role admin.",
        revoke_token,
        {
            204: Answer("The token is revoked, and its sessions are ended"),
            404: MISSING,
            412: CHANGED,
        },
        headers={"If-Match": HEADERS["If-Match"], **proving.HEADERS},
        place=PLACE,
    ),
)

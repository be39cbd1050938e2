"""GET and POST /tokens, POST /tokens/{name}:renew, DELETE /tokens/{name}: who may sign in, and as what.

A secret is in one answer and nowhere else; the broker keeps its hash. Who loses a token is signed out with
the next request.
"""

from typing import Final

from broker.control.commands import IssueAdminToken, IssuedToken, RevokeAdminToken, Role
from broker.control.views import TokenRow
from webui.rest.answers import NAME, TIME
from webui.rest.problem import PROBLEM, Problem
from webui.rest.routing import Answer, Call, Query, Reply, Route
from webui.rest.schema import Listing, Record, Text
from webui.shapes import utc

MOST_TOKENS: Final = 1_000
ROLES: Final = ("viewer", "editor", "admin")

_ROLE = Text(choices=ROLES)
_NEW = Text(longest=64, shortest=1)
TOKEN: Final = Record(
    {
        "name": NAME,
        "role": _ROLE,
        "changed_at": TIME,
        "changed_by": NAME,
        "last_used_at": Text(form="date-time", nullable=True),
    }
)
TOKENS: Final = Record({"items": Listing(TOKEN, most=MOST_TOKENS), "mine": NAME})
ISSUED: Final = Record({"name": NAME, "role": _ROLE, "secret": NAME})
_PLACE: Final = (Query("name", _NEW, "The token's name."),)


async def list_tokens(call: Call) -> Reply:
    rows = call.console.backend.views.tokens()[:MOST_TOKENS]
    items = [
        {
            "name": row.name,
            "role": row.role,
            "changed_at": utc(row.changed_at_ms),
            "changed_by": row.changed_by,
            "last_used_at": _last_used(call, row.name),
        }
        for row in rows
    ]
    return Reply({"items": items, "mine": call.actor.name})


def _last_used(call: Call, name: str) -> str | None:
    unused_ms = call.console.doorkeeper.unused_for_ms(name)
    return None if unused_ms is None else utc(call.console.now_ms() - unused_ms)


async def issue_token(call: Call) -> Reply:
    name, role = call.body["name"], Role[call.body["role"].upper()]
    # The role goes first: who may not issue tokens need not learn which there are.
    if call.actor.role >= Role.ADMIN and _token(call, name) is not None:
        raise Problem(409, "There is a token of this name; renew it, or take another name.", where="/name")
    return _issued(await _issue(call, name, role), 201)


async def renew_token(call: Call) -> Reply:
    row = _token(call, call.place["name"])
    if row is None:
        raise Problem(404, "There is no token of this name.")
    return _issued(await _issue(call, row.name, Role[row.role.upper()]), 200)


async def revoke_token(call: Call) -> Reply:
    outcome = await call.console.backend.control.apply(RevokeAdminToken(call.place["name"]), call.actor)
    if not outcome.ok:
        raise Problem.of(outcome.error, outcome.message)
    return Reply(b"", status=204)


async def _issue(call: Call, name: str, role: Role) -> IssuedToken:
    """Raises ApiError."""
    return await call.console.backend.control.apply(IssueAdminToken(name, role), call.actor)


def _issued(token: IssuedToken, status: int) -> Reply:
    answer = {"name": token.name, "role": token.role.name.lower(), "secret": token.secret}
    return Reply(answer, status=status)


def _token(call: Call, name: str) -> TokenRow | None:
    return next((row for row in call.console.backend.views.tokens() if row.name == name), None)


_MISSING: Final = Answer("There is no token of this name", PROBLEM)

ROUTES: Final = (
    Route(
        "GET",
        "/api/v1/tokens",
        "listTokens",
        "Who may sign in, and as what; `mine` is the token that asks.",
        list_tokens,
        {200: Answer("The tokens, by name, without their secrets", TOKENS)},
    ),
    Route(
        "POST",
        "/api/v1/tokens",
        "issueToken",
        "Makes a token. Needs the role admin.",
        issue_token,
        {
            201: Answer("The token with its secret, which is never shown again", ISSUED),
            409: Answer("There is one of this name", PROBLEM),
        },
        body=Record({"name": _NEW, "role": _ROLE}),
    ),
    Route(
        "POST",
        "/api/v1/tokens/{name}:renew",
        "renewToken",
        "Gives a token another secret; the old one is not known any more. Needs the role admin.",
        renew_token,
        {200: Answer("The token with its new secret", ISSUED), 404: _MISSING},
        place=_PLACE,
    ),
    Route(
        "DELETE",
        "/api/v1/tokens/{name}",
        "revokeToken",
        "Takes a token away; the last administrator's stays. Needs the role admin.",
        revoke_token,
        {204: Answer("It is gone, and whoever was signed in with it is signed out"), 404: _MISSING},
        place=_PLACE,
    ),
)

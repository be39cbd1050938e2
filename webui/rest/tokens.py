"""/tokens, /tokens/{name}, /tokens/{name}:renew, /tokens/{name}:password and /sessions: the console's access
tokens, and the sessions of browsers.

Only one response contains a token's secret; the broker stores its hash. Sessions of a revoked token end with
their next request.

Passwords are an alternative to the token. Administrators set the password of any token. Other users set
only their own, and must present their current password or token. All sessions of the token end, except the
requesting one.

DELETE /sessions logs out all browsers of the requesting token or, for administrators, of all tokens: a
session ends at once, its live streams with the next broadcast. Programs that send their token with each
request have no session; renewing the token ends their access. Sessions are in memory and not in the audit
trail, so the log records the actor.
"""

import logging
from http import HTTPStatus
from typing import Annotated, Any, Final

import msgspec

from broker.common.errors import ApiError, ErrorCode
from broker.controller.commands import IssueAdminToken, RevokeAdminToken, Role
from broker.controller.rows.broker import TokenRow
from broker.controller.rows.fields import Moment, one_of
from broker.controller.tokens import SetPassword
from webui.problem import PROBLEM, Problem, problem_schema
from webui.problem_types import ALREADY_EXISTS, LAST_ADMINISTRATOR, SECRET_REQUIRED
from webui.rest.paging import list_page, list_query, page_schema
from webui.rest.proof import PROOF_HEADER, require_proof
from webui.rest.replies import IF_MATCH, etag, expected_version, no_content, path_of_name, versioned
from webui.rest.routing import Call, PathName, Query, Reply, ResponseSpec, Route
from webui.schema import COUNT, NAME, Maybe, Number, Record, Text
from webui.security.authenticator import LONGEST_SECRET
from webui.tables.answers import as_json, schema_of
from webui.tables.listing import LONGEST_PAGE

CREATED: Final = HTTPStatus.CREATED

LONGEST_NAME: Final = 64
SHORTEST_LIFE_MS: Final = 60_000
LONGEST_LIFE_MS: Final = 10 * 366 * 86_400_000

RoleName = Annotated[str, one_of("viewer", "editor", "admin")]


class Token(msgspec.Struct, frozen=True):
    """A token without its secret. Times are None if they never are or were."""

    name: str
    role: RoleName
    changed_at_ms: Moment
    changed_by: str
    expires_at_ms: Moment | None
    expires_in_ms: int | None
    last_used_at_ms: Moment | None
    password_set_at_ms: Moment | None
    version: int


class NewToken(msgspec.Struct, frozen=True):
    """The only answer with the secret."""

    name: str
    role: RoleName
    expires_at_ms: Moment | None
    secret: str


TOKEN: Final = schema_of(Token, "Token")
TOKENS: Final = page_schema(TOKEN, mine=NAME)
ISSUED: Final = schema_of(NewToken, "IssuedToken")
REFUSED: Final = problem_schema(current=Maybe(TOKEN))

_NAME: Final = Text(max_length=LONGEST_NAME, min_length=1)
PLACE: Final = (PathName("name", _NAME, "The token's name."),)
_LIFE = Number(integer=True, minimum=SHORTEST_LIFE_MS, maximum=LONGEST_LIFE_MS, nullable=True)
_SECRET = Text(min_length=1, max_length=LONGEST_SECRET)
_NEW: Final = Record(
    {"name": _NAME, "role": TOKEN.fields["role"], "expires_in_ms": _LIFE},
    optional=frozenset({"expires_in_ms"}),
)
_PASSWORD: Final = Record(
    {"password": Text(min_length=1, max_length=LONGEST_SECRET, nullable=True), "present": _SECRET},
    optional=frozenset({"present"}),
)


async def list_tokens(call: Call) -> Reply:
    rows = call.views.metadata.tokens()
    page = await list_page(call, rows, lambda row: _json(call, row), lambda row: row.name)
    return Reply(page | {"mine": call.actor.name})


async def get_token(call: Call) -> Reply:
    row = existing(call)
    return versioned(_json(call, row), row.version)


def _json(call: Call, row: TokenRow) -> dict[str, Any]:
    now_ms, unused_ms = call.console.now_ms(), call.console.authenticator.unused_for_ms(row.name)
    token = Token(
        row.name,
        row.role,
        row.changed_at_ms,
        row.changed_by,
        row.expires_at_ms,
        None if row.expires_at_ms is None else max(0, row.expires_at_ms - now_ms),
        None if unused_ms is None else now_ms - unused_ms,
        row.password_at_ms,
        row.version,
    )
    return as_json(token)


async def issue_token(call: Call) -> Reply:
    await require_proof(call)
    name, role = call.body["name"], Role[call.body["role"].upper()]
    try:
        return await _issue(call, name, role, 0, CREATED)
    except ApiError as error:
        if error.code is not ErrorCode.INVALID_UPDATE_VERSION:
            raise
        detail = "A token of this name exists; renew it, or choose another name."
        raise Problem(409, detail, kind=ALREADY_EXISTS, where="/name") from error


async def renew_token(call: Call) -> Reply:
    await require_proof(call)
    row, expected = existing(call), expected_version(call.headers)
    try:
        # A concurrently revoked token must not return with its old role.
        version = row.version if expected is None else expected
        return await _issue(call, row.name, Role[row.role.upper()], version, 200)
    except ApiError as error:
        raise refusal(call, error.code, error.message) from error


async def revoke_token(call: Call) -> Reply:
    await require_proof(call)
    command = RevokeAdminToken(call.path_params["name"], expected_version(call.headers))
    outcome = await call.apply(command)
    if not outcome.ok:
        raise refusal(call, outcome.error, outcome.message)
    return no_content()


async def _issue(call: Call, name: str, role: Role, version: int, status: int) -> Reply:
    """Raises ApiError."""
    life_ms = call.body.get("expires_in_ms")
    expires_at_ms = None if life_ms is None else call.console.now_ms() + int(life_ms)
    command = IssueAdminToken(name, role, expires_at_ms=expires_at_ms, expected_version=version)
    token = await call.apply(command)
    answer = as_json(NewToken(token.name, token.role.name.lower(), expires_at_ms, token.secret))
    row = _token(call, name)
    headers = {"Location": path_of_name("tokens", name)} if status == CREATED else {}
    return Reply(answer, status, headers if row is None else headers | {"ETag": etag(row.version)})


def refusal(call: Call, error: ErrorCode, message: str | None) -> Problem:
    """Return the problem; for a conflict of versions with the token's current state, null if it is
    revoked.
    """
    if error is ErrorCode.POLICY_VIOLATION:
        return Problem(409, message or "", kind=LAST_ADMINISTRATOR, code=error.name)
    if error is not ErrorCode.INVALID_UPDATE_VERSION:
        return Problem.of(error, message)
    row = _token(call, call.path_params["name"])
    return Problem.of(error, message, current=None if row is None else _json(call, row))


def existing(call: Call) -> TokenRow:
    row = _token(call, call.path_params["name"])
    if row is None:
        raise Problem(404, "Token not found.")
    return row


def _token(call: Call, name: str) -> TokenRow | None:
    return next((row for row in call.views.metadata.tokens() if row.name == name), None)


async def set_password(call: Call) -> Reply:
    await require_proof(call)
    name, password, expected = call.path_params["name"], call.body["password"], expected_version(call.headers)
    command = SetPassword(name, None, await _proven(call), expected, validate_only=True)
    # Check role and version before the expensive hash.
    await _apply(call, command)
    hashed = None
    if password is not None:
        hashed = await call.console.authenticator.passwords.hashed(password, name)
        if not call.is_logged_in():
            raise Problem(401, "Your session ended in the meantime.")
    await _apply(call, SetPassword(name, hashed, command.proven, expected))
    row = existing(call)
    if call.session is not None and call.actor.name == name:
        call.session.token = row
    return versioned(_json(call, row), row.version)


async def _proven(call: Call) -> bool:
    """Require the current password or token of this name; a browser has proven it already. Raises Problem; a
    wrong secret counts as a failed login.
    """
    name, present = call.path_params["name"], call.body.get("present")
    if call.session is not None and name == call.actor.name:
        return True
    if present is None or name != call.actor.name or call.actor.role >= Role.ADMIN:
        return False
    try:
        await call.console.authenticator.passwords.prove(name, present, call.actor.address)
    except Problem as problem:
        if problem.status != 401:
            raise
        detail = "Wrong secret: expected the current password or the token."
        raise Problem(403, detail, kind=SECRET_REQUIRED, where="/present") from problem
    return True


async def _apply(call: Call, command: SetPassword) -> None:
    outcome = await call.apply(command)
    if not outcome.ok:
        raise refusal(call, outcome.error, outcome.message)


MISSING: Final = ResponseSpec("Token not found", PROBLEM)
LAST: Final = ResponseSpec("It is the last administrator's token without an expiry", PROBLEM)
CHANGED: Final = ResponseSpec("The token changed in the meantime; `current` is its current state", REFUSED)


ENDED: Final = Record({"ended": COUNT})

# The name that these log lines have had from the start.
logger = logging.getLogger(f"{__name__.removesuffix('tokens')}access")


async def end_sessions(call: Call) -> Reply:
    all_tokens = call.query["of"] == "all"
    if all_tokens and call.actor.role < Role.ADMIN:
        raise Problem.of(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            "Ending the sessions of other tokens requires the role admin.",
        )
    ended = call.console.authenticator.sign_out_everywhere(None if all_tokens else call.actor.name)
    logger.info(
        "console sessions were ended",
        extra={"by": call.actor.name, "address": call.actor.address, "of": call.query["of"], "ended": ended},
    )
    return Reply({"ended": ended})


ROUTES: Final = (
    Route(
        "GET /api/v1/tokens",
        "listTokens",
        "Access tokens with their roles; `mine` is the requesting token.",
        list_tokens,
        {200: ResponseSpec("A page of tokens, by name, without their secrets", TOKENS)},
        query=list_query(limit=LONGEST_PAGE),
    ),
    Route(
        "POST /api/v1/tokens",
        "issueToken",
        "Creates a token. Requires the role admin.",
        issue_token,
        {
            201: ResponseSpec("The token with its secret, which is never shown again", ISSUED),
            409: ResponseSpec("A token of this name exists", PROBLEM),
        },
        body=_NEW,
        headers=PROOF_HEADER,
        example={"name": "ci", "role": "viewer", "expires_in_ms": 7776000000},
        role=Role.ADMIN,
    ),
    Route(
        "GET /api/v1/tokens/{name}",
        "getToken",
        "One token, without its secret.",
        get_token,
        {200: ResponseSpec("The token; ETag: its version", TOKEN), 404: MISSING},
        path_params=PLACE,
    ),
    Route(
        "POST /api/v1/tokens/{name}:renew",
        "renewToken",
        "Renews a token's secret and expiry; the old secret becomes invalid. Requires the role admin.",
        renew_token,
        {200: ResponseSpec("The token with its new secret", ISSUED), 404: MISSING, 409: LAST, 412: CHANGED},
        body=Record({"expires_in_ms": _LIFE}),
        headers={**IF_MATCH, **PROOF_HEADER},
        path_params=PLACE,
        role=Role.ADMIN,
    ),
    Route(
        "DELETE /api/v1/tokens/{name}",
        "revokeToken",
        "Revokes a token, except the last admin token without expiry. Requires the role admin.",
        revoke_token,
        {
            204: ResponseSpec("The token is revoked, and its sessions are ended"),
            404: MISSING,
            409: LAST,
            412: CHANGED,
        },
        headers={**IF_MATCH, **PROOF_HEADER},
        path_params=PLACE,
    ),
    Route(
        "PUT /api/v1/tokens/{name}:password",
        "setPassword",
        "Sets the console password of a token; null removes it. Requires the role admin, "
        "or the token's own user with the current password or token.",
        set_password,
        {200: ResponseSpec("The token; ETag: its version", TOKEN), 404: MISSING, 412: CHANGED},
        body=_PASSWORD,
        headers={**IF_MATCH, **PROOF_HEADER},
        path_params=PLACE,
    ),
    Route(
        "DELETE /api/v1/sessions",
        "endSessions",
        "Logs out browsers: all sessions of the requesting token, including the requesting one, or with "
        "`of=all` the sessions of all tokens, which requires the role admin. Tokens stay valid.",
        end_sessions,
        {200: ResponseSpec("The number of ended sessions", ENDED)},
        query=(Query("of", Text(choices=("own", "all")), "Whose sessions.", default="own"),),
    ),
)

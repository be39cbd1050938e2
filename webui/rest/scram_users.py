"""GET /scram-users; GET, PUT and DELETE /scram-users/{mechanism}/{user}: who can log in by SCRAM.

The same command as AlterUserScramCredentials. A password is salted and hashed at once, in a worker thread; it
is in no log, no response and no audit row. A browser proves its user's secret again, as for tokens: a stolen
session must not be enough to create permanent access.
"""

from functools import partial
from typing import Final

import trio

from broker.controller.commands import AlterUserScramCredentials, Role, ScramDeletion, ScramUpsertion
from broker.controller.rows.broker import ScramRow
from broker.controller.scram import DEFAULT_ITERATIONS, LONGEST_USER, deletion_of, unsalted, upsertion_of
from broker.views.readings import Part
from webui.problem import PROBLEM, Problem, problem_schema, raise_refusal
from webui.rest.paging import page_query, page_schema, table_page
from webui.rest.proof import PROOF_HEADER, require_proof
from webui.rest.replies import (
    HEADERS,
    IF_MATCH,
    expected_version,
    no_content,
    path_of_name,
    stored,
    versioned,
)
from webui.rest.routing import Call, PathName, Query, Reply, ResponseSpec, Route
from webui.rest.upstream import fresh, now, read_schema
from webui.schema import Maybe, Number, Record, Text
from webui.tables.answers import as_json, schema_of
from webui.tables.listing import Table

MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
LONGEST_PASSWORD: Final = 1_024
HASHED_AT_ONCE: Final = 2
"""Passwords that are hashed at the same time, each in its own thread."""


CREDENTIALS: Final[Table[ScramRow]] = Table(
    json=as_json,
    search_texts=lambda row: (row.user, row.changed_by),
    default_sort="user",
    sort_key=lambda row: (row.user, row.mechanism),
    sorts={
        "mechanism": lambda row: row.mechanism,
        "iterations": lambda row: row.iterations,
        "changed": lambda row: row.changed_at_ms,
    },
    filters={
        mechanism.lower(): lambda row, mechanism=mechanism: row.mechanism == mechanism  # type: ignore[misc]
        for mechanism in MECHANISMS
    },
)

_MECHANISM: Final = Text(choices=MECHANISMS)
CREDENTIAL: Final = schema_of(ScramRow, mechanism=_MECHANISM)
CREDENTIAL_PAGE: Final = read_schema(page_schema(CREDENTIAL))
REFUSED: Final = problem_schema(current=Maybe(CREDENTIAL))
_PLACE: Final = (
    Query("mechanism", _MECHANISM, "The mechanism."),
    PathName("user", Text(min_length=1, max_length=LONGEST_USER), "The user's name."),
)
_limiter: Final = trio.CapacityLimiter(HASHED_AT_ONCE)


async def list_credentials(call: Call) -> Reply:
    read = await fresh(call, Part.SCRAM_USERS)
    rows = call.views.metadata.scram_users()
    return Reply(await table_page(call, CREDENTIALS, rows) | read)


async def get_credential(call: Call) -> Reply:
    await fresh(call, Part.SCRAM_USERS)
    row = _existing(call)
    return versioned(as_json(row), row.version)


async def put_credential(call: Call) -> Reply:
    await require_proof(call)
    user, mechanism = call.path_params["user"], call.path_params["mechanism"]
    iterations = int(call.body.get("iterations", DEFAULT_ITERATIONS))
    expected = expected_version(call.headers)
    # An upstream cluster's brokers learn of a change one after the other.
    is_own = not await now(call, Part.SCRAM_USERS)
    existed = _row(call) is not None
    # Check role, version and iterations before the expensive hash.
    await _apply(call, unsalted(user, mechanism, iterations, expected), validate_only=True)
    salt = partial(upsertion_of, user, mechanism, call.body["password"], iterations, expected)
    upsertion = await trio.to_thread.run_sync(salt, limiter=_limiter)
    if not call.is_logged_in():
        raise Problem(401, "Your session ended in the meantime.")
    await _apply(call, upsertion)
    row = _existing(call) if is_own else ScramRow(user, mechanism, iterations, iterations, None, "")
    path = path_of_name(f"scram-users/{mechanism}", user)
    return stored(as_json(row), row.version, path, existed=existed)


async def delete_credential(call: Call) -> Reply:
    await require_proof(call)
    await now(call, Part.SCRAM_USERS)
    _existing(call)
    expected = expected_version(call.headers)
    await _apply(call, deletion_of(call.path_params["user"], call.path_params["mechanism"], expected))
    return no_content()


async def _apply(
    call: Call, alteration: ScramUpsertion | ScramDeletion, *, validate_only: bool = False
) -> None:
    command = AlterUserScramCredentials((alteration,), validate_only)
    (outcome,) = await call.apply(command)
    row = _row(call)
    raise_refusal(outcome, None if row is None else as_json(row))
    if not validate_only:
        call.console.live.refresh()


def _row(call: Call) -> ScramRow | None:
    return call.views.metadata.scram_user(call.path_params["user"], call.path_params["mechanism"])


def _existing(call: Call) -> ScramRow:
    row = _row(call)
    if row is None:
        raise Problem(404, "The user has no credential for this mechanism.")
    return row


_MISSING: Final = ResponseSpec("The user has no credential for this mechanism", PROBLEM)
_CHANGED: Final = ResponseSpec(
    "The credential changed in the meantime; `current` is its current state", REFUSED
)

ROUTES: Final = (
    Route(
        "GET /api/v1/scram-users",
        "listScramUsers",
        "Users' SCRAM credentials, without salts and keys.",
        list_credentials,
        {200: ResponseSpec("A page of credentials, one for each user and mechanism", CREDENTIAL_PAGE)},
        query=page_query(CREDENTIALS),
    ),
    Route(
        "GET /api/v1/scram-users/{mechanism}/{user}",
        "getScramUser",
        "One credential, without salt and keys.",
        get_credential,
        {200: ResponseSpec("The credential; ETag: its version", CREDENTIAL), 404: _MISSING},
        path_params=_PLACE,
    ),
    Route(
        "PUT /api/v1/scram-users/{mechanism}/{user}",
        "setScramUser",
        "Creates or replaces a user's credential. Requires the role admin.",
        put_credential,
        {
            200: ResponseSpec("The replaced credential; ETag: its version", CREDENTIAL),
            201: ResponseSpec("The new credential; ETag: its version", CREDENTIAL),
            412: _CHANGED,
        },
        example={"password": "a long secret", "iterations": 8192},
        body=Record(
            {
                "password": Text(min_length=1, max_length=LONGEST_PASSWORD),
                "iterations": Number(integer=True),
            },
            optional=frozenset({"iterations"}),
        ),
        headers={**HEADERS, **PROOF_HEADER},
        path_params=_PLACE,
        role=Role.ADMIN,
    ),
    Route(
        "DELETE /api/v1/scram-users/{mechanism}/{user}",
        "removeScramUser",
        "Deletes a user's credential. Requires the role admin.",
        delete_credential,
        {204: ResponseSpec("The credential is deleted"), 404: _MISSING, 412: _CHANGED},
        headers={**IF_MATCH, **PROOF_HEADER},
        path_params=_PLACE,
    ),
)

"""PUT /tokens/{name}:password: sets a password as an alternative to the token.

Administrators set the password of any token. Other users set only their own, and must present their current
password or token, so that an open browser is not enough to take over an account. All sessions of the token
end, except the requesting one.
"""

from typing import Final

from broker.control.commands import Role
from broker.control.tokens import SetPassword
from webui.rest import proving
from webui.rest.conditions import HEADERS, etag, expected_version
from webui.rest.problem import Problem
from webui.rest.proving import prove_again
from webui.rest.routing import Answer, Call, Reply, Route
from webui.rest.schema import Record, Text
from webui.rest.tokens import CHANGED, MISSING, PLACE, TOKEN, existing, refusal, token_json
from webui.security.authenticator import LONGEST_SECRET

_SECRET = Text(shortest=1, longest=LONGEST_SECRET)
_BODY: Final = Record(
    {"password": Text(shortest=1, longest=LONGEST_SECRET, nullable=True), "present": _SECRET},
    optional=frozenset({"present"}),
)


async def set_password(call: Call) -> Reply:
    await prove_again(call)
    name, password, expected = call.place["name"], call.body["password"], expected_version(call.headers)
    asked = SetPassword(name, None, await _proven(call), expected, validate_only=True)
    # Check role and version before the expensive hash.
    await _apply(call, asked)
    hashed = None
    if password is not None:
        hashed = await call.console.authenticator.passwords.hashed(password, name)
        if not call.signed_in():
            raise Problem(401, "Your session ended in the meantime.")
    await _apply(call, SetPassword(name, hashed, asked.proven, expected))
    row = existing(call)
    if call.session is not None and call.actor.name == name:
        call.session.token = row
    return Reply(token_json(call, row), headers={"ETag": etag(row.version)})


async def _proven(call: Call) -> bool:
    """Require the current password or token of this name; a browser has proven it already. Raises Problem; a
    wrong secret counts as a failed sign-in.
    """
    name, present = call.place["name"], call.body.get("present")
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
        raise Problem(403, detail, where="/present") from problem
    return True


async def _apply(call: Call, command: SetPassword) -> None:
    outcome = await call.console.backend.control.apply(command, call.actor)
    if not outcome.ok:
        raise refusal(call, outcome.error, outcome.message)


ROUTES: Final = (
    Route(
        "PUT",
        "/api/v1/tokens/{name}:password",
        "setPassword",
        "Sets the console password of a token; null removes it. Requires the role admin, "
        "or the token's own user with the current password or token.",
        set_password,
        {200: Answer("The token; ETag: its version", TOKEN), 404: MISSING, 412: CHANGED},
        body=_BODY,
        headers={"If-Match": HEADERS["If-Match"], **proving.HEADERS},
        place=PLACE,
    ),
)

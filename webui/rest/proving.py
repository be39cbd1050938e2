"""Re-authentication of browsers for changes of tokens and passwords.

Used by webui.rest.tokens and webui.rest.passwords. A stolen session or an open browser must not be enough
to create permanent access. Programs send their token with every request and need no further proof.
"""

import base64
import binascii
from typing import Final

from webui.rest.problem import Problem
from webui.rest.routing import Call
from webui.security.authenticator import LONGEST_SECRET

PRESENT: Final = "X-Present-Secret"
HEADERS: Final = {
    PRESENT: "Required with a session, not with a bearer token: the signed-in user's token or password, or "
    "the code of a new link, as base64 of UTF-8."
}


async def prove_again(call: Call) -> None:
    """Require the secret from a session. Raises Problem 403 for a missing or wrong secret (a wrong one counts
    as a failed sign-in), 400 for a malformed one, 401 if the session has ended, 429 and 503 as for a sign-in.
    """
    if call.session is None:
        return
    secret = _read(call.headers.get(PRESENT, ""))
    if not secret:
        raise Problem(403, "Enter your token or password again.", where="/present")
    try:
        await call.console.authenticator.prove_again(call.session.token, secret, call.actor.address)
    except Problem as problem:
        if problem.status != 401:
            raise
        detail = "Wrong secret: expected your token, your password or the code of a new link."
        raise Problem(403, detail, where="/present") from problem
    if not call.signed_in():
        raise Problem(401, "Your session ended in the meantime.")


def _read(header: str) -> str:
    """Raises Problem."""
    try:
        secret = base64.b64decode(header, validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise Problem(400, f"Invalid {PRESENT}: expected base64 of UTF-8.") from error
    if len(secret) > LONGEST_SECRET:
        raise Problem(400, f"Invalid secret: expected at most {LONGEST_SECRET} characters.", where="/present")
    return secret

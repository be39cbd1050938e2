"""The proof that a browser gives again before it changes who has access.

A stolen session or an open browser must not be enough to create permanent access, so a browser that changes
tokens, passwords, credentials or ACLs sends its user's secret again. Programs send their token with every
request and need no further proof.
"""

import base64
import binascii
from typing import Final

from webui.problem import Problem
from webui.problem_types import SECRET_REQUIRED
from webui.rest.routing import Call
from webui.security.authenticator import LONGEST_SECRET, is_of_provider

PRESENT: Final = "X-Present-Secret"
PROOF_HEADER: Final = {
    PRESENT: "Required with a session, not with a bearer token: the signed-in user's token or password, or "
    "the code of a new link, as base64 of UTF-8."
}


async def require_proof(call: Call) -> None:
    """Require the secret from a session. Raises Problem 403 for a missing or wrong secret (a wrong one counts
    as a failed login), 400 for a malformed one, 401 if the session has ended, 429 and 503 as for a login.
    """
    if call.session is None:
        return
    if is_of_provider(call.session.token):
        if not call.console.authenticator.is_recent_sign_in(call.session):
            detail = "Log out and in again: this needs a login by single sign-on of the last five minutes."
            raise Problem(403, detail, where="/present")
        return
    secret = _read(call.headers.get(PRESENT, ""))
    if not secret:
        raise Problem(403, "Enter your token or password again.", kind=SECRET_REQUIRED, where="/present")
    try:
        await call.console.authenticator.require_proof(call.session.token, secret, call.actor.address)
    except Problem as problem:
        if problem.status != 401:
            raise
        detail = "Wrong secret: expected your token, your password or the code of a new link."
        raise Problem(403, detail, kind=SECRET_REQUIRED, where="/present") from problem
    if not call.is_logged_in():
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

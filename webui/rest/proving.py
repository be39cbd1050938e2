"""Changes of tokens and passwords ask a browser for the secret once more.

Used by webui.rest.tokens and webui.rest.passwords. A session that somebody else has got hold of, or a browser
that was left open, must not be enough to make a lasting way in. A program sends its token with every request,
and is asked for nothing.
"""

import base64
import binascii
from typing import Final

from webui.rest.problem import Problem
from webui.rest.routing import Call
from webui.security.authenticator import LONGEST_SECRET

PRESENT: Final = "X-Present-Secret"
HEADERS: Final = {
    PRESENT: "Needed with a session, not with a bearer token: the token or the password of whoever asks, or "
    "the code of a new link, as UTF-8 in base64."
}


async def prove_again(call: Call) -> None:
    """Raises Problem 403 without the secret or with a wrong one, which is a guess like any; 400 for what is
    no secret, 401 for who was signed out meanwhile, 429 and 503 as a sign-in does.
    """
    if call.session is None:
        return
    secret = _read(call.headers.get(PRESENT, ""))
    if not secret:
        raise Problem(403, "Show your token or your password once more.", where="/present")
    try:
        await call.console.authenticator.prove_again(call.session.token, secret, call.actor.address)
    except Problem as problem:
        if problem.status != 401:
            raise
        detail = "This is neither your token nor your password, nor the code of a new link."
        raise Problem(403, detail, where="/present") from problem
    if not call.signed_in():
        raise Problem(401, "You were signed out meanwhile.")


def _read(header: str) -> str:
    """Raises Problem."""
    try:
        secret = base64.b64decode(header, validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise Problem(400, f"{PRESENT} is not UTF-8 in base64.") from error
    if len(secret) > LONGEST_SECRET:
        raise Problem(400, f"A secret has {LONGEST_SECRET} characters at most.", where="/present")
    return secret

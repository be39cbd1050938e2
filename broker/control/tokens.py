"""Plans the admin tokens, and tells whose a secret is.

What a token looks like and how it is stored is broker.security's; who has which role is the image's.
"""

import json
from typing import Final

from broker.control.commands import IssueAdminToken, IssuedToken, Outcome, RevokeAdminToken
from broker.control.plan import Plan, Situation
from broker.errors import ApiError, ErrorCode
from broker.metadata.actor import Role
from broker.metadata.changes import Change, Kind
from broker.metadata.image import AdminToken, Image
from broker.security import tokens

LONGEST_NAME: Final = 64


def plan_issue_token(command: IssueAdminToken, at: Situation) -> Plan[IssuedToken]:
    """Raises ApiError: a missing role, or INVALID_REQUEST for a name that cannot be shown."""
    refusal = at.refusal(Role.ADMIN, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if refusal is not None:
        raise ApiError(refusal.error, refusal.message)
    name = command.name
    if not (0 < len(name) <= LONGEST_NAME and name.isprintable() and name.strip() == name):
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"A token's name has 1 to {LONGEST_NAME} printable characters"
        )
    if command.secret == "":
        raise ApiError(ErrorCode.INVALID_REQUEST, "A token cannot be empty")
    secret = tokens.new_secret() if command.secret is None else command.secret
    issued = IssuedToken(name, command.role, secret)
    known = at.image.tokens.get(name)
    # The token of WEIR_ADMIN_TOKEN is issued at every start, and need not fill the trail.
    if known is not None and known.role is command.role and tokens.matches(secret, known.salt, known.digest):
        return Plan(issued)
    stored = tokens.store(secret)
    value = {"role": command.role.name, "salt": stored.salt.hex(), "digest": stored.digest.hex()}
    return Plan(issued, (Change(Kind.ADMIN_TOKEN, name, "token", json.dumps(value, separators=(",", ":"))),))


def plan_revoke_token(command: RevokeAdminToken, at: Situation) -> Plan[Outcome]:
    refusal = at.refusal(Role.ADMIN, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if refusal is not None:
        return Plan(refusal)
    if command.name not in at.image.tokens:
        return Plan(Outcome(ErrorCode.RESOURCE_NOT_FOUND, "There is no token of this name"))
    others = [token for token in at.image.tokens.values() if token.name != command.name]
    if not any(token.role is Role.ADMIN for token in others):
        return Plan(Outcome(ErrorCode.INVALID_REQUEST, "The last administrator's token cannot be revoked"))
    return Plan(Outcome(), (Change(Kind.ADMIN_TOKEN, command.name, "token", None),))


def identify(secret: str, image: Image) -> AdminToken | None:
    """Whose secret this is. Every token is tried, so that the time does not tell which one came near."""
    found = None
    for token in image.tokens.values():
        if tokens.matches(secret, token.salt, token.digest):
            found = token
    return found

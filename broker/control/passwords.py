"""Plans password changes, and checks passwords and tokens.

A password is an alternative to a token: it has the token's name, role and expiry, and is deleted with it.
Administrators set all passwords; other users set their own after proving the current password or the token.
`hashed` and `Lock.opens` are slow and belong in worker threads.
"""

import json
from dataclasses import dataclass, field

from broker.control.commands import Command, Outcome
from broker.control.plan import Plan, Situation
from broker.control.rows.settings import TokenRow
from broker.control.tokens import version_refusal
from broker.errors import ApiError, ErrorCode
from broker.metadata.actor import Role
from broker.metadata.changes import Change, Kind
from broker.metadata.image import AdminToken
from broker.security import passwords, tokens

_UNKNOWN_NAME = passwords.unmatchable()


@dataclass(frozen=True, slots=True)
class HashedPassword:
    """The result of `hashed`."""

    salt: bytes = field(repr=False)
    n: int
    r: int
    p: int
    digest: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class SetPassword(Command["Outcome"]):
    """Set the password of a token's name; `password` None deletes it. Returns Outcome: RESOURCE_NOT_FOUND if
    there is no such token.

    Users who are not administrators change only their own; `proven` says that they have proved the current
    password or the token. `expected_version` as in `QuotaAlteration`.
    """

    name: str
    password: HashedPassword | None
    proven: bool = False
    expected_version: int | None = None
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class Lock:
    """The credentials of a name. `row` is None for an unknown name; do not reveal anything about the row
    before `opens` returns True.
    """

    row: TokenRow | None
    token: AdminToken | None

    def opens(self, secret: str) -> bool:
        """Check whether `secret` is the password or the token of this name. Takes equally long for unknown
        names.
        """
        token = self.token
        shown = token is not None and tokens.matches(secret, token.salt, token.digest)
        return passwords.matches(secret, self._stored()) or shown

    def _stored(self) -> passwords.StoredPassword:
        kept = None if self.token is None else self.token.password
        if kept is None:
            return _UNKNOWN_NAME
        return passwords.StoredPassword(kept.salt, passwords.Cost(kept.n, kept.r, kept.p), kept.digest)


def hashed(password: str, name: str) -> HashedPassword:
    """Hash a password for `SetPassword`. Raises ApiError INVALID_REQUEST if it is too easy to guess."""
    error = passwords.password_error(password, name)
    if error is not None:
        raise ApiError(ErrorCode.INVALID_REQUEST, error)
    salt, cost, digest = passwords.store(password)
    return HashedPassword(salt, *cost, digest)


def plan_set_password(command: SetPassword, at: Situation) -> Plan[Outcome]:
    refusal = at.refusal(Role.ADMIN, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if refusal is not None and command.name != at.actor.name:
        return Plan(refusal)
    if refusal is not None and not command.proven:
        message = "To change your own password, prove the current password or your token"
        return Plan(Outcome(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, message))
    known = at.image.tokens.get(command.name)
    if known is None:
        return Plan(Outcome(ErrorCode.RESOURCE_NOT_FOUND, f"There is no token named {command.name}"))
    stale = version_refusal(known, command.expected_version)
    if stale is not None:
        return Plan(stale)
    new = command.password
    if command.validate_only or (new is None and known.password is None):
        return Plan(Outcome())
    written = None
    if new is not None:
        value = {"salt": new.salt.hex(), "n": new.n, "r": new.r, "p": new.p, "digest": new.digest.hex()}
        written = json.dumps(value, separators=(",", ":"))
    return Plan(Outcome(), (Change(Kind.ADMIN_TOKEN, command.name, "password", written),))

"""Plans the passwords of those who have a token, and says whether a secret is somebody's.

A password is a second way in to the same name and role, until the same day; it needs a token of that name and
goes with it. Administrators set anybody's, everybody else their own, once they have shown the present one or
the token. Hashing and comparing are slow: `hashed` and `Lock.opens` are for worker threads, the rest is not.
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

_NOBODYS = passwords.nobodys()


@dataclass(frozen=True, slots=True)
class HashedPassword:
    """What `hashed` made of a password."""

    salt: bytes = field(repr=False)
    n: int
    r: int
    p: int
    digest: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class SetPassword(Command["Outcome"]):
    """A second way in to the name, the role and the expiry of a token; `password` None takes it away. Answers
    Outcome: RESOURCE_NOT_FOUND where there is no token of that name.

    Whoever is no administrator changes his own, and `proven` says that he has shown the present password or
    the token. `expected_version` as in `QuotaAlteration`.
    """

    name: str
    password: HashedPassword | None
    proven: bool = False
    expected_version: int | None = None
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class Lock:
    """What stands before a name. `row` is None where nobody is called so; who asks is told neither that nor
    anything else of it before `opens` has said yes.
    """

    row: TokenRow | None
    token: AdminToken | None

    def opens(self, secret: str) -> bool:
        """Whether it is the password or the token of this name. Takes as long where there is neither."""
        token = self.token
        shown = token is not None and tokens.matches(secret, token.salt, token.digest)
        return passwords.matches(secret, self._stored()) or shown

    def _stored(self) -> passwords.StoredPassword:
        kept = None if self.token is None else self.token.password
        if kept is None:
            return _NOBODYS
        return passwords.StoredPassword(kept.salt, passwords.Cost(kept.n, kept.r, kept.p), kept.digest)


def hashed(password: str, name: str) -> HashedPassword:
    """What `SetPassword` takes. Raises ApiError INVALID_REQUEST for what is too easily guessed."""
    complaint = passwords.complaint(password, name)
    if complaint is not None:
        raise ApiError(ErrorCode.INVALID_REQUEST, complaint)
    salt, cost, digest = passwords.store(password)
    return HashedPassword(salt, *cost, digest)


def plan_set_password(command: SetPassword, at: Situation) -> Plan[Outcome]:
    refusal = at.refusal(Role.ADMIN, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if refusal is not None and command.name != at.actor.name:
        return Plan(refusal)
    if refusal is not None and not command.proven:
        message = "Your own password is changed by showing the present one, or your token"
        return Plan(Outcome(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, message))
    known = at.image.tokens.get(command.name)
    if known is None:
        return Plan(Outcome(ErrorCode.RESOURCE_NOT_FOUND, "There is no token of this name"))
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

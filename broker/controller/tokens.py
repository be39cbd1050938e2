"""Plans changes of admin tokens and their passwords, and checks them.

A token is shown once and stored as a salted digest. A plain SHA-256 is enough because a generated token has
256 random bits; a slow hash would let clients block the event loop with wrong tokens. A token chosen by the
operator is only as strong as chosen. The image contains the roles. At least one administrator's token without
expiry always remains, so that administrators are never locked out.

A password is an alternative to a token: it has the token's name, role and expiry, and is deleted with it.
Administrators set all passwords; other users set their own after proving the current password or the token.
broker.security.passwords defines the stored form. `hashed` and `Credentials.accepts` are slow and belong in
worker threads.
"""

import hashlib
import hmac
import json
import secrets
from typing import Final, NamedTuple

import msgspec

from broker.common.errors import ApiError, ErrorCode
from broker.controller.commands import Command, EntryOutcome, IssueAdminToken, IssuedToken, RevokeAdminToken
from broker.controller.plan import Plan, Situation
from broker.controller.rows.broker import TokenRow
from broker.metadata.actor import Role
from broker.metadata.changes import Change, ChangeKind
from broker.metadata.image import AdminToken, Image
from broker.security import passwords
from broker.security.passwords import StoredPassword as StoredPassword

LONGEST_NAME: Final = 64
_SALT_BYTES: Final = 16
_UNKNOWN_NAME = passwords.unmatchable()


class StoredToken(NamedTuple):
    salt: bytes
    digest: bytes


def new_secret() -> str:
    """Return 256 random bits as 43 characters that need no escaping in a URL or a header."""
    return secrets.token_urlsafe(32)


def store(secret: str) -> StoredToken:
    salt = secrets.token_bytes(_SALT_BYTES)
    return StoredToken(salt, _digest(salt, secret))


def matches(secret: str, salt: bytes, digest: bytes) -> bool:
    """Compare in constant time for a given length of `secret`."""
    return hmac.compare_digest(_digest(salt, secret), digest)


def _digest(salt: bytes, secret: str) -> bytes:
    # A browser may send any text, which is only compared: lone surrogates must not raise.
    return hashlib.sha256(salt + secret.encode("utf-8", "surrogatepass")).digest()


def plan_issue_token(command: IssueAdminToken, at: Situation) -> Plan[IssuedToken]:
    """Raise ApiError for a missing role, INVALID_UPDATE_VERSION for a stale edit, and INVALID_REQUEST for an
    unprintable name or if no permanent administrator's token would remain.
    """
    at.require(Role.ADMIN, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    name = command.name
    if not (0 < len(name) <= LONGEST_NAME and name.isprintable() and name.strip() == name):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid token name: expected 1 to {LONGEST_NAME} printable characters",
        )
    if command.secret == "":
        raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid token: it must not be empty")
    known = at.image.tokens.get(name)
    stale = version_refusal(known, command.expected_version)
    if stale is not None:
        raise ApiError(stale.error, stale.message)
    secret = new_secret() if command.secret is None else command.secret
    issued = IssuedToken(name, command.role, secret)
    # Each start issues the token of WEIR_ADMIN_TOKEN again; an unchanged one adds no audit row.
    if known is not None and _is_unchanged(known, command, secret):
        return Plan(issued)
    is_permanent_admin = command.role is Role.ADMIN and command.expires_at_ms is None
    if not is_permanent_admin and _is_last_permanent_admin(name, at.image):
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            "This is the last administrator's token without expiry and must remain one",
        )
    stored = store(secret)
    value: dict[str, str | int] = {
        "role": command.role.name,
        "salt": stored.salt.hex(),
        "digest": stored.digest.hex(),
    }
    if command.expires_at_ms is not None:
        value |= {"expires_at_ms": command.expires_at_ms}
    return Plan(
        issued, (Change(ChangeKind.ADMIN_TOKEN, name, "token", json.dumps(value, separators=(",", ":"))),)
    )


def plan_revoke_token(command: RevokeAdminToken, at: Situation) -> Plan[EntryOutcome]:
    refusal = at.refusal(Role.ADMIN, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if refusal is not None:
        return Plan(refusal)
    known = at.image.tokens.get(command.name)
    if known is None:
        return Plan(EntryOutcome(ErrorCode.RESOURCE_NOT_FOUND, f"There is no token named {command.name}"))
    stale = version_refusal(known, command.expected_version)
    if stale is not None:
        return Plan(stale)
    if _is_last_permanent_admin(command.name, at.image):
        return Plan(
            EntryOutcome(
                ErrorCode.POLICY_VIOLATION,
                "The last administrator's token without expiry cannot be revoked",
            )
        )
    removed_keys = ("token",) if known.password is None else ("token", "password")
    return Plan(
        EntryOutcome(), tuple(Change(ChangeKind.ADMIN_TOKEN, command.name, key, None) for key in removed_keys)
    )


def identify(secret: str, image: Image) -> AdminToken | None:
    """Return the token of this secret, expired or not.

    Compares every token, so that the time does not depend on which one matches.
    """
    found = None
    for token in image.tokens.values():
        if matches(secret, token.salt, token.digest):
            found = token
    return found


def version_refusal(known: AdminToken | None, expected: int | None) -> EntryOutcome | None:
    """Return the refusal of an edit based on another version; None if the version matches."""
    version = 0 if known is None else known.version
    if expected is None or expected == version:
        return None
    message = f"The token is at version {version}, not at {expected}"
    return EntryOutcome(ErrorCode.INVALID_UPDATE_VERSION, message)


def _is_unchanged(known: AdminToken, command: IssueAdminToken, secret: str) -> bool:
    return (
        known.role is command.role
        and known.expires_at_ms == command.expires_at_ms
        and matches(secret, known.salt, known.digest)
    )


def _is_last_permanent_admin(name: str, image: Image) -> bool:
    permanent_admins = {
        token.name
        for token in image.tokens.values()
        if token.role is Role.ADMIN and token.expires_at_ms is None
    }
    return permanent_admins == {name}


class SetPassword(msgspec.Struct, Command["EntryOutcome"], frozen=True):
    """Set the password of a token's name; `password` None deletes it. Returns EntryOutcome:
    RESOURCE_NOT_FOUND if there is no such token.

    Users who are not administrators change only their own; `proven` says that they have proved the current
    password or the token. `expected_version` as in `QuotaAlteration`.
    """

    name: str
    password: StoredPassword | None
    proven: bool = False
    expected_version: int | None = None
    validate_only: bool = False


class Credentials(msgspec.Struct, frozen=True):
    """The credentials of a name. `row` is None for an unknown name; do not reveal anything about the row
    before `accepts` returns True.
    """

    row: TokenRow | None
    token: AdminToken | None

    def accepts(self, secret: str) -> bool:
        """Check whether `secret` is the password or the token of this name. Takes equally long for unknown
        names.
        """
        token = self.token
        is_token = token is not None and matches(secret, token.salt, token.digest)
        return passwords.matches(secret, self._stored()) or is_token

    def _stored(self) -> StoredPassword:
        stored = None if self.token is None else self.token.password
        return _UNKNOWN_NAME if stored is None else stored


def hashed(password: str, name: str) -> StoredPassword:
    """Hash a password for `SetPassword`. Raises ApiError INVALID_REQUEST if it is too easy to guess."""
    error = passwords.password_error(password, name)
    if error is not None:
        raise ApiError(ErrorCode.INVALID_REQUEST, error)
    return passwords.store(password)


def plan_set_password(command: SetPassword, at: Situation) -> Plan[EntryOutcome]:
    refusal = at.refusal(Role.ADMIN, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if refusal is not None and command.name != at.actor.name:
        return Plan(refusal)
    if refusal is not None and not command.proven:
        message = "To change your own password, prove the current password or your token"
        return Plan(EntryOutcome(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, message))
    known = at.image.tokens.get(command.name)
    if known is None:
        return Plan(EntryOutcome(ErrorCode.RESOURCE_NOT_FOUND, f"There is no token named {command.name}"))
    stale = version_refusal(known, command.expected_version)
    if stale is not None:
        return Plan(stale)
    new = command.password
    if command.validate_only or (new is None and known.password is None):
        return Plan(EntryOutcome())
    written = None
    if new is not None:
        value = {"salt": new.salt.hex(), **new.cost._asdict(), "digest": new.digest.hex()}
        written = json.dumps(value, separators=(",", ":"))
    return Plan(EntryOutcome(), (Change(ChangeKind.ADMIN_TOKEN, command.name, "password", written),))

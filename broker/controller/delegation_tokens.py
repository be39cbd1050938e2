"""Plans changes of delegation tokens: who can log in as whom, and until when. (KIP-48, KIP-373; Kafka:
DelegationTokenControlManager)

Commands are here, beside their planners. The handlers have looked up tokens by HMAC before, and asked the
authorizer; nothing here knows the secret key. Times are wall-clock, in milliseconds.
"""

import json
from typing import Final

import msgspec

from broker.common.errors import ErrorCode
from broker.common.random_ids import random_id
from broker.common.slices import Steps
from broker.controller.commands import Command, EntryOutcome
from broker.controller.plan import Plan, Situation
from broker.metadata.actor import ChangeOrigin, Role
from broker.metadata.changes import Change, ChangeKind
from broker.metadata.image import DelegationToken

USER_PREFIX: Final = "User:"
"""Every principal of a client is a user."""

MAX_TOKENS: Final = 1_000
"""Tokens of one requester. Kafka has no limit; ours keeps a client from filling the metadata, as any user may
create tokens.
"""

MAX_RENEWERS: Final = 100
"""Renewers of one token; ours, as for MAX_TOKENS."""

LONGEST_PRINCIPAL: Final = 1_024
"""Characters of an owner or a renewer; ours, as for SCRAM users."""

_LONG_MAX: Final = 2**63 - 1


class CreateDelegationToken(msgspec.Struct, Command["DelegationTokenOutcome"], frozen=True):
    """A token with which its renewers and those who have its HMAC act as `owner`, a text such as "User:ann".

    Role: administrator, unless the owner is the actor. `max_lifetime_ms` 0 or less: the configured maximum.
    """

    owner: str
    renewers: tuple[str, ...]
    max_lifetime_ms: int
    now_ms: int


class RenewDelegationToken(msgspec.Struct, Command["DelegationTokenOutcome"], frozen=True):
    """Let a token expire `period_ms` from now, or after the configured time if that is shorter or `period_ms`
    is 0 or less. For the token's owner and its renewers.
    """

    token_id: str
    period_ms: int
    now_ms: int


class ExpireDelegationToken(msgspec.Struct, Command["DelegationTokenOutcome"], frozen=True):
    """Let a token expire `period_ms` from now; remove it at once if `period_ms` is negative.

    For the token's owner and its renewers; through the console, for administrators. INVALID_UPDATE_VERSION if
    `expected_version` is not None and not the token's version.
    """

    token_id: str
    period_ms: int
    now_ms: int
    expected_version: int | None = None


class RemoveExpiredDelegationTokens(msgspec.Struct, Command["list[RemovedToken]"], frozen=True):
    """Remove the tokens that have expired. Returns them."""

    now_ms: int


class DelegationTokenOutcome(EntryOutcome, frozen=True):
    """The times are -1 after an error; `issued_ms` and `max_ms` are those of a new token."""

    token_id: str = ""
    expires_ms: int = -1
    issued_ms: int = -1
    max_ms: int = -1


class RemovedToken(EntryOutcome, frozen=True):
    token_id: str = ""
    owner: str = ""


def plan_create_token(command: CreateDelegationToken, at: Situation) -> Steps[Plan[DelegationTokenOutcome]]:
    requester = at.actor.name
    if command.owner != requester:
        refusal = at.refusal(Role.ADMIN, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        if refusal is not None:
            return _refused(refusal.error, refusal.message)
    named = (command.owner, *command.renewers)
    if not all(each.startswith(USER_PREFIX) for each in named):
        return _refused(ErrorCode.INVALID_PRINCIPAL_TYPE, "Owners and renewers are principals of type User")
    disabled = _disabled(at)
    if disabled is not None:
        return disabled
    if len(command.renewers) > MAX_RENEWERS or max(map(len, named)) > LONGEST_PRINCIPAL:
        return _refused(
            ErrorCode.INVALID_REQUEST,
            f"A token has at most {MAX_RENEWERS} renewers, and a principal {LONGEST_PRINCIPAL} characters",
        )
    count = 0
    for token in at.image.delegation_tokens.values():
        count += token.requester == requester
        yield
    if count >= MAX_TOKENS:
        return _refused(
            ErrorCode.POLICY_VIOLATION, f"{requester} has created {MAX_TOKENS} tokens that have not expired"
        )
    config, now_ms = at.config.security, command.now_ms
    lifetime_ms = config.delegation_token_max_lifetime_ms
    if command.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, command.max_lifetime_ms)
    max_ms = _sum(now_ms, lifetime_ms)
    expires_ms = min(max_ms, _sum(now_ms, config.delegation_token_expiry_time_ms))
    facts = {
        "owner": command.owner,
        "requester": requester,
        "renewers": command.renewers,
        "issued_ms": now_ms,
        "max_ms": max_ms,
    }
    token_id = random_id()
    changes = (
        Change(ChangeKind.DELEGATION_TOKEN, token_id, "token", json.dumps(facts, separators=(",", ":"))),
        _expiry(token_id, expires_ms),
    )
    return Plan(
        DelegationTokenOutcome(token_id=token_id, expires_ms=expires_ms, issued_ms=now_ms, max_ms=max_ms),
        changes,
    )


def plan_renew_token(command: RenewDelegationToken, at: Situation) -> Plan[DelegationTokenOutcome]:
    disabled = _disabled(at)
    if disabled is not None:
        return disabled
    token = at.image.delegation_tokens.get(command.token_id)
    if token is None:
        return _unknown()
    if token.is_expired(command.now_ms):
        return _expired()
    refusal = _refusal(token, at)
    if refusal is not None:
        return refusal
    period_ms = at.config.security.delegation_token_expiry_time_ms
    if command.period_ms > 0:
        period_ms = min(period_ms, command.period_ms)
    return _expires_at(command.token_id, min(token.max_ms, _sum(command.now_ms, period_ms)))


def plan_expire_token(command: ExpireDelegationToken, at: Situation) -> Plan[DelegationTokenOutcome]:
    disabled = _disabled(at)
    if disabled is not None:
        return disabled
    token_id = command.token_id
    token = at.image.delegation_tokens.get(token_id)
    if token is None:
        return _unknown()
    refusal = _refusal(token, at)
    if refusal is not None:
        return refusal
    if command.expected_version not in (None, token.version):
        return _refused(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"The delegation token was changed by {token.changed_by} (version {token.version})",
        )
    if command.period_ms < 0:
        outcome = DelegationTokenOutcome(token_id=token_id, expires_ms=command.now_ms)
        return Plan(outcome, _removal(token_id))
    if token.is_expired(command.now_ms):
        return _expired()
    return _expires_at(token_id, min(token.max_ms, _sum(command.now_ms, command.period_ms)))


def plan_remove_expired(
    command: RemoveExpiredDelegationTokens, at: Situation
) -> Steps[Plan[list[RemovedToken]]]:
    at.require(Role.ADMIN, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    removed: list[RemovedToken] = []
    changes: list[Change] = []
    for token_id, token in at.image.delegation_tokens.items():
        if token.is_expired(command.now_ms):
            removed.append(RemovedToken(token_id=token_id, owner=token.owner))
            changes += _removal(token_id)
        yield
    return Plan(removed, tuple(changes))


def _refusal(token: DelegationToken, at: Situation) -> Plan[DelegationTokenOutcome] | None:
    """Return None for the token's owner, its renewers, and administrators in the console."""
    if at.actor.origin is not ChangeOrigin.WIRE:
        refusal = at.refusal(Role.ADMIN, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
        return None if refusal is None else _refused(refusal.error, refusal.message)
    if at.actor.name in (token.owner, *token.renewers):
        return None
    return _refused(
        ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, "Only the owner and the renewers may change the token"
    )


def _expires_at(token_id: str, expires_ms: int) -> Plan[DelegationTokenOutcome]:
    outcome = DelegationTokenOutcome(token_id=token_id, expires_ms=expires_ms)
    return Plan(outcome, (_expiry(token_id, expires_ms),))


def _expiry(token_id: str, expires_ms: int) -> Change:
    return Change(ChangeKind.DELEGATION_TOKEN, token_id, "expires_ms", str(expires_ms))


def _removal(token_id: str) -> tuple[Change, Change]:
    return (
        Change(ChangeKind.DELEGATION_TOKEN, token_id, "token", None),
        Change(ChangeKind.DELEGATION_TOKEN, token_id, "expires_ms", None),
    )


def _disabled(at: Situation) -> Plan[DelegationTokenOutcome] | None:
    if at.config.security.delegation_token_secret_key:
        return None
    return _refused(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, "Delegation tokens are not enabled")


def _unknown() -> Plan[DelegationTokenOutcome]:
    return _refused(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, "There is no such delegation token")


def _expired() -> Plan[DelegationTokenOutcome]:
    return _refused(ErrorCode.DELEGATION_TOKEN_EXPIRED, "The delegation token has expired")


def _refused(error: ErrorCode, message: str | None) -> Plan[DelegationTokenOutcome]:
    return Plan(DelegationTokenOutcome(error, message))


def _sum(now_ms: int, duration_ms: int) -> int:
    return min(now_ms + duration_ms, _LONG_MAX)

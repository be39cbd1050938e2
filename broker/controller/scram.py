"""Plans AlterUserScramCredentials: which users can log in by SCRAM. (Kafka: ScramControlManager, with its
codes and messages; KIP-554)

Only the keys that verify a proof are stored, never the salted password. `upsertion_of` salts a password for
clients that send the password itself, as the console does; it is slow and belongs in a worker thread.
"""

import hashlib
import json
import secrets
from typing import Final

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Steps
from broker.controller.commands import (
    AlterUserScramCredentials,
    ScramDeletion,
    ScramUpsertion,
    UserOutcome,
)
from broker.controller.plan import Plan, Situation
from broker.metadata.actor import Role
from broker.metadata.changes import Change, ChangeKind
from broker.security.scram import (
    BY_CODE,
    MAX_ITERATIONS,
    MECHANISMS,
    MIN_ITERATIONS,
    ScramMechanism,
    keys_of,
)

LONGEST_USER: Final = 1_024
"""Characters. Kafka has no limit; ours keeps pages and log lines readable, as for quotas."""

LONGEST_SECRET: Final = 1_024
"""Bytes of a salt and of a salted password, which is as long as a hash. Kafka has no limit; the broker hashes
all of it, which takes 0.4 s for a request of 100 MB.
"""

SALT_BYTES: Final = 24
"""Bytes of a new salt; ours. Kafka's tools use about as many."""

DEFAULT_ITERATIONS: Final = 8_192
"""As kafka-configs.sh uses without a count."""


def plan_scram(command: AlterUserScramCredentials, at: Situation) -> Steps[Plan[list[UserOutcome]]]:
    by_user: dict[str, ScramDeletion | ScramUpsertion] = {}
    duplicates: set[str] = set()
    for each in command.alterations:
        if each.user in by_user:
            duplicates.add(each.user)
        by_user[each.user] = each
        yield
    outcomes: list[UserOutcome] = []
    changes: list[Change] = []
    for alteration in by_user.values():
        yield
        try:
            at.require(Role.ADMIN, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            if alteration.user in duplicates:
                raise ApiError(
                    ErrorCode.DUPLICATE_RESOURCE,
                    "A user credential cannot be altered twice in the same request",
                )
            changes.append(_change(alteration, at))
            outcomes.append(UserOutcome(user=alteration.user))
        except ApiError as error:
            outcomes.append(UserOutcome(error.code, error.message, alteration.user))
    return Plan(outcomes) if command.validate_only else Plan(outcomes, tuple(changes))


def _change(alteration: ScramDeletion | ScramUpsertion, at: Situation) -> Change:
    user = alteration.user
    if not user:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if len(user) > LONGEST_USER:
        raise ApiError(
            ErrorCode.UNACCEPTABLE_CREDENTIAL, f"Username is longer than {LONGEST_USER} characters"
        )
    mechanism = BY_CODE.get(alteration.mechanism)
    if mechanism is None:
        raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    known = at.image.scram.get(user, {}).get(mechanism.name)
    version = 0 if known is None else known.version
    if alteration.expected_version not in (None, version):
        raise ApiError(
            ErrorCode.INVALID_UPDATE_VERSION, f"The credential of {user} was changed (version {version})"
        )
    if isinstance(alteration, ScramUpsertion):
        return Change(ChangeKind.USER_SCRAM, user, mechanism.name, _written(alteration, mechanism))
    if known is None:
        raise ApiError(
            ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
        )
    return Change(ChangeKind.USER_SCRAM, user, mechanism.name, None)


def check_iterations(iterations: int) -> None:
    """Raise ApiError UNACCEPTABLE_CREDENTIAL for a number out of Kafka's range."""
    if iterations < MIN_ITERATIONS:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if iterations > MAX_ITERATIONS:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")


def _written(wanted: ScramUpsertion, mechanism: ScramMechanism) -> str:
    check_iterations(wanted.iterations)
    if not wanted.salt or not wanted.salted_password:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Salt and salted password must not be empty")
    if max(len(wanted.salt), len(wanted.salted_password)) > LONGEST_SECRET:
        raise ApiError(
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            f"Salt and salted password must have at most {LONGEST_SECRET} bytes",
        )
    stored_key, server_key = keys_of(mechanism, wanted.salted_password)
    parts = {
        "salt": wanted.salt.hex(),
        "iterations": wanted.iterations,
        "stored_key": stored_key.hex(),
        "server_key": server_key.hex(),
    }
    return json.dumps(parts, separators=(",", ":"))


def unsalted(user: str, mechanism: str, iterations: int, expected_version: int | None) -> ScramUpsertion:
    """Return an upsertion for `validate_only`, which checks everything but the password."""
    return ScramUpsertion(user, MECHANISMS[mechanism].code, iterations, b"-", b"-", expected_version)


def deletion_of(user: str, mechanism: str, expected_version: int | None) -> ScramDeletion:
    return ScramDeletion(user, MECHANISMS[mechanism].code, expected_version)


def upsertion_of(
    user: str, mechanism: str, password: str, iterations: int, expected_version: int | None
) -> ScramUpsertion:
    """Salt a password, as Kafka's tools do: UTF-8 without preparation. (RFC 5802: Hi; Kafka: ScramFormatter)

    Takes up to some tens of milliseconds without the interpreter's lock.
    """
    known, salt = MECHANISMS[mechanism], secrets.token_bytes(SALT_BYTES)
    salted = hashlib.pbkdf2_hmac(known.hash_name, password.encode(), salt, iterations)
    return ScramUpsertion(user, known.code, iterations, salt, salted, expected_version)

"""AlterUserScramCredentials: Kafka's codes and messages, and the stored form."""

import pytest

from broker.common.errors import ErrorCode
from broker.controller.commands import AlterUserScramCredentials, ScramDeletion, ScramUpsertion, UserOutcome
from broker.controller.scram import LONGEST_SECRET, LONGEST_USER, plan_scram
from broker.metadata.actor import Role
from broker.security.scram import MECHANISMS, keys_of
from tests.controller.world import World

SHA_256, SHA_512 = 1, 2
TWICE = "A user credential cannot be altered twice in the same request"


def upsertion(
    user: str = "ann", mechanism: int = SHA_256, iterations: int = 4_096, salt: bytes = b"salt"
) -> ScramUpsertion:
    return ScramUpsertion(user, mechanism, iterations, salt, b"salted password")


def alter(
    world: World, *alterations: ScramDeletion | ScramUpsertion, role: Role = Role.ADMIN
) -> list[UserOutcome]:
    return world.do(plan_scram, AlterUserScramCredentials(alterations), role)


def test_a_user_gets_the_keys_of_each_mechanism_and_loses_them(world: World) -> None:
    assert alter(world, upsertion()) == [UserOutcome(user="ann")]
    assert alter(world, upsertion(mechanism=SHA_512, iterations=8_192)) == [UserOutcome(user="ann")]
    known = world.image.scram["ann"]
    mechanism = MECHANISMS["SCRAM-SHA-256"]
    credential = (b"salt", 4_096, *keys_of(mechanism, b"salted password"))
    assert known[mechanism.name][:4] == credential
    first = known[mechanism.name]
    assert (first.version, first.changed_by) == (known["SCRAM-SHA-512"].version - 1, "ann")
    assert known["SCRAM-SHA-512"].iterations == 8_192
    assert alter(world, ScramDeletion("ann", SHA_256)) == [UserOutcome(user="ann")]
    assert list(world.image.scram["ann"]) == ["SCRAM-SHA-512"]
    alter(world, ScramDeletion("ann", SHA_512))
    assert world.image.scram == {}


def test_the_salted_password_is_in_no_change_and_in_no_repr(world: World) -> None:
    command = AlterUserScramCredentials((upsertion(),))
    plan = world.plan(plan_scram, command)
    for text in (repr(command), repr(plan)):
        assert "salted password" not in text and b"salted password".hex() not in text


@pytest.mark.parametrize(
    ("alteration", "error", "message"),
    [
        (upsertion(user=""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (ScramDeletion("", SHA_256), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (upsertion(mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (upsertion(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (upsertion(iterations=4_095), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (upsertion(iterations=4_096), ErrorCode.NONE, None),
        (upsertion(iterations=16_384), ErrorCode.NONE, None),
        (upsertion(iterations=16_385), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        (
            upsertion(salt=b""),
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "Salt and salted password must not be empty",
        ),
        (upsertion("x" * LONGEST_USER), ErrorCode.NONE, None),
        (
            upsertion("x" * (LONGEST_USER + 1)),
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "Username is longer than 1024 characters",
        ),
        (
            ScramDeletion("ann", SHA_256),
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to delete a user credential that does not exist",
        ),
    ],
)
def test_refused_alterations_get_a_message(
    world: World, alteration: ScramDeletion | ScramUpsertion, error: ErrorCode, message: str | None
) -> None:
    assert alter(world, alteration) == [UserOutcome(error, message, alteration.user)]
    assert bool(world.image.scram) is (error is ErrorCode.NONE)


def test_a_user_altered_twice_is_refused_and_the_others_are_not(world: World) -> None:
    outcomes = alter(world, upsertion(), upsertion("bob"), ScramDeletion("ann", SHA_256))
    assert outcomes == [UserOutcome(ErrorCode.DUPLICATE_RESOURCE, TWICE, "ann"), UserOutcome(user="bob")]
    assert list(world.image.scram) == ["bob"]


@pytest.mark.parametrize("role", [Role.VIEWER, Role.EDITOR])
def test_only_administrators_may(world: World, role: Role) -> None:
    (outcome,) = alter(world, upsertion(), role=role)
    assert (outcome.error, outcome.user) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "ann")


@pytest.mark.parametrize(
    ("size", "error"),
    [
        (LONGEST_SECRET - 1, ErrorCode.NONE),
        (LONGEST_SECRET, ErrorCode.NONE),
        (LONGEST_SECRET + 1, ErrorCode.UNACCEPTABLE_CREDENTIAL),
    ],
)
@pytest.mark.parametrize("salted", [False, True])
def test_no_more_is_hashed_than_a_credential_has(
    world: World, size: int, error: ErrorCode, salted: bool
) -> None:
    salt, password = (b"salt", b"p" * size) if salted else (b"s" * size, b"password")
    (outcome,) = alter(world, ScramUpsertion("ann", SHA_256, 4_096, salt, password))
    assert outcome.error is error


def pauses(world: World, *alterations: ScramDeletion | ScramUpsertion) -> int:
    plan = plan_scram(AlterUserScramCredentials(alterations), world.at())
    return sum(1 for _ in plan)


@pytest.mark.parametrize("count", [1, 2, 33])
def test_the_users_are_compared_and_the_keys_computed_one_at_a_time(world: World, count: int) -> None:
    assert pauses(world, *(upsertion(f"user-{number}") for number in range(count))) == count + count


@pytest.mark.parametrize("count", [1, 2, 1_025])
def test_the_alterations_of_one_user_are_compared_one_at_a_time(world: World, count: int) -> None:
    """They are refused together."""
    assert pauses(world, *[upsertion()] * count) == count + 1

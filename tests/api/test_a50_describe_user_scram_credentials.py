"""DescribeUserScramCredentials and AlterUserScramCredentials, from an administrator's client."""

import pytest

from broker.common.errors import ErrorCode
from broker.protocol.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from tests.api.harness import Harness

UNKNOWN = ErrorCode.RESOURCE_NOT_FOUND
TWICE = ErrorCode.DUPLICATE_RESOURCE
SHA_256, SHA_512 = 1, 2


@pytest.fixture
async def users(harness: Harness) -> Harness:
    for name, mechanism, iterations in (
        ("ann", SHA_256, 4_096),
        ("ann", SHA_512, 8_192),
        ("bob", SHA_512, 4_096),
    ):
        wanted = ScramCredentialUpsertion(name, mechanism, iterations, b"salt", b"salted")
        reply = await harness.ask(AlterUserScramCredentialsRequest(upsertions=[wanted]))
        assert [(each.user, each.error_code) for each in reply.results] == [(name, ErrorCode.NONE)]
    return harness


async def described(
    harness: Harness, names: list[str] | None
) -> list[tuple[str, int, list[tuple[int, int]]]]:
    users = None if names is None else [UserName(name) for name in names]
    reply = await harness.ask(DescribeUserScramCredentialsRequest(users))
    assert reply.error_code == ErrorCode.NONE
    return [
        (each.user, each.error_code, [(info.mechanism, info.iterations) for info in each.credential_infos])
        for each in reply.results
    ]


ANN = ("ann", ErrorCode.NONE, [(SHA_256, 4_096), (SHA_512, 8_192)])
BOB = ("bob", ErrorCode.NONE, [(SHA_512, 4_096)])


@pytest.mark.parametrize(
    ("names", "results"),
    [
        (None, [ANN, BOB]),
        ([], [ANN, BOB]),
        (["bob"], [BOB]),
        (["eve", "bob", "eve"], [("eve", TWICE, []), BOB]),
        (["eve"], [("eve", UNKNOWN, [])]),
        ([""], [("", UNKNOWN, [])]),
    ],
)
async def test_users_are_described(
    users: Harness, names: list[str] | None, results: list[tuple[str, int, list[tuple[int, int]]]]
) -> None:
    assert await described(users, names) == results


async def test_without_users_no_client_is_described(harness: Harness) -> None:
    assert await described(harness, None) == []


async def test_a_deletion_is_for_one_mechanism(users: Harness) -> None:
    gone = ScramCredentialDeletion("ann", SHA_256)
    reply = await users.ask(AlterUserScramCredentialsRequest([gone]))
    assert [each.error_code for each in reply.results] == [ErrorCode.NONE]
    assert await described(users, ["ann"]) == [("ann", ErrorCode.NONE, [(SHA_512, 8_192)])]


async def test_each_user_is_answered_for(users: Harness) -> None:
    request = AlterUserScramCredentialsRequest(
        [ScramCredentialDeletion("eve", SHA_256)], [ScramCredentialUpsertion("ann", 7, 4_096, b"s", b"p")]
    )
    reply = await users.ask(request)
    assert [(each.user, each.error_code) for each in reply.results] == [
        ("eve", UNKNOWN),
        ("ann", ErrorCode.UNSUPPORTED_SASL_MECHANISM),
    ]

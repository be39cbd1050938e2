"""DescribeUserScramCredentials: there are none, and each asked user has one entry."""

import pytest

from broker.errors import ErrorCode
from broker.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from tests.api.house import House

UNKNOWN = ErrorCode.RESOURCE_NOT_FOUND
TWICE = ErrorCode.DUPLICATE_RESOURCE


@pytest.mark.parametrize(
    ("names", "results"),
    [
        (None, []),
        ([], []),
        (["alice"], [("alice", UNKNOWN)]),
        (["alice", "bob", "alice"], [("alice", TWICE), ("bob", UNKNOWN)]),
        ([""], [("", UNKNOWN)]),
    ],
)
async def test_nobody_has_credentials(
    house: House, names: list[str] | None, results: list[tuple[str, ErrorCode]]
) -> None:
    users = None if names is None else [UserName(name) for name in names]
    reply = await house.ask(DescribeUserScramCredentialsRequest(users))
    assert reply.error_code == ErrorCode.NONE
    assert [(each.user, each.error_code) for each in reply.results] == results
    assert all(each.credential_infos == [] for each in reply.results)

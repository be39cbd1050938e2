"""Delegation tokens planned: who may change them through each interface, and what a full disk leaves.

tests/api/test_delegation_tokens.py has the clients' rules, with all limits.
"""

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.config.load import load
from broker.controller.control import Control
from broker.controller.delegation_tokens import (
    CreateDelegationToken,
    ExpireDelegationToken,
    RemoveExpiredDelegationTokens,
    RenewDelegationToken,
)
from broker.metadata.actor import Actor, ChangeOrigin, Role
from tests.controller.world import StoreCommitter, actor

FULL = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "cannot write the metadata: the disk is full")
ANN = Actor("User:ann", Role.VIEWER, "10.0.0.1", ChangeOrigin.WIRE)
NOW_MS = 1_700_000_000_000
CREATE = CreateDelegationToken("User:ann", ("User:bob",), -1, NOW_MS)


@pytest.fixture
def control(committer: StoreCommitter) -> Control:
    return Control(
        committer.store.image, load(None, ["delegation.token.secret.key=k"], {}), committer, lambda: 0
    )


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("origin", [ChangeOrigin.REST, ChangeOrigin.PAGE, ChangeOrigin.COMMAND_LINE])
async def test_an_administrator_changes_tokens_through_the_console(
    control: Control, role: Role, origin: ChangeOrigin
) -> None:
    token_id = (await control.apply(CREATE, ANN)).token_id
    who = actor(role, "ops", origin)
    expected = ErrorCode.NONE if role is Role.ADMIN else ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    before = control.image
    for command in (RenewDelegationToken(token_id, 5, NOW_MS), ExpireDelegationToken(token_id, -1, NOW_MS)):
        assert (await control.apply(command, who)).error is expected
    assert (control.image is before) is (role is not Role.ADMIN)
    assert (token_id in control.image.delegation_tokens) is (role is not Role.ADMIN)


@pytest.mark.parametrize("role", Role)
async def test_a_token_of_another_and_a_removal_are_an_administrators(control: Control, role: Role) -> None:
    who = actor(role, "User:eve", ChangeOrigin.WIRE)
    made = await control.apply(CREATE, who)
    is_admin = role is Role.ADMIN
    assert made.error is (ErrorCode.NONE if is_admin else ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    if is_admin:
        assert await control.apply(RemoveExpiredDelegationTokens(NOW_MS), who) == []
    else:
        with pytest.raises(ApiError, match="requires the role admin") as refused:
            await control.apply(RemoveExpiredDelegationTokens(NOW_MS), who)
        assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_a_full_disk_refuses_every_change_and_changes_nothing(
    control: Control, committer: StoreCommitter
) -> None:
    token_id = (await control.apply(CREATE, ANN)).token_id
    before, committer.fault = control.image, FULL
    for command in (
        CREATE,
        RenewDelegationToken(token_id, 5, NOW_MS),
        ExpireDelegationToken(token_id, 5, NOW_MS),
        ExpireDelegationToken(token_id, -1, NOW_MS),
    ):
        assert (await control.apply(command, ANN)).error is ErrorCode.KAFKA_STORAGE_ERROR
    later = RemoveExpiredDelegationTokens(NOW_MS + 10**12)
    (failed,) = await control.apply(later, actor())
    assert failed.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert control.image is before
    committer.fault = None
    assert [each.token_id for each in await control.apply(later, actor())] == [token_id]

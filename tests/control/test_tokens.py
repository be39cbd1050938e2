"""Admin tokens: shown once, stored as a digest, with expiry; one administrator always remains."""

import pytest

from broker.control.commands import IssueAdminToken, IssuedToken, Outcome, RevokeAdminToken
from broker.control.tokens import identify, plan_issue_token, plan_revoke_token
from broker.errors import ApiError, ErrorCode
from broker.metadata.actor import Role
from tests.control.world import World


def issue(
    world: World,
    name: str = "first",
    role: Role = Role.ADMIN,
    secret: str | None = None,
    expires: int | None = None,
    version: int | None = None,
) -> IssuedToken:
    return world.do(plan_issue_token, IssueAdminToken(name, role, secret, expires, version))


def revoke(world: World, name: str, role: Role = Role.ADMIN) -> Outcome:
    return world.do(plan_revoke_token, RevokeAdminToken(name), role)


def test_an_issued_secret_identifies_its_token_and_no_other_does(world: World) -> None:
    first = issue(world)
    second = issue(world, "second", Role.VIEWER)
    found = identify(second.secret, world.image)
    assert found is not None and (found.name, found.role) == ("second", Role.VIEWER)
    assert first.secret != second.secret
    assert identify(first.secret + "x", world.image) is None
    assert identify("", world.image) is None


def test_the_secret_is_in_no_change_and_in_no_repr(world: World) -> None:
    plan = world.plan(plan_issue_token, IssueAdminToken("first", Role.ADMIN, "a-very-secret-token"))
    assert "a-very-secret-token" not in repr(plan)
    assert plan.answer.secret == "a-very-secret-token"


def test_issuing_again_under_the_same_name_replaces_the_secret(world: World) -> None:
    old, new = issue(world), issue(world)
    assert identify(old.secret, world.image) is None
    assert identify(new.secret, world.image) is not None
    assert len(world.image.tokens) == 1


def test_issuing_the_same_secret_again_writes_nothing(world: World) -> None:
    issue(world, "another")
    issue(world, secret="from-the-environment")
    before = world.image.version
    assert issue(world, secret="from-the-environment").secret == "from-the-environment"
    assert world.image.version == before
    issue(world, role=Role.VIEWER, secret="from-the-environment")
    assert world.image.tokens["first"].role is Role.VIEWER


@pytest.mark.parametrize(
    ("name", "fine"),
    [
        ("", False),
        ("x", True),
        ("x" * 63, True),
        ("x" * 64, True),
        ("x" * 65, False),
        ("with space", True),
        (" edge", False),
        ("line\nbreak", False),
    ],
)
def test_a_name_has_1_to_64_printable_characters(world: World, name: str, fine: bool) -> None:
    if fine:
        assert issue(world, name).name == name
    else:
        with pytest.raises(ApiError) as caught:
            issue(world, name)
        assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_an_empty_secret_is_refused(world: World) -> None:
    with pytest.raises(ApiError):
        issue(world, secret="")


def test_the_last_administrator_cannot_be_revoked(world: World) -> None:
    issue(world, "one")
    issue(world, "two")
    issue(world, "viewer", Role.VIEWER)
    assert revoke(world, "two").ok
    assert revoke(world, "one").error is ErrorCode.INVALID_REQUEST
    assert revoke(world, "viewer").ok
    assert list(world.image.tokens) == ["one"]


def test_an_administrator_who_will_expire_does_not_count_as_the_one_who_is_left(world: World) -> None:
    issue(world, "one")
    issue(world, "leaving", expires=2_000)
    assert revoke(world, "one").error is ErrorCode.INVALID_REQUEST
    before = world.image
    for role, expires in ((Role.ADMIN, 2_000), (Role.EDITOR, None), (Role.VIEWER, 2_000)):
        with pytest.raises(ApiError) as caught:
            issue(world, "one", role, expires=expires)
        assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert world.image == before
    issue(world, "leaving")
    issue(world, "one", expires=2_000)
    assert world.image.tokens["one"].expires_at_ms == 2_000
    assert revoke(world, "leaving").error is ErrorCode.INVALID_REQUEST
    assert revoke(world, "one").ok


def test_the_same_secret_with_another_expiry_is_a_change(world: World) -> None:
    issue(world, "other")
    issue(world, secret="from-the-environment", expires=2_000)
    assert world.image.tokens["first"].expires_at_ms == 2_000
    issue(world, secret="from-the-environment")
    assert world.image.tokens["first"].expires_at_ms is None


def test_an_edit_against_another_version_changes_nothing(world: World) -> None:
    issue(world, "one", version=0)
    issue(world, "two")
    version = world.image.tokens["two"].version
    before = world.image
    for wrong in (0, version - 1, version + 1):
        with pytest.raises(ApiError) as caught:
            issue(world, "two", version=wrong)
        assert caught.value.code is ErrorCode.INVALID_UPDATE_VERSION
        outcome = world.do(plan_revoke_token, RevokeAdminToken("two", wrong))
        assert outcome.error is ErrorCode.INVALID_UPDATE_VERSION
    assert world.image == before
    issue(world, "two", version=version)
    assert world.image.tokens["two"].version > version
    assert world.do(plan_revoke_token, RevokeAdminToken("two", world.image.tokens["two"].version)).ok
    with pytest.raises(ApiError):
        issue(world, "two", version=version)


def test_an_unknown_token_is_not_found(world: World) -> None:
    assert revoke(world, "absent").error is ErrorCode.RESOURCE_NOT_FOUND


@pytest.mark.parametrize("role", [Role.VIEWER, Role.EDITOR])
def test_tokens_are_an_administrators_affair(world: World, role: Role) -> None:
    issue(world, "one")
    issue(world, "two")
    before = world.image
    with pytest.raises(ApiError) as caught:
        world.do(plan_issue_token, IssueAdminToken("mine", Role.ADMIN), role)
    assert caught.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert revoke(world, "two", role).error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert world.image == before

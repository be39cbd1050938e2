"""Admin tokens and passwords: permission to change them, their stored form, and their checks."""

from dataclasses import replace
from typing import Any

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.controller.commands import (
    EntryOutcome,
    IssueAdminToken,
    IssuedToken,
    RevokeAdminToken,
)
from broker.controller.tokens import (
    Credentials,
    SetPassword,
    hashed,
    identify,
    matches,
    new_secret,
    plan_issue_token,
    plan_revoke_token,
    plan_set_password,
    store,
)
from broker.metadata.actor import Role
from broker.security import passwords
from tests.controller.world import World


def issue(
    world: World,
    name: str = "first",
    role: Role = Role.ADMIN,
    secret: str | None = None,
    expires: int | None = None,
    version: int | None = None,
) -> IssuedToken:
    return world.do(plan_issue_token, IssueAdminToken(name, role, secret, expires, version))


def revoke(world: World, name: str, role: Role = Role.ADMIN) -> EntryOutcome:
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
    assert plan.result.secret == "a-very-secret-token"


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
    assert revoke(world, "one").error is ErrorCode.POLICY_VIOLATION
    assert revoke(world, "viewer").ok
    assert list(world.image.tokens) == ["one"]


def test_an_administrator_that_expires_does_not_count_as_the_last_one(world: World) -> None:
    issue(world, "one")
    issue(world, "leaving", expires=2_000)
    assert revoke(world, "one").error is ErrorCode.POLICY_VIOLATION
    before = world.image
    for role, expires in ((Role.ADMIN, 2_000), (Role.EDITOR, None), (Role.VIEWER, 2_000)):
        with pytest.raises(ApiError) as caught:
            issue(world, "one", role, expires=expires)
        assert caught.value.code is ErrorCode.POLICY_VIOLATION
    assert world.image == before
    issue(world, "leaving")
    issue(world, "one", expires=2_000)
    assert world.image.tokens["one"].expires_at_ms == 2_000
    assert revoke(world, "leaving").error is ErrorCode.POLICY_VIOLATION
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


GOOD = "correct horse battery"


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    cost = passwords.Cost(2**4, 8, 1)
    monkeypatch.setattr(passwords.store, "__defaults__", (cost,))


@pytest.fixture
def full(world: World, cheap: None) -> World:
    world.do(plan_issue_token, IssueAdminToken("root", Role.ADMIN, "the-root-token"))
    world.do(plan_issue_token, IssueAdminToken("vi", Role.VIEWER, "the-viewers-token"))
    return world


def set_password(world: World, name: str = "vi", password: str | None = GOOD, **rest: Any) -> EntryOutcome:
    kept = None if password is None else hashed(password, name)
    return world.do(plan_set_password, SetPassword(name, kept, **rest))


def credentials(world: World, name: str) -> Credentials:
    return Credentials(None, world.image.tokens.get(name))


def test_a_password_and_the_token_open_the_same_name(full: World) -> None:
    assert set_password(full).ok
    assert credentials(full, "vi").accepts(GOOD) and credentials(full, "vi").accepts("the-viewers-token")
    assert not credentials(full, "vi").accepts("the-root-token")
    assert not credentials(full, "root").accepts(GOOD)
    assert not credentials(full, "nobody").accepts(GOOD)


def test_without_a_password_the_token_is_the_only_way_in(full: World) -> None:
    assert credentials(full, "vi").accepts("the-viewers-token")
    assert not any(credentials(full, "vi").accepts(guess) for guess in ("", GOOD))


def test_a_new_password_takes_the_place_of_the_old_and_none_takes_it_away(full: World) -> None:
    set_password(full)
    set_password(full, password="another long password")
    assert not credentials(full, "vi").accepts(GOOD) and credentials(full, "vi").accepts(
        "another long password"
    )
    set_password(full, password=None)
    assert not credentials(full, "vi").accepts("another long password")
    version = full.image.version
    assert set_password(full, password=None).ok and full.image.version == version


def test_every_guess_costs_the_same_hash_whoever_is_asked(
    full: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal work takes equal time; the difference is one SHA-256."""
    set_password(full)
    done: list[object] = []
    real = passwords.matches
    monkeypatch.setattr(passwords, "matches", lambda text, kept: (done.append(text), real(text, kept))[1])
    for name in ("vi", "root", "nobody"):
        credentials(full, name).accepts("a wrong password")
    assert len(done) == 3
    assert Credentials(None, None)._stored().cost == passwords.COST


def test_a_password_goes_with_its_token_and_stays_when_that_is_renewed(full: World) -> None:
    set_password(full)
    full.do(plan_issue_token, IssueAdminToken("vi", Role.VIEWER))
    assert credentials(full, "vi").accepts(GOOD)
    full.do(plan_revoke_token, RevokeAdminToken("vi"))
    full.do(plan_issue_token, IssueAdminToken("vi", Role.VIEWER))
    assert not credentials(full, "vi").accepts(GOOD) and full.image.tokens["vi"].password is None


def test_the_password_is_in_no_change_and_in_no_repr(full: World) -> None:
    command = SetPassword("vi", hashed(GOOD, "vi"))
    plan = full.plan(plan_set_password, command)
    assert GOOD not in repr(plan) and "salt" not in repr(command)
    set_password(full)
    assert "password" not in repr(full.image.tokens["vi"]).replace("password_at_ms", "")


@pytest.mark.parametrize(
    ("role", "name", "proven", "fine"),
    [
        (Role.ADMIN, "vi", False, True),
        (Role.ADMIN, "ann", False, True),
        (Role.VIEWER, "ann", True, True),
        (Role.VIEWER, "ann", False, False),
        (Role.EDITOR, "ann", False, False),
        (Role.VIEWER, "vi", True, False),
        (Role.EDITOR, "vi", True, False),
    ],
)
def test_administrators_set_any_password_and_others_their_own_with_proof(
    full: World, role: Role, name: str, proven: bool, fine: bool
) -> None:
    """`ann` is the actor."""
    full.do(plan_issue_token, IssueAdminToken("ann", role if role < Role.ADMIN else Role.ADMIN))
    before = full.image
    outcome = full.do(plan_set_password, SetPassword(name, hashed(GOOD, name), proven), role)
    assert outcome.ok == fine
    if not fine:
        assert outcome.error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED and full.image == before


def test_an_edit_of_another_version_or_an_unknown_user_changes_nothing(full: World) -> None:
    version = full.image.tokens["vi"].version
    assert set_password(full, expected_version=version - 1).error is ErrorCode.INVALID_UPDATE_VERSION
    assert set_password(full, name="nobody").error is ErrorCode.RESOURCE_NOT_FOUND
    before = full.image
    assert set_password(full, expected_version=version, validate_only=True).ok and full.image == before
    assert set_password(full, expected_version=version).ok
    assert full.image.tokens["vi"].version > version
    assert full.image.tokens["vi"].password_at_ms is not None


def test_a_weak_password_is_refused_before_it_is_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "store", lambda *_: pytest.fail("hashed"))
    with pytest.raises(ApiError) as caught:
        hashed("short", "vi")
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_a_hash_is_compared_at_the_cost_it_was_made_with(full: World) -> None:
    set_password(full)
    token = full.image.tokens["vi"]
    assert token.password is not None and token.password.cost.n == 2**4
    dearer = passwords.store(GOOD, passwords.Cost(2**5, 8, 1))
    full.do(plan_set_password, SetPassword("vi", dearer))
    assert credentials(full, "vi").accepts(GOOD)
    assert not Credentials(None, replace(token, digest=b"")).accepts("the-viewers-token")


def test_a_token_has_256_random_bits_in_url_safe_characters() -> None:
    secret = new_secret()
    assert len(secret) == 43
    assert secret != new_secret()
    assert set(secret) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def test_only_the_same_secret_matches() -> None:
    stored = store("the secret")
    assert matches("the secret", *stored)
    assert not any(
        matches(other, *stored) for other in ("", "the secre", "the secret ", "The secret", "\ud800")
    )


def test_equal_secrets_are_stored_differently_and_not_readably() -> None:
    one, two = store("the secret"), store("the secret")
    assert one.digest != two.digest
    assert b"secret" not in one.salt + one.digest

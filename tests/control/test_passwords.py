"""Passwords of admin tokens: permission to set them, their stored form, and their checks."""

from dataclasses import replace
from typing import Any

import pytest

from broker.control.commands import (
    IssueAdminToken,
    Outcome,
    RevokeAdminToken,
)
from broker.control.passwords import HashedPassword, Lock, SetPassword, hashed, plan_set_password
from broker.control.tokens import plan_issue_token, plan_revoke_token
from broker.errors import ApiError, ErrorCode
from broker.metadata.actor import Role
from broker.security import passwords
from tests.control.world import World

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


def set_password(world: World, name: str = "vi", password: str | None = GOOD, **rest: Any) -> Outcome:
    kept = None if password is None else hashed(password, name)
    return world.do(plan_set_password, SetPassword(name, kept, **rest))


def lock(world: World, name: str) -> Lock:
    return Lock(None, world.image.tokens.get(name))


def test_a_password_and_the_token_open_the_same_name(full: World) -> None:
    assert set_password(full).ok
    assert lock(full, "vi").opens(GOOD) and lock(full, "vi").opens("the-viewers-token")
    assert not lock(full, "vi").opens("the-root-token")
    assert not lock(full, "root").opens(GOOD)
    assert not lock(full, "nobody").opens(GOOD)


def test_without_a_password_the_token_is_the_only_way_in(full: World) -> None:
    assert lock(full, "vi").opens("the-viewers-token")
    assert not any(lock(full, "vi").opens(guess) for guess in ("", GOOD))


def test_a_new_password_takes_the_place_of_the_old_and_none_takes_it_away(full: World) -> None:
    set_password(full)
    set_password(full, password="another long password")
    assert not lock(full, "vi").opens(GOOD) and lock(full, "vi").opens("another long password")
    set_password(full, password=None)
    assert not lock(full, "vi").opens("another long password")
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
        lock(full, name).opens("a wrong password")
    assert len(done) == 3
    assert Lock(None, None)._stored().cost == passwords.COST


def test_a_password_goes_with_its_token_and_stays_when_that_is_renewed(full: World) -> None:
    set_password(full)
    full.do(plan_issue_token, IssueAdminToken("vi", Role.VIEWER))
    assert lock(full, "vi").opens(GOOD)
    full.do(plan_revoke_token, RevokeAdminToken("vi"))
    full.do(plan_issue_token, IssueAdminToken("vi", Role.VIEWER))
    assert not lock(full, "vi").opens(GOOD) and full.image.tokens["vi"].password is None


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
def test_administrators_set_anybodys_and_others_their_own_by_proof(
    full: World, role: Role, name: str, proven: bool, fine: bool
) -> None:
    """`ann` is the actor."""
    full.do(plan_issue_token, IssueAdminToken("ann", role if role < Role.ADMIN else Role.ADMIN))
    before = full.image
    outcome = full.do(plan_set_password, SetPassword(name, hashed(GOOD, name), proven), role)
    assert outcome.ok == fine
    if not fine:
        assert outcome.error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED and full.image == before


def test_an_edit_of_another_version_or_of_nobody_changes_nothing(full: World) -> None:
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


def test_what_a_hash_cost_when_it_was_made_is_what_it_is_compared_with(full: World) -> None:
    set_password(full)
    token = full.image.tokens["vi"]
    assert token.password is not None and token.password.n == 2**4
    dearer = passwords.store(GOOD, passwords.Cost(2**5, 8, 1))
    kept = HashedPassword(dearer.salt, *dearer.cost, dearer.digest)
    full.do(plan_set_password, SetPassword("vi", kept))
    assert lock(full, "vi").opens(GOOD)
    assert not Lock(None, replace(token, digest=b"")).opens("the-viewers-token")

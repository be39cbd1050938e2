"""The page of delegation tokens: whose they are and until when, without their HMACs; one is expired."""

from typing import Any

import pytest

from tests.controller.world import World
from tests.webui.browser.conftest import Watched, refused_buttons
from tests.webui.fakes import FakeBroker

PROOF = "Your token or password"


@pytest.fixture
def tokens(page: Watched) -> Any:
    page.sign_in()
    return page.go("/delegation-tokens")


def row(page: Any, owner: str) -> Any:
    return page.locator("#table tbody tr:not(.panel)", has_text=owner)


def test_a_token_is_found_and_expired(tokens: Any, expect: Any, broker: FakeBroker) -> None:
    expect(tokens.locator("#table")).to_contain_text("No delegation token")
    broker.add_delegation_token("User:bob")
    token_id = broker.add_delegation_token("User:ann", "User:scheduler", requester="User:ops")
    expect(row(tokens, "User:ann")).to_contain_text(token_id)
    expect(row(tokens, "User:ann")).to_contain_text("created by User:ops")
    expect(row(tokens, "User:ann")).to_contain_text("the owner, User:scheduler")
    expect(row(tokens, "User:bob")).not_to_contain_text("created by")
    tokens.keyboard.press("/")
    tokens.keyboard.type("schedul")
    expect(tokens.locator("#count")).to_have_text("1 of 2 tokens")
    tokens.get_by_label(f"Expire {token_id} of User:ann now").click()
    expire = tokens.get_by_role("button", name="Expire token")
    expire.click()
    expect(tokens.get_by_role("alert")).to_contain_text("Enter your token or password.")
    tokens.get_by_label(PROOF).fill("wrong")
    expire.click()
    expect(tokens.get_by_role("alert")).to_contain_text("Wrong secret")
    assert token_id in broker.metadata.image.delegation_tokens
    tokens.get_by_label(PROOF).fill("admin-token")
    tokens.keyboard.press("Enter")
    expect(tokens.locator("#toasts")).to_contain_text("Expired a token of User:ann.")
    expect(tokens.locator("#table")).to_contain_text("No match")
    assert [each.owner for each in broker.metadata.image.delegation_tokens.values()] == ["User:bob"]


@pytest.mark.parametrize(("anyway", "left"), [("Keep the token", 1), ("Expire it anyway", 0)])
def test_a_token_that_was_renewed_meanwhile_is_asked_about(
    tokens: Any, expect: Any, broker: FakeBroker, anyway: str, left: int
) -> None:
    token_id = broker.add_delegation_token()
    tokens.get_by_label(f"Expire {token_id}").click()
    broker.renew_delegation_token(token_id, 60_000)
    tokens.get_by_label(PROOF).fill("admin-token")
    tokens.get_by_role("button", name="Expire token").click()
    expect(tokens.locator(".conflict")).to_contain_text("ann changed this token")
    tokens.get_by_role("button", name=anyway).click()
    expect(tokens.locator(".editor")).to_have_count(0)
    assert len(broker.metadata.image.delegation_tokens) == left


def test_escape_closes_the_question_and_returns_to_the_button(
    tokens: Any, expect: Any, broker: FakeBroker
) -> None:
    token_id = broker.add_delegation_token()
    button = tokens.get_by_label(f"Expire {token_id}")
    button.click()
    expect(tokens.get_by_label(PROOF)).to_be_focused()
    tokens.keyboard.press("Escape")
    expect(tokens.locator(".editor")).to_have_count(0)
    expect(button).to_be_focused()


def test_without_a_key_the_page_names_the_missing_setting(
    page: Watched, expect: Any, broker: FakeBroker
) -> None:
    broker.metadata = World()
    page.sign_in("viewer-token")
    opened = page.go("/delegation-tokens")
    expect(opened.locator("#off")).to_contain_text("delegation.token.secret.key")
    expect(opened.locator("#on")).to_be_hidden()


def test_others_see_tokens_and_expire_none(page: Watched, broker: FakeBroker) -> None:
    broker.add_delegation_token("User:bob")
    page.sign_in("viewer-token")
    opened = page.go("/delegation-tokens")
    row(opened, "User:bob").wait_for()
    refused_buttons(opened, ".actions button", "admin", 1)

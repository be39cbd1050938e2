"""A session that ends while a page is open: the page says so, keeps what was typed, and can go on."""

from typing import Any

import pytest

from tests.webui.browser.conftest import Watched
from tests.webui.fake_access import EDITOR
from tests.webui.fakes import FakeBroker

PRODUCE = "producer_byte_rate"
APP = (("client-id", "app"),)


def end_sessions(broker: FakeBroker) -> None:
    """As a renewal of the token does: who holds the new secret may log in again."""
    broker.token_rows = [row for row in broker.token_rows if row != EDITOR]
    broker.version += 1


def allow_again(broker: FakeBroker) -> None:
    broker.token_rows = [*broker.token_rows, EDITOR]
    broker.version += 1


@pytest.fixture
def typing(page: Watched, expect: Any, broker: FakeBroker) -> Any:
    """An editor in the middle of a change when his session ends."""
    broker.set(APP, {PRODUCE: 1e6})
    page.sign_in("editor-token")
    opened = page.go("/quotas")
    opened.locator(".actions button").first.click()
    opened.locator("form.editor input").first.fill("7 MB")
    end_sessions(broker)
    expect(opened.get_by_role("dialog", name="Log in again")).to_be_visible()
    return opened


def test_typed_limits_are_kept_and_can_be_saved_after_signing_in(
    typing: Any, expect: Any, broker: FakeBroker
) -> None:
    expect(typing.locator("#live")).to_have_text("Logged out")
    expect(typing.get_by_role("dialog")).to_contain_text(
        "Your token was renewed, revoked or changed. Your input is kept and was not sent."
    )
    allow_again(broker)
    typing.get_by_label("Token").fill("editor-token")
    typing.keyboard.press("Enter")
    expect(typing.get_by_role("dialog")).to_have_count(0)
    expect(typing.locator("#live")).to_have_text("Live")
    expect(typing.locator("form.editor input").first).to_have_value("7 MB")
    typing.get_by_role("button", name="Save limits").click()
    expect(typing.locator("form.editor")).to_have_count(0)
    assert broker.rows[APP].value(PRODUCE) == 7e6


def test_a_wrong_token_is_reported_beside_its_field(typing: Any, expect: Any) -> None:
    for given, words in (("", "Enter a token."), ("nonsense", "Unknown token.")):
        typing.get_by_label("Token").fill(given)
        typing.get_by_role("dialog").get_by_role("button", name="Log in").click()
        expect(typing.locator("#again-trouble")).to_have_text(words)
    expect(typing.locator("form.editor input").first).to_have_value("7 MB")


def test_the_page_is_drawn_anew_for_another_token(typing: Any, expect: Any) -> None:
    typing.get_by_label("Token").fill("viewer-token")
    typing.keyboard.press("Enter")
    expect(typing.locator("summary .who-name")).to_have_text("vi")
    expect(typing.locator("form.editor")).to_have_count(0)


def test_the_page_behind_the_dialog_cannot_be_reached(typing: Any, expect: Any) -> None:
    typing.keyboard.press("Escape")
    for _ in range(6):
        typing.keyboard.press("Tab")
        assert typing.evaluate("document.activeElement.closest('dialog, body').tagName") in ("DIALOG", "BODY")
    expect(typing.get_by_role("dialog")).to_be_visible()
    assert typing.evaluate("document.elementFromPoint(300, 300).closest('main')") is None


def test_a_refused_save_says_that_the_session_is_over(page: Watched, expect: Any, broker: FakeBroker) -> None:
    """Before the stream has noticed."""
    broker.set(APP, {PRODUCE: 1e6})
    page.sign_in("editor-token")
    opened = page.go("/quotas")
    opened.locator(".actions button").first.click()
    opened.locator("form.editor input").first.fill("7 MB")
    # Else the preview could be what is refused.
    expect(opened.locator(".reach")).to_contain_text("client")
    opened.evaluate("document.body.dataset.csrf = 'x'")
    opened.context.clear_cookies()
    opened.get_by_role("button", name="Save limits").click()
    expect(opened.get_by_role("dialog", name="Log in again")).to_be_visible()
    assert all(change.validate_only for change, _ in broker.applied)

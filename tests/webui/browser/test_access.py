"""Access tokens on their page: made, shown once, renewed, revoked; and the roles that they carry."""

import re
import time
from typing import Any

import pytest
from msgspec.structs import replace

from broker.controller.rows.broker import TokenRow
from tests.webui.browser.conftest import ServedConsole, Watched, account_menu, refused_buttons, watched
from tests.webui.fake_access import VIEWER
from tests.webui.fakes import FakeBroker
from webui.http.app import monotonic_ms

PROOF = "Your token or password"


def prove(opened: Any, secret: str = "admin-token") -> None:
    """Types what the forms ask for once more."""
    opened.get_by_label(PROOF).fill(secret)


def test_an_open_browser_is_not_enough_to_change_a_token(
    page: Watched, expect: Any, broker: FakeBroker
) -> None:
    before = list(broker.token_rows)
    page.sign_in()
    opened = page.go("/access")
    for button, done in (("Revoke vi", "Revoke token"), ("Renew vi", "Renew secret")):
        opened.get_by_label(button).click()
        expect(opened.get_by_label(PROOF)).to_be_focused()
        for typed, words in (("", "Enter your token or password."), (button, "expected your token")):
            prove(opened, typed)
            opened.get_by_role("button", name=done).click()
            expect(opened.get_by_role("alert")).to_contain_text(words)
            expect(opened.get_by_label(PROOF)).to_be_focused()
            expect(opened.get_by_label(PROOF)).to_have_attribute("aria-invalid", "true")
        opened.keyboard.press("Escape")
    assert broker.token_rows == before
    page.troubles.clear()


def test_a_new_link_proves_it_too(page: Watched, expect: Any, broker: FakeBroker) -> None:
    page.sign_in()
    opened = page.go("/access")
    opened.get_by_label("Revoke vi").click()
    prove(opened, f"{page.console.pages}/?code={broker.links.make(monotonic_ms())} ")
    opened.keyboard.press("Enter")
    expect(opened.locator("tbody tr", has_text="vi")).to_have_count(0)


def test_a_token_is_made_and_its_secret_shown_once(
    browser: Any, served: ServedConsole, page: Watched, expect: Any, broker: FakeBroker
) -> None:
    page.sign_in()
    opened = page.go("/access")
    opened.keyboard.press("n")
    opened.get_by_label("Name of the user or program").fill("ci")
    opened.get_by_label("Role", exact=True).select_option("editor")
    prove(opened)
    opened.get_by_role("button", name="Create token").click()
    secret = opened.locator(".copyable pre").inner_text()
    expect(opened.locator("tbody tr", has_text="ci")).to_contain_text("editor")
    opened.get_by_role("button", name="Done").click()
    assert secret not in opened.content()
    with watched(browser, served) as other:
        other.sign_in(secret)
        expect(other.go("/").locator("summary .who-name")).to_have_text("ci")
        expect(other.go("/quotas").locator("#add")).to_be_visible()
        refused_buttons(
            other.go("/access"),
            "#add, .actions button[aria-disabled], #sessions [aria-disabled]",
            "admin",
            13,
        )


def test_a_name_that_is_taken_stands_beside_its_field(page: Watched, expect: Any) -> None:
    page.sign_in()
    opened = page.go("/access")
    opened.get_by_role("button", name="New token").click()
    prove(opened)
    for name, words in (("", "Enter a name"), ("vi", "A token of this name exists")):
        opened.get_by_label("Name of the user or program").fill(name)
        opened.get_by_role("button", name="Create token").click()
        expect(opened.locator("#new-trouble")).to_contain_text(words)
        expect(opened.get_by_label("Name of the user or program")).to_have_value(name)
    page.troubles.clear()


def test_whoever_uses_a_revoked_token_is_signed_out(
    browser: Any, served: ServedConsole, page: Watched, expect: Any, broker: FakeBroker
) -> None:
    page.sign_in()
    opened = page.go("/access")
    with watched(browser, served) as viewer:
        viewer.sign_in("viewer-token")
        viewer.go("/")
        opened.get_by_label("Revoke vi").click()
        prove(opened)
        opened.get_by_role("button", name="Revoke token").click()
        expect(opened.locator("tbody tr", has_text="vi")).to_have_count(0)
        expect(viewer.page.get_by_role("heading", name="Log in again")).to_be_visible()
        viewer.page.get_by_role("button", name="Leave this page").click()
        expect(viewer.page.get_by_role("heading", name="Log in", exact=True)).to_be_visible()


def test_signing_out_everywhere_ends_every_browser_of_the_token_and_their_live_streams(
    browser: Any, served: ServedConsole, page: Watched, expect: Any
) -> None:
    page.sign_in("viewer-token")
    opened = page.go("/access")
    with watched(browser, served) as same, watched(browser, served) as another:
        same.sign_in("viewer-token")
        another.sign_in("editor-token")
        for each in (same, another):
            each.go("/throttled")
        opened.get_by_role("button", name="Log out all your browsers").click()
        expect(opened.locator("#sessions")).to_contain_text("including this one")
        opened.keyboard.press("Escape")
        expect(opened.get_by_role("button", name="Log out all your browsers")).to_be_focused()
        expect(opened.locator("#live")).to_have_text("Live")
        opened.get_by_role("button", name="Log out all your browsers").click()
        opened.locator("#sessions .danger").click()
        expect(opened.get_by_role("heading", name="Log in", exact=True)).to_be_visible()
        expect(same.page.get_by_role("heading", name="Log in again")).to_be_visible()
        expect(same.page.locator("#live")).to_have_text("Logged out")
        expect(another.page.locator("#live")).to_have_text("Live")
        same.troubles.clear()
    page.troubles.clear()


def test_an_administrator_signs_all_users_out(
    browser: Any, served: ServedConsole, page: Watched, expect: Any
) -> None:
    page.sign_in()
    opened = page.go("/access")
    with watched(browser, served) as other:
        other.sign_in("viewer-token")
        refused_buttons(other.go("/access"), "#sessions [aria-disabled]", "admin", 1)
        opened.get_by_role("button", name="Log out all users").click()
        opened.locator("#sessions .danger").click()
        expect(opened.get_by_role("heading", name="Log in", exact=True)).to_be_visible()
        expect(other.page.get_by_role("heading", name="Log in again")).to_be_visible()
        other.troubles.clear()
    page.troubles.clear()


def test_the_last_administrator_cannot_be_removed(page: Watched, expect: Any) -> None:
    page.sign_in()
    opened = page.go("/access")
    opened.get_by_label("Revoke root").click()
    expect(opened.locator("tr.panel")).to_contain_text("You are logged in with this token")
    prove(opened)
    opened.get_by_role("button", name="Revoke token").click()
    expect(opened.locator("tr.panel")).to_contain_text("last administrator")
    page.troubles.clear()


@pytest.mark.parametrize("token", ["viewer-token", "editor-token"])
def test_a_user_that_may_not_make_tokens_is_told_before_trying(
    page: Watched, expect: Any, token: str
) -> None:
    page.sign_in(token)
    opened = page.go("/access")
    expect(opened.locator("tbody tr")).to_have_count(3)
    refused_buttons(opened, "#add, .actions button[aria-disabled]", "admin", 9)
    opened.keyboard.press("n")
    expect(opened.locator("form")).to_have_count(0)


def test_the_page_says_until_when_a_token_is_good(page: Watched, expect: Any, broker: FakeBroker) -> None:
    day_ms, now_ms = 86_400_000, time.time_ns() // 1_000_000
    broker.now_ms = now_ms
    for name, left_ms in (("gone", 0), ("soon", 3_600_000 * 30), ("later", 90 * day_ms + 60_000)):
        broker.token_rows.append(TokenRow(name, "viewer", now_ms, "root", 20, now_ms + left_ms))
    page.sign_in()
    opened = page.go("/access")
    for name, words in (("root", "never"), ("gone", "expired"), ("soon", "in 29 h"), ("later", "in 90 days")):
        row = opened.locator("tbody tr", has=opened.locator("b.name", has_text=name))
        expect(row.locator('[data-label="Expires"]')).to_have_text(words)
    opened.get_by_label("Renew gone").click()
    opened.get_by_label("Expires").select_option("in 30 days")
    prove(opened)
    opened.get_by_role("button", name="Renew secret").click()
    expect(opened.locator("tr.panel")).to_contain_text("It is valid until")
    opened.get_by_role("button", name="Done").click()
    row = opened.locator("tbody tr", has_text="gone")
    expect(row.locator('[data-label="Expires"]')).to_have_text(re.compile("in (29|30) days"))


def test_a_token_with_a_concurrent_change_shows_both_versions(
    page: Watched, expect: Any, broker: FakeBroker
) -> None:
    page.sign_in()
    opened = page.go("/access")
    opened.get_by_label("Renew vi").click()
    prove(opened)
    other = replace(VIEWER, role="editor", version=99, changed_by="anna")
    broker.token_rows[2] = other
    opened.get_by_role("button", name="Renew secret").click()
    panel = opened.locator("tr.panel")
    expect(panel).to_contain_text("This token was changed in the meantime")
    expect(panel.get_by_role("row", name="Now editor")).to_contain_text("editor")
    expect(panel.get_by_role("row", name="As you saw it")).to_contain_text("viewer")
    assert broker.token_rows[2] == other
    opened.get_by_role("button", name="Keep the current version").click()
    expect(opened.locator("tbody tr", has_text="vi").locator(".tag")).to_have_text("editor")
    opened.get_by_label("Revoke vi").click()
    prove(opened)
    broker.token_rows[2] = replace(other, version=100, changed_by="bert")
    opened.get_by_role("button", name="Revoke token").click()
    opened.get_by_role("button", name="Revoke it anyway").click()
    expect(opened.locator("tbody tr", has_text="vi")).to_have_count(0)
    page.troubles.clear()


def test_a_password_is_set_and_opens_the_console(
    browser: Any, served: ServedConsole, page: Watched, expect: Any, broker: FakeBroker
) -> None:
    page.sign_in()
    opened = page.go("/access")
    opened.get_by_label("Password of vi").click()
    prove(opened)
    for typed, words in (("", "Enter the new password."), ("short", "12 to 256 characters")):
        opened.get_by_label("New password").fill(typed)
        opened.get_by_role("button", name="Set password").click()
        expect(opened.locator("#password-trouble")).to_contain_text(words)
        expect(opened.get_by_label("New password")).to_have_value(typed)
    opened.get_by_label("New password").fill("correct horse battery")
    opened.keyboard.press("Enter")
    expect(opened.locator("#toasts")).to_contain_text("Set the password of vi.")
    expect(opened.locator("tbody tr", has_text="token and password")).to_contain_text("vi")
    with watched(browser, served) as viewer:
        other = viewer.go("/access")
        other.get_by_role("button", name="Use a password instead").click()
        other.get_by_role("button", name="Log in").click()
        expect(other.get_by_role("alert")).to_have_text("Enter a name.")
        other.get_by_label("Name").fill("vi")
        for typed, words in (("", "Enter a password."), ("wrong", "Unknown name or password")):
            other.get_by_label("Password").fill(typed)
            other.keyboard.press("Enter")
            expect(other.get_by_role("alert")).to_contain_text(words)
        other.get_by_label("Password").fill("correct horse battery")
        other.keyboard.press("Enter")
        expect(other.locator("summary .who-name")).to_have_text("vi")
        change_ones_own(other, expect)
        # The next login of this browser asks for the same again.
        account_menu(other).get_by_role("button", name="Log out", exact=True).click()
        # The page that is left has buttons that begin with the same word.
        expect(other.get_by_label("Password", exact=True)).to_be_visible()
    assert broker.passwords == {"vi": "another long password"}
    page.troubles.clear()


def change_ones_own(opened: Any, expect: Any) -> None:
    opened.get_by_label("Password of vi").click()
    opened.get_by_label("New password").fill("another long password")
    prove(opened, "wrong")
    opened.get_by_role("button", name="Set password").click()
    expect(opened.locator("#password-trouble")).to_contain_text("expected your token, your password")
    expect(opened.get_by_label(PROOF)).to_be_focused()
    prove(opened, "correct horse battery")
    opened.get_by_role("button", name="Set password").click()
    expect(opened.locator("#toasts")).to_contain_text("Set the password of vi.")
    expect(opened.locator("#live")).to_have_text("Live")

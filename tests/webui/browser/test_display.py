"""The switches of theme and density: for this browser, at once and before the next page is painted."""

from typing import Any

import pytest

from tests.webui.browser.conftest import ServedConsole, Watched, account_menu, watched

DARK, LIGHT = "rgb(13, 18, 23)", "rgb(245, 247, 249)"
BACKGROUND = "getComputedStyle(document.body).backgroundColor"


@pytest.mark.parametrize(("scheme", "usual", "other"), [("light", LIGHT, "dark"), ("dark", DARK, "light")])
def test_the_theme_follows_the_system_until_one_is_chosen(
    browser: Any, served: ServedConsole, expect: Any, scheme: str, usual: str, other: str
) -> None:
    with watched(browser, served, color_scheme=scheme) as opened:
        opened.sign_in()
        page = account_menu(opened.go("/"))
        assert page.evaluate(BACKGROUND) == usual
        page.get_by_label("Theme").select_option(other)
        chosen = {"dark": DARK, "light": LIGHT}[other]
        assert page.evaluate(BACKGROUND) == chosen
        page = account_menu(opened.go("/quotas"))
        expect(page.get_by_label("Theme")).to_have_value(other)
        assert page.evaluate(BACKGROUND) == chosen
        page.get_by_label("Theme").select_option("")
        assert page.evaluate(BACKGROUND) == usual
        assert page.evaluate("localStorage.length") == 0


def test_a_chosen_theme_does_not_flash(browser: Any, served: ServedConsole) -> None:
    """The page has it before its body is parsed, so before anything is painted."""
    with watched(browser, served, color_scheme="light") as opened:
        opened.sign_in()
        account_menu(opened.go("/")).get_by_label("Theme").select_option("dark")
        opened.page.add_init_script(
            """new MutationObserver((_, observer) => {
                if (!document.body) return;
                window.themeAtBody = document.documentElement.dataset.theme;
                observer.disconnect();
            }).observe(document, {childList: true, subtree: true});"""
        )
        page = opened.go("/quotas")
        assert page.evaluate("window.themeAtBody") == "dark"


def test_the_login_page_has_the_theme_too(browser: Any, served: ServedConsole) -> None:
    with watched(browser, served, color_scheme="light") as opened:
        opened.sign_in()
        page = account_menu(opened.go("/"))
        page.get_by_label("Theme").select_option("dark")
        opened.page.context.clear_cookies()
        page.goto(served.pages + "/quotas")
        page.get_by_role("button", name="Log in").wait_for()
        assert page.evaluate(BACKGROUND) == DARK


def test_rows_are_further_apart_if_they_are_to_be(page: Watched, expect: Any) -> None:
    page.sign_in()
    opened = page.go("/access")
    row = opened.locator("#table tbody tr").first
    row.wait_for()
    usual = row.bounding_box()["height"]
    account_menu(opened).get_by_label("Density").select_option("comfortable")
    assert row.bounding_box()["height"] > usual
    opened.reload()
    row.wait_for()
    expect(opened.get_by_label("Density")).to_have_value("comfortable")
    assert row.bounding_box()["height"] > usual


def test_other_pages_of_the_browser_follow(page: Watched, expect: Any) -> None:
    page.sign_in()
    opened = page.go("/")
    other = opened.context.new_page()
    other.goto(page.console.pages + "/quotas")
    account_menu(opened).get_by_label("Theme").select_option("dark")
    expect(other.locator("html")).to_have_attribute("data-theme", "dark")

"""The menu of eight entries: tabs, badges, the account and the keyboard shortcuts."""

from typing import Any

import pytest

from tests.webui.browser.conftest import Watched, account_menu
from tests.webui.browser.test_axe import LOOKS, violations
from tests.webui.fakes import FakeBroker
from webui.pages import ENTRIES


@pytest.fixture
def opened(page: Watched) -> Any:
    page.sign_in()
    return page.go("/ip-quotas")


def test_an_entry_leads_to_its_first_page_and_tabs_to_the_others(opened: Any, expect: Any) -> None:
    entries = opened.locator(".sidebar li a > span")
    expect(entries).to_have_text([entry.title for entry in ENTRIES])
    expect(opened.locator(".sidebar [aria-current]")).to_have_text("Quotas")
    tabs = opened.get_by_role("navigation", name="Tabs")
    expect(tabs.get_by_role("link")).to_have_text(["Clients", "Broker", "Addresses"])
    expect(tabs.locator("[aria-current=page]")).to_have_text("Addresses")
    tabs.get_by_role("link", name="Broker").click()
    expect(opened.get_by_role("heading", level=1)).to_have_text("Broker quotas")
    entries.filter(has_text="Groups").click()
    expect(opened.get_by_role("heading", level=1)).to_have_text("Groups")
    entries.filter(has_text="Overview").click()
    expect(opened.locator(".tabs")).to_have_count(0)


def test_what_fires_shows_on_every_page(opened: Any, expect: Any, broker: FakeBroker) -> None:
    badge = opened.locator("#nav-health")
    expect(opened.locator("#live")).to_have_text("Live")
    expect(badge).to_be_hidden()
    broker.alerts.counts["lagging"] = (1, 2, 0, 5_000.0)
    expect(badge).to_have_text("2")
    expect(badge).to_have_attribute("aria-label", "2 alerts firing")
    broker.alerts.counts.clear()
    expect(badge).to_be_hidden()


def test_the_account_is_in_sight_and_its_menu_closes_when_it_is_left(opened: Any, expect: Any) -> None:
    opened.set_viewport_size({"width": 1440, "height": 900})
    summary = opened.locator("#account > summary")
    box = summary.bounding_box()
    assert box["y"] + box["height"] <= 900
    logout = account_menu(opened).get_by_role("button", name="Log out")
    expect(logout).to_be_visible()
    opened.keyboard.press("Escape")
    expect(logout).to_be_hidden()
    expect(summary).to_be_focused()
    account_menu(opened)
    opened.get_by_role("heading", level=1).click()
    expect(logout).to_be_hidden()


def test_the_keys_of_a_page_are_shown(opened: Any, expect: Any) -> None:
    opened.keyboard.press("?")
    keys = opened.locator("dialog.keys dt")
    expect(keys).to_have_text(["/", "n", "Ctrl K", "?", "Esc"])
    opened.keyboard.press("Escape")
    expect(opened.locator("dialog")).to_have_count(0)
    opened.locator("#filter").fill("?")
    expect(opened.locator("dialog")).to_have_count(0)
    opened.goto(opened.url.replace("/ip-quotas", "/tasks"))
    account_menu(opened).get_by_role("button", name="Keyboard shortcuts").click()
    expect(keys).to_have_text(["/", "Ctrl K", "?", "Esc"])


def test_axe_finds_nothing_in_the_menus(opened: Any, expect: Any) -> None:
    account_menu(opened)
    assert violations(opened, "account", LOOKS) == {}
    opened.keyboard.press("Escape")
    opened.keyboard.press("?")
    opened.locator("dialog.keys").wait_for()
    assert violations(opened, "keys", LOOKS) == {}

"""The command palette: by the keyboard from any page to pages, actions and names."""

import re
from typing import Any

import pytest

from tests.webui.browser.conftest import Watched
from tests.webui.browser.test_axe import LOOKS, violations
from tests.webui.fake_resolving import usage
from tests.webui.fakes import FakeBroker
from tests.webui.rows import group, topic
from webui.pages import menu


@pytest.fixture
def stocked(broker: FakeBroker) -> FakeBroker:
    broker.set((("user", "orders-team"),), {"producer_byte_rate": 1e6})
    broker.usage_rows = [usage("orders-user", "orders-client", 5.0)]
    broker.topic_rows = [topic("orders")]
    broker.group_rows = [group("orders-readers", "c")]
    return broker


@pytest.fixture
def opened(page: Watched, stocked: FakeBroker) -> Any:
    page.sign_in()
    return page.go("/")


def search(page: Any, text: str) -> None:
    """Types when the palette is there."""
    page.keyboard.press("Control+k")
    page.locator(".palette input:focus").wait_for()
    page.keyboard.type(text)


def options(page: Any) -> Any:
    return page.locator(".palette [role=option]")


def chosen(page: Any) -> Any:
    return page.locator(".palette [role=option][aria-selected=true]")


@pytest.mark.parametrize("key", ["Control+k", "Meta+k"])
def test_a_page_is_reached_by_the_keyboard(opened: Any, expect: Any, key: str) -> None:
    opened.keyboard.press(key)
    field = opened.get_by_role("combobox", name="Go to a page")
    expect(field).to_be_focused()
    opened.keyboard.type("quo cli")
    expect(options(opened).first).to_have_text("Client quotasQuotas")
    expect(chosen(opened)).to_have_text("Client quotasQuotas")
    expect(field).to_have_attribute("aria-activedescendant", "palette-option-0")
    opened.keyboard.press("Enter")
    expect(opened).to_have_url(re.compile("/quotas$"))


def test_names_are_found_and_lead_to_their_pages(opened: Any, expect: Any) -> None:
    for text, url in (
        ("user orders-team", r"/quotas/user=orders-team$"),
        ("orders-client", r"/explain\?user=orders-user&client_id=orders-client"),
        ("orders", r"/topics/orders$"),
        ("orders-readers", r"/groups/orders-readers$"),
    ):
        search(opened, "orders")
        option = opened.locator(
            "[role=option]", has=opened.locator(".name", has_text=re.compile(f"^{text}$"))
        )
        expect(option).to_have_count(1)
        expect(opened.get_by_role("status", name="").filter(has_text="results")).to_have_count(1)
        option.click()
        expect(opened).to_have_url(re.compile(url))
        opened.locator("#live[data-state=live]").wait_for()


def test_a_setting_is_found_and_opened(opened: Any, expect: Any) -> None:
    opened.locator("#find").click()
    opened.locator(".palette input:focus").wait_for()
    opened.keyboard.type("request.log.max")
    expect(chosen(opened)).to_contain_text("request.log.max.per.second")
    opened.keyboard.press("Enter")
    expect(opened).to_have_url(re.compile(r"/settings\?q=request.log.max.per.second"))
    expect(opened.get_by_label("New value")).to_have_value("100")


def test_actions_begin_where_they_belong(opened: Any, expect: Any) -> None:
    for action, field in (
        ("add a client quota", "User"),
        ("new access token", "Role"),
        ("import client metrics", "Content"),
        ("add a scram user", "Iterations"),
    ):
        search(opened, action)
        opened.keyboard.press("Enter")
        expect(opened.get_by_label(field, exact=True).first).to_be_visible()
        assert "#" not in opened.url


def test_an_action_of_the_same_page_begins_there(page: Watched, expect: Any, stocked: FakeBroker) -> None:
    page.sign_in()
    opened = page.go("/quotas")
    search(opened, "import client quotas")
    opened.keyboard.press("Enter")
    expect(opened.get_by_label("Content", exact=True)).to_be_focused()


def test_the_words_of_a_task_and_of_the_menu_are_found(opened: Any, expect: Any) -> None:
    search(opened, "")
    menu_words = [(entry.title, page.title) for entry in menu(is_gateway=False) for page in entry.pages]
    for typed, text in (
        *menu_words,
        ("why", "Explain"),
        ("raise", "Client quotas"),
        ("new quota", "Add a client quota"),
        ("dry run", "Client quotas"),
        ("old library version", "Connections"),
        ("browse records", "Topics"),
        ("produce", "Topics"),
        ("delete topic", "Topics"),
        ("retention", "Topics"),
        ("lag", "Groups"),
        ("permission", "ACLs"),
        ("password", "SCRAM users"),
        ("subscription", "Client metrics"),
        ("undo", "Audit"),
        ("history", "Audit"),
        ("role", "Access tokens"),
        ("new viewer", "New access token"),
        ("theme", "Switch to dark"),
    ):
        opened.locator(".palette input").fill(typed)
        found = opened.locator(".name", has_text=re.compile(f"^{text}$"))
        expect(options(opened).filter(has=found)).to_have_count(1)


def test_the_theme_is_switched(opened: Any, expect: Any) -> None:
    search(opened, "dark")
    expect(chosen(opened)).to_have_text("Switch to dark")
    opened.keyboard.press("Enter")
    expect(opened.locator("html")).to_have_attribute("data-theme", "dark")
    expect(opened.locator("dialog")).to_have_count(0)


def test_arrows_go_around_and_escape_leads_back(opened: Any, expect: Any) -> None:
    opened.locator("#find").focus()
    opened.keyboard.press("Control+k")
    first = options(opened).first
    expect(first).to_have_attribute("aria-selected", "true")
    opened.keyboard.press("ArrowUp")
    expect(options(opened).last).to_have_attribute("aria-selected", "true")
    opened.keyboard.press("ArrowDown")
    expect(first).to_have_attribute("aria-selected", "true")
    opened.keyboard.type("nothing is called this")
    expect(opened.locator(".palette .none")).to_be_visible()
    opened.keyboard.press("Enter")
    opened.keyboard.press("Escape")
    expect(opened.locator("dialog")).to_have_count(0)
    expect(opened.locator("#find")).to_be_focused()


def test_viewers_are_offered_what_they_may(page: Watched, expect: Any) -> None:
    page.sign_in("viewer-token")
    opened = page.go("/")
    opened.keyboard.press("Control+k")
    expect(options(opened).filter(has_text="Switch to dark")).to_have_count(1)
    for action in ("Add a client quota", "New access token", "Add a SCRAM user"):
        expect(options(opened).filter(has_text=action)).to_have_count(0)


def test_the_palette_works_without_the_broker(opened: Any, expect: Any, page: Watched) -> None:
    opened.route("**/api/v1/**", lambda route: route.abort())
    search(opened, "audit")
    expect(chosen(opened)).to_have_text("AuditAdmin")


def test_axe_finds_nothing_in_the_palette(opened: Any, expect: Any) -> None:
    search(opened, "o")
    expect(options(opened).filter(has_text="orders-readers")).to_have_count(1)
    assert violations(opened, "palette", LOOKS) == {}
    opened.keyboard.type("nothing is called this")
    opened.locator(".palette .none").wait_for()
    assert violations(opened, "palette", LOOKS[:1]) == {}

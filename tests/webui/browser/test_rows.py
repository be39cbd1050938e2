"""Rows of lists: one height, and names that are cut with the rest of them at hand."""

from typing import Any

import pytest

from broker.common.temporary_limits import from_times
from broker.controller.commands import EntityPairs
from broker.controller.rows.quotas import ShadowUse
from tests.webui.browser.conftest import ServedConsole, Watched, watched
from tests.webui.browser.test_every_page import LONG, crowd
from tests.webui.fakes import FakeBroker
from tests.webui.rows import connection, throttled

DESK = {"width": 1440, "height": 900}
HEIGHTS = """() => [...new Set([...document.querySelectorAll("table.cards > tbody > tr:not(.panel)")].map(
    (row) => Math.round(row.getBoundingClientRect().height)))]"""
LISTS = (
    "/throttled",
    "/quotas",
    "/ip-quotas",
    "/connections",
    "/client-metrics",
    "/topics",
    "/groups",
    "/transactions",
    "/alerts",
    "/settings",
    "/scram-users",
    "/acls",
    "/audit",
    "/access",
    "/tasks",
)


def test_rows_have_one_height_whatever_is_in_them(
    browser: Any, served: ServedConsole, broker: FakeBroker
) -> None:
    crowd(broker)
    with watched(browser, served, viewport=DESK) as wide:
        wide.sign_in()
        heights = {}
        for path in LISTS:
            opened = wide.go(path)
            opened.locator("table.cards > tbody > tr").first.wait_for()
            heights[path] = opened.evaluate(HEIGHTS)
        assert heights == {path: [44] for path in LISTS}


@pytest.mark.parametrize("how", ["pointer", "keyboard"])
def test_a_name_that_is_cut_is_shown_whole_and_copied(
    browser: Any, served: ServedConsole, broker: FakeBroker, expect: Any, how: str
) -> None:
    broker.connection_rows = [connection(LONG, index=0), connection("short", index=1)]
    with watched(browser, served, viewport=DESK, permissions=["clipboard-read", "clipboard-write"]) as wide:
        wide.sign_in()
        opened = wide.go("/connections")
        name = opened.locator("a.client", has_text="a-name")
        button = opened.locator(".copy")
        if how == "pointer":
            name.hover()
        else:
            name.focus()
        expect(button).to_be_visible()
        expect(name).to_have_attribute("title", LONG)
        before = opened.evaluate(HEIGHTS)
        if how == "pointer":
            button.click()
        else:
            opened.keyboard.press("Tab")
            expect(button).to_be_focused()
            opened.keyboard.press("Enter")
        expect(button).to_have_attribute("data-said", "Copied")
        assert opened.evaluate("navigator.clipboard.readText()") == LONG
        assert opened.evaluate(HEIGHTS) == before == [44]
        opened.locator("a.client", has_text="short").hover()
        opened.locator("a.client", has_text="short").focus()
        expect(button).to_have_count(0)


def test_a_row_that_goes_leaves_its_place_to_the_next(page: Watched, expect: Any, broker: FakeBroker) -> None:
    broker.throttled_rows = [throttled(name, connection_id=name, times=9) for name in ("one", "two", "three")]
    page.sign_in()
    opened = page.go("/throttled")
    rows = opened.locator("#table tbody tr")
    expect(rows).to_have_count(3)
    place = opened.locator("#table tbody tr", has_text="three").bounding_box()
    del broker.throttled_rows[0]
    expect(opened.locator("#table tbody tr.blank")).to_have_count(1)
    assert opened.locator("#table tbody tr", has_text="three").bounding_box() == place
    broker.throttled_rows.append(throttled("four", connection_id="four", times=99))
    expect(rows.nth(0)).to_contain_text("four")
    assert opened.locator("#table tbody tr", has_text="three").bounding_box() == place


def test_a_rule_of_shadow_mode_and_one_for_a_time_have_the_height_of_a_row(
    browser: Any, served: ServedConsole, broker: FakeBroker, expect: Any
) -> None:
    app: EntityPairs = (("client-id", "app"),)
    other: EntityPairs = (("user", LONG), ("client-id", None))
    until = {"until": "2099-01-01T00:00:00Z"}
    for rule in (app, other):
        broker.set(rule, {"producer_byte_rate": 1e6, "consumer_byte_rate": 2e6}, shadow=rule is app)
    key = "producer_byte_rate"
    broker.shadow_use[app, key] = ShadowUse(app, key, 8_466, 99_000, broker.now_ms)
    broker.temporaries = {
        rule: {key: (from_times(9e6, until), "ann") for key in ("producer_byte_rate", "consumer_byte_rate")}
        for rule in (app, other)
    }
    with watched(browser, served, viewport=DESK) as wide:
        wide.sign_in()
        opened = wide.go("/quotas")
        expect(opened.locator("#table tbody tr")).to_have_count(2)
        expect(opened.locator("#table")).to_contain_text("Shadow (not enforced)")
        expect(opened.locator("#table .countdown")).to_have_count(2)
        assert opened.evaluate(HEIGHTS) == [44]

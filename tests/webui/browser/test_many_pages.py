"""Many pages of one browser: all show what is new, although it opens only six connections to a host."""

from typing import Any

from broker.controller.commands import EntityPairs
from tests.webui.browser.conftest import Watched
from tests.webui.fakes import FakeBroker

APP: EntityPairs = (("client-id", "app"),)
PAGES = 8
HIDDEN = "Object.defineProperty(document, 'hidden', { get: () => window.isHidden ?? true });"
SEEN = "() => { window.isHidden = false; document.dispatchEvent(new Event('visibilitychange')); }"


def test_eight_open_pages_are_all_live_and_one_more_loads(
    page: Watched, expect: Any, broker: FakeBroker
) -> None:
    broker.set(APP, {"producer_byte_rate": 1e6})
    page.sign_in()
    opened = [page.page, *(page.page.context.new_page() for _ in range(PAGES - 1))]
    for each in opened:
        each.goto(f"{page.console.pages}/quotas")
        expect(each.locator("#table tbody tr")).to_contain_text("1 MB/s")
    broker.set(APP, {"producer_byte_rate": 7e6})
    for each in opened:
        expect(each.locator("#table tbody tr")).to_contain_text("7 MB/s")
        expect(each.locator("#live")).to_have_attribute("data-state", "live")
    another = page.page.context.new_page()
    another.goto(f"{page.console.pages}/topics")
    expect(another.get_by_role("heading", level=1)).to_have_text("Topics")


def test_a_page_that_is_opened_in_the_background_gives_its_connection_back(
    page: Watched, expect: Any, broker: FakeBroker
) -> None:
    page.sign_in()
    page.page.add_init_script(HIDDEN)
    page.page.goto(f"{page.console.pages}/quotas")
    expect(page.page.locator("#live")).to_have_attribute("data-state", "paused")
    page.page.evaluate(SEEN)
    expect(page.page.locator("#live")).to_have_attribute("data-state", "live")

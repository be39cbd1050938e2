"""The page of a quota rule: its limits, whom it matches, whom it throttled, and its changes."""

import re
from typing import Any

import pytest

from broker.common.temporary_limits import from_times
from broker.controller.commands import EntityPairs
from tests.webui.browser.conftest import ServedConsole, Watched, watched
from tests.webui.fake_resolving import usage
from tests.webui.fakes import FakeBroker
from tests.webui.rows import throttled, use

PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
APP: EntityPairs = (("client-id", "app"),)
ALICE: EntityPairs = (("user", "alice"),)
NET: EntityPairs = (("ip", "10.0.0.7"),)


@pytest.fixture
def stocked(page: Watched, broker: FakeBroker) -> Watched:
    broker.set(APP, {PRODUCE: 1e6, FETCH: 2e6}, by="ann")
    broker.set(ALICE, {PRODUCE: 5e6})
    broker.set(NET, {"connection_creation_rate": 10.0})
    broker.observed = {APP: {PRODUCE: 750_000.0}}
    broker.usage_rows = [usage("alice", "app", 1e3), usage("bob", "app", 5e3)]
    weekly = {"windows": ["Mon-Fri 09:00-17:00"], "zone": "Europe/Berlin"}
    broker.temporaries = {APP: {FETCH: (from_times(9e6, weekly), "bea")}}
    page.sign_in()
    return page


def test_the_limits_say_their_use_and_where_they_come_from(
    stocked: Watched, expect: Any, broker: FakeBroker
) -> None:
    opened = stocked.go("/quotas/client-id=app")
    expect(opened.get_by_role("heading", level=1)).to_have_text("client idapp")
    rows = opened.get_by_role("region", name="Limits").locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.filter(has_text="Produce")).to_contain_text(
        re.compile("1 MB/s.*750 kB/s.*75 %.*permanently.*ann")
    )
    temporary = rows.filter(has_text="Mon-Fri 09:00-17:00 Europe/Berlin")
    expect(temporary).to_contain_text(re.compile("9 MB/s.*bea"))
    expect(opened.get_by_role("link", name="Explain")).to_have_attribute("href", "/explain?client_id=app")


LONG = "a-name-without-any-end-" * 10


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (900, 900), (390, 844)])
def test_long_names_leave_the_page_its_form(
    browser: Any, served: ServedConsole, expect: Any, broker: FakeBroker, width: int, height: int
) -> None:
    rule, narrower = (("user", LONG),), (("user", LONG), ("client-id", LONG))
    broker.set(rule, {PRODUCE: 1e6, "request_percentage": 1_000.0}, by=LONG)
    broker.set(narrower, {PRODUCE: 1e6}, by=LONG)
    broker.usage_rows = [usage(LONG, LONG, 5e6)]
    with watched(browser, served, viewport={"width": width, "height": height}) as page:
        page.sign_in()
        opened = page.go(f"/quotas/user={LONG}")
        opened.get_by_role("button", name="Edit").click()
        fields = opened.locator(".limits input")
        expect(fields).to_have_count(4)
        boxes = [field.bounding_box() for field in fields.all()]
        assert all(box["x"] + box["width"] <= width for box in boxes), boxes
        lines = {box["x"]: [] for box in boxes}
        for box in boxes:
            lines[box["x"]].append(round(box["y"]))
        assert len({tuple(line) for line in lines.values()}) == 1, (
            "the inputs of a line stand beside each other"
        )
        opened.get_by_text("Until", exact=True).first.click()
        expect(fields.nth(0)).to_have_attribute("placeholder", "1 MB/s permanently")
        expect(fields.nth(2)).to_have_attribute("placeholder", "1\u202f000 % permanently")
        for tab in ("Limits", "Clients"):
            opened.locator("nav.tabs").get_by_role("link", name=tab).click()
            region = opened.get_by_role("region", name=tab)
            expect(region).to_contain_text("a-name")
            assert region.evaluate("each => each.scrollWidth <= each.clientWidth"), tab
            inside = "each => each.scrollWidth <= each.clientWidth"
            assert opened.locator("#body").evaluate(inside), tab
            row = region.locator("tbody tr").first.bounding_box()
            assert row["height"] < (90 if width > 820 else 240), (tab, row)


def test_times_that_the_broker_refuses_are_marked(stocked: Watched, expect: Any) -> None:
    opened = stocked.go("/quotas/user=alice")
    opened.get_by_role("button", name="Edit").click()
    opened.get_by_text("Until", exact=True).first.click()
    opened.get_by_label("Produce per second").fill("5 MB")
    opened.get_by_label("When").select_option("weekly")
    windows = opened.get_by_label("Windows")
    windows.fill("Mon-Fri 9-17")
    expect(opened.get_by_role("alert").filter(has_text="is no window")).to_be_visible()
    expect(windows).to_have_attribute("aria-invalid", "true")
    windows.fill("Mon-Fri 09:00-17:00")
    expect(opened.locator(".copyable pre")).to_contain_text("--weekly 'Mon-Fri 09:00-17:00")
    expect(windows).not_to_have_attribute("aria-invalid", "true")
    opened.get_by_label("Time zone").fill("Mars")
    expect(opened.get_by_label("Time zone")).to_have_attribute("aria-invalid", "true")
    expect(opened.get_by_role("alert").filter(has_text="unknown time zone 'Mars'")).to_be_visible()


def test_the_clients_of_a_rule_are_listed_with_the_rule_that_applies(stocked: Watched, expect: Any) -> None:
    opened = stocked.go("/quotas/client-id=app?tab=clients")
    rows = opened.get_by_role("region", name="Clients").locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.filter(has_text="bob")).to_contain_text("this rule")
    expect(rows.filter(has_text="alice")).to_contain_text("Produce: useralice")
    rows.get_by_role("link", name="alice").last.click()
    expect(opened).to_have_url(re.compile("/quotas/user=alice$"))


def test_the_addresses_of_a_rule_are_listed_with_their_connections(
    stocked: Watched, expect: Any, broker: FakeBroker
) -> None:
    broker.address_uses = [use("10.0.0.7", 2.5), use("10.0.0.70", 1.0)]
    opened = stocked.go("/quotas/ip=10.0.0.7?tab=clients")
    rows = opened.get_by_role("region", name="Addresses").locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("2.5/s")


def test_the_throttles_of_the_last_hour_are_those_of_the_rule(
    stocked: Watched, expect: Any, broker: FakeBroker
) -> None:
    broker.throttled_rows = [
        throttled("app", entity=APP, times=7),
        throttled("other", connection_id="2", entity=ALICE),
    ]
    opened = stocked.go("/quotas/client-id=app?tab=throttles")
    rows = opened.get_by_role("region", name="Throttles of the last hour").locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("app")
    expect(opened.locator("#facts")).to_contain_text("Throttled now1 connection")


def test_a_rule_is_edited_its_change_listed_and_it_is_removed(
    stocked: Watched, expect: Any, broker: FakeBroker
) -> None:
    opened = stocked.go("/quotas/client-id=app?edit=producer_byte_rate")
    field = opened.locator("form.editor").get_by_label("Produce")
    expect(field).to_be_focused()
    field.fill("3 MB")
    opened.get_by_role("button", name="Save limits").click()
    expect(opened.get_by_role("region", name="Limits")).to_contain_text("3 MB/s")
    assert broker.rows[APP].value(PRODUCE) == 3e6
    opened.get_by_role("button", name="Delete quota").click()
    opened.get_by_role("button", name="Remove limits").click()
    expect(opened.get_by_role("alert").filter(has_text="does not exist any more")).to_be_visible()
    assert APP not in broker.rows
    opened.get_by_role("button", name="Undo").click()
    expect(opened.get_by_role("alert").filter(has_text="does not exist any more")).to_be_hidden()
    assert broker.rows[APP].value(PRODUCE) == 3e6


def test_the_limit_of_an_address_is_edited_and_removed(
    stocked: Watched, expect: Any, broker: FakeBroker
) -> None:
    opened = stocked.go("/quotas/ip=10.0.0.7")
    opened.get_by_role("button", name="Edit").click()
    opened.locator("form.editor").get_by_label("New connections").fill("20")
    opened.get_by_role("button", name="Save limit").click()
    expect(opened.get_by_role("region", name="Limits")).to_contain_text("20/s")
    opened.get_by_role("button", name="Delete quota").click()
    opened.get_by_role("button", name="Remove limit").click()
    expect(opened.get_by_role("alert").filter(has_text="does not exist any more")).to_be_visible()
    assert NET not in broker.rows


def test_a_viewer_sees_the_page_and_may_not_edit(page: Watched, expect: Any, broker: FakeBroker) -> None:
    broker.set(APP, {PRODUCE: 1e6})
    page.sign_in("viewer-token")
    opened = page.go("/quotas/client-id=app?edit=producer_byte_rate")
    expect(opened.get_by_role("region", name="Limits")).to_contain_text("1 MB/s")
    for name in ("Edit", "Delete quota"):
        expect(opened.get_by_role("button", name=name)).to_have_attribute("aria-disabled", "true")
    expect(opened.locator(".editor")).to_have_count(0)

"""The page of addresses: who connects how fast, and limits that are set in place."""

import re
from typing import Any

import pytest

from broker.common.temporary_limits import from_times
from broker.controller.rows.connections import ConnectionLimitRow
from tests.webui.browser.conftest import Watched, refused_buttons
from tests.webui.fakes import IP_KEY, FakeBroker
from tests.webui.rows import use

ONE = (("ip", "10.0.0.7"),)


@pytest.fixture
def addresses(page: Watched, broker: FakeBroker) -> Any:
    broker.version = 5
    broker.set(ONE, {IP_KEY: 20.0})
    broker.address_uses = [use("10.0.0.7", 12.0, throttled=3, max_connections=5), use("10.0.0.9", 9.0)]
    page.sign_in()
    return page.go("/ip-quotas")


def row(page: Any, address: str) -> Any:
    return page.locator("#table tbody tr:not(.panel)", has_text=address)


def test_an_address_shows_its_limit_its_rate_and_what_was_stopped(addresses: Any, expect: Any) -> None:
    for words in ("20/s", "12/s", "3 of 5", "by root"):
        expect(row(addresses, "10.0.0.7")).to_contain_text(words)
    expect(row(addresses, "10.0.0.7").locator(".bar")).to_have_attribute("data-level", "good")
    expect(row(addresses, "10.0.0.9")).to_contain_text("9/s")
    expect(addresses.locator("#count")).to_have_text("2 addresses")
    expect(addresses.locator("#limits")).to_contain_text("12, no limit")


def test_the_controllers_counts_stand_beside_the_brokers(
    addresses: Any, expect: Any, broker: FakeBroker
) -> None:
    broker.controller_uses = [
        use("10.0.0.7", 1.0, connections=2, max_connections=5, refused=6),
        use("10.0.0.11", 4.0, connections=7),
    ]
    broker.limit_rows = [
        ConnectionLimitRow("", 12, None, 1.5, None, ()),
        ConnectionLimitRow("PLAINTEXT", 12, None, 1.5, None, ()),
        ConnectionLimitRow("", 9, 20, 1.5, None, (), "controller"),
        ConnectionLimitRow("ADMIN", 4, None, 1.5, None, (), "controller"),
        ConnectionLimitRow("OPS", 5, None, 1.5, None, (), "controller"),
    ]
    for words in ("12/s", "3 of 5", "controller 2 of 5", "6"):
        expect(row(addresses, "10.0.0.7")).to_contain_text(words)
    expect(row(addresses, "10.0.0.7").locator(".bar")).to_have_attribute("data-level", "good")
    expect(row(addresses, "10.0.0.11")).to_contain_text("controller 7")
    limits = addresses.locator("#limits tbody tr")
    expect(limits).to_have_count(4)
    for at, words in enumerate(("Broker", "Controller", "ADMIN", "OPS")):
        expect(limits.nth(at)).to_contain_text(words)
    expect(limits.nth(1)).to_contain_text("9 of 20")


def test_what_other_gateways_count_stands_beside_it(addresses: Any, expect: Any, broker: FakeBroker) -> None:
    note = addresses.locator("#elsewhere")
    expect(note).to_be_hidden()
    broker.remote_shares.address_rows = [
        use("10.0.0.7", 5.5, connections=2, max_connections=5, refused=4, gateway="g2-77aa"),
        use("10.0.0.12", 1.0, connections=7, gateway="g2-77aa"),
    ]
    broker.unlisted_address_count, broker.without_report = 1, ["g3-0000"]
    for words in ("17.5/s", "5.5/s elsewhere", "3 of 5", "2 elsewhere", "4"):
        expect(row(addresses, "10.0.0.7")).to_contain_text(words)
    expect(row(addresses, "10.0.0.7").locator(".bar")).to_have_attribute("data-level", "watch")
    expect(row(addresses, "10.0.0.7").get_by_title("gateway g2-77aa: 2 of 5")).to_have_text("2 elsewhere")
    expect(row(addresses, "10.0.0.12").get_by_title("gateway g2-77aa: 7")).to_have_text("7 elsewhere")
    expect(note).to_contain_text("1 address of other gateways is not included")
    expect(note).to_contain_text("gateway g3-0000, which has told nothing yet.")
    broker.remote_shares.address_rows = []
    broker.unlisted_address_count, broker.without_report = 0, []
    expect(row(addresses, "10.0.0.12")).to_have_count(0)
    expect(note).to_be_hidden()


def test_figures_of_an_address_move_by_themselves(addresses: Any, expect: Any, broker: FakeBroker) -> None:
    broker.address_uses = [use("10.0.0.7", 25.0, refused=8)]
    expect(row(addresses, "10.0.0.7").locator(".bar")).to_have_attribute("data-level", "urgent")
    expect(row(addresses, "10.0.0.9")).to_have_count(0)


def test_an_address_is_limited_and_freed_again(addresses: Any, expect: Any, broker: FakeBroker) -> None:
    addresses.keyboard.press("n")
    addresses.get_by_label("Address", exact=True).fill("10.0.0.9")
    addresses.get_by_label("New connections per second").fill("4")
    expect(addresses.locator(".reach")).to_contain_text("1 address seen in the last hour")
    expect(addresses.locator(".reach")).to_contain_text("1 connects faster now and would be throttled")
    expect(addresses.locator(".copyable pre")).to_contain_text("--entity-type ips --entity-name 10.0.0.9")
    addresses.get_by_role("button", name="Save limit").click()
    expect(row(addresses, "10.0.0.9")).to_contain_text("4/s")
    assert broker.rows[(("ip", "10.0.0.9"),)].value(IP_KEY) == 4
    addresses.get_by_role("button", name="Undo").click()
    expect(addresses.locator(".toast")).to_contain_text("Restored")
    assert (("ip", "10.0.0.9"),) not in broker.rows


def test_the_default_is_chosen_and_not_typed(addresses: Any, expect: Any, broker: FakeBroker) -> None:
    addresses.get_by_role("button", name="Limit an address").click()
    addresses.get_by_label("Limited addresses").select_option("default")
    expect(addresses.get_by_label("Address", exact=True)).to_be_hidden()
    addresses.get_by_label("New connections per second").fill("30")
    expect(addresses.get_by_text("matches this limit")).to_be_visible()  # the preview moves the button
    addresses.get_by_role("button", name="Save limit").click()
    default = addresses.locator("#table tbody tr").filter(has=addresses.get_by_text("Default", exact=True))
    expect(default).to_contain_text("30/s")
    expect(row(addresses, "10.0.0.9")).to_contain_text("default")
    assert broker.rows[(("ip", None),)].value(IP_KEY) == 30


def test_a_rate_that_makes_no_sense_stands_beside_its_field(addresses: Any, expect: Any) -> None:
    addresses.get_by_label("Edit the limit of 10.0.0.7").click()
    field = addresses.get_by_label("New connections per second")
    for typed in ("0", "-1", "1.5", "1,000", "many"):
        field.fill(typed)
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(addresses.get_by_role("button", name="Save limit")).to_be_disabled()
    expect(field).to_have_value("many")
    field.fill("1,000")
    note = addresses.locator(".editor .note").first
    expect(note).to_have_text("1,000 may mean 1000 or 1; write 1000 or 1.")
    field.fill("1 000/s")
    expect(note).to_contain_text("1\u202f000 per second")
    addresses.keyboard.press("Escape")
    addresses.get_by_role("button", name="Discard").click()
    expect(addresses.get_by_label("Edit the limit of 10.0.0.7")).to_be_focused()


def test_both_versions_are_shown_after_a_concurrent_edit(
    addresses: Any, expect: Any, broker: FakeBroker
) -> None:
    addresses.get_by_label("Edit the limit of 10.0.0.7").click()
    broker.version += 1
    broker.set(ONE, {IP_KEY: 99.0}, by="bob")
    addresses.get_by_label("New connections per second").fill("7")
    conflict = addresses.locator(".conflict")
    for words in ("bob changed this limit in the meantime", "99/s", "7/s"):
        expect(conflict).to_contain_text(words)
    addresses.get_by_role("button", name="Overwrite").click()
    expect(row(addresses, "10.0.0.7")).to_contain_text("7/s")
    assert broker.rows[ONE].value(IP_KEY) == 7


def test_a_viewer_is_told_why_the_buttons_do_nothing(page: Watched, expect: Any, broker: FakeBroker) -> None:
    broker.set(ONE, {IP_KEY: 20.0})
    page.sign_in("viewer-token")
    opened = page.go("/ip-quotas")
    expect(row(opened, "10.0.0.7")).to_be_visible()
    refused_buttons(opened, "#add, .actions button", "editor", 3)


def test_a_limit_for_a_time_is_marked_and_the_editor_has_the_permanent_one(
    addresses: Any, expect: Any, broker: FakeBroker
) -> None:
    until = from_times(40.0, {"until": "2099-01-01T00:00:00Z"})
    broker.temporaries = {ONE: {IP_KEY: (until, "bea")}}
    broker.version += 1
    countdown = row(addresses, "10.0.0.7").locator(".countdown")
    expect(countdown).to_contain_text("New connections 40/s")
    expect(countdown).to_have_attribute("title", re.compile("until Jan 1.*; otherwise 20/s. Set by bea"))
    expect(row(addresses, "10.0.0.7").locator("b.temporary")).to_have_text("40/s")
    addresses.get_by_role("button", name="Edit the limit of 10.0.0.7").click()
    expect(addresses.get_by_label("New connections per second")).to_have_value("20")
    addresses.keyboard.press("Escape")
    row(addresses, "10.0.0.7").get_by_role("link", name="10.0.0.7").click()
    expect(addresses).to_have_url(re.compile("/quotas/ip=10.0.0.7$"))
    expect(addresses.get_by_role("region", name="Limits").locator("tbody tr")).to_have_count(2)

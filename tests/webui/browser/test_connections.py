"""Connections: the versions of client software, and the search for one of them."""

from typing import Any

from tests.webui.browser.conftest import Watched
from tests.webui.fakes import FakeBroker
from tests.webui.rows import connection


def test_a_version_of_software_is_counted_and_searched_for(
    page: Watched, expect: Any, broker: FakeBroker
) -> None:
    versions = [("lib", "2.10.0"), ("lib", "2.9.0"), ("lib", "2.9.0"), ("unknown", "unknown")]
    broker.connection_rows = [
        connection(f"app-{at}", index=at, software_name=name, software_version=version)
        for at, (name, version) in enumerate(versions)
    ]
    page.sign_in()
    opened = page.go("/connections")
    expect(opened.locator("#software")).to_contain_text("3 versions of software")
    chips = opened.locator("#software .chip")
    expect(chips).to_have_text(["lib2.9.02", "lib2.10.01", "softwareunknown1"])
    chips.nth(0).click()
    rows = opened.locator("#table tbody tr")
    expect(rows).to_have_count(2)
    expect(opened.locator("#filter")).to_have_value("lib 2.9.0")
    expect(chips.nth(0)).to_have_attribute("aria-pressed", "true")
    chips.nth(0).click()
    expect(rows).to_have_count(4)
    chips.nth(2).click()
    expect(rows).to_have_count(1)
    expect(rows.locator("td[data-label=Software]")).to_have_text("unknown")

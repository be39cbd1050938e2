"""What the quotas page says before an edit: whom a rule takes from where, and how the change begins."""

import re
from typing import Any

import pytest

from broker.controller.commands import EntityPairs
from tests.webui.browser.conftest import Watched
from tests.webui.fakes import FakeBroker
from tests.webui.rows import connection

PRODUCE = "producer_byte_rate"
APP: EntityPairs = (("client-id", "app"),)
USERS: EntityPairs = (("user", None),)


@pytest.fixture
def quotas(page: Watched, broker: FakeBroker) -> Any:
    broker.version = 5
    broker.set(APP, {PRODUCE: 1_048_576.0})
    broker.observed = {APP: {PRODUCE: 1_000_000.0}}
    broker.connection_rows = [connection("app", "alice"), connection("other", "alice")]
    page.sign_in()
    return page.go("/quotas")


def test_a_rule_that_outranks_another_says_so_before_and_after(
    quotas: Any, expect: Any, broker: FakeBroker
) -> None:
    expect(quotas.locator(".lede")).to_contain_text("A rule of the default user therefore takes precedence")
    quotas.keyboard.press("n")
    quotas.get_by_label("User", exact=True).select_option("default")
    quotas.get_by_label("Client id", exact=True).select_option("any")
    quotas.locator("form.editor").get_by_label("Produce").fill("3 MB")
    moves = quotas.locator(".moves > li")
    expect(moves).to_have_count(2)
    expect(moves.first).to_contain_text("alice / app from client idapp (1 MiB/s) to userdefault (3 MB/s)")
    expect(moves.first).to_contain_text("it uses all of the present limit and may use more afterwards")
    expect(moves.last).to_contain_text("alice / other from no limit to userdefault (3 MB/s)")
    expect(quotas.locator(".reach")).to_contain_text(
        "Rule client idapp (1 MiB/s) is left without connected clients."
    )
    quotas.get_by_role("button", name="Add quota").last.click()
    row = quotas.locator("#table tbody tr", has_text="client id")
    expect(row).to_contain_text("overridden by userdefault")
    broker.version += 1
    broker.set(USERS, {PRODUCE: None})
    expect(row).not_to_contain_text("overridden by")


def test_a_rule_whose_clients_all_come_under_others_names_them(
    quotas: Any, expect: Any, broker: FakeBroker
) -> None:
    row = quotas.locator("#table tbody tr", has_text="client idapp")
    expect(row).to_contain_text("1 MiB/s")
    broker.version += 1
    broker.set((("user", "alice"),), {PRODUCE: 2_000_000.0})
    expect(row).to_contain_text("overridden by useralice")
    title = "1 connected client matches this limit, but comes under this rule"
    expect(row.locator(".overridden")).to_have_attribute("title", title)

    broker.connection_rows.append(connection("app", "bob"))
    broker.version += 1
    broker.set((("user", "bob"),), {PRODUCE: 2_000_000.0})
    expect(row).to_contain_text("overridden by several rules")
    row.locator(".overridden summary").press("Enter")
    expect(row.locator(".overridden li")).to_have_text(["useralice", "userbob"])
    row.get_by_role("link", name="bob").click()
    expect(quotas).to_have_url(re.compile("/quotas/user=bob$"))


def test_a_long_first_throttle_is_shown_and_can_begin_gently(quotas: Any, expect: Any) -> None:
    quotas.get_by_label("Edit client id app").click()
    limit = quotas.locator("form.editor").get_by_label("Produce")
    limit.fill("130 kB")
    reach = quotas.locator(".reach")
    expect(reach).to_contain_text(
        "exceeds 130 kB/s now and would be throttled for about 67 s at first; the rate is then 130 kB/s."
    )
    reach.get_by_role("button", name="Start at 840 kB/s").click()
    expect(limit).to_have_value("840 kB")
    expect(reach).to_contain_text("would be throttled for about 1.9 s at first; the rate is then 840 kB/s.")
    expect(reach.get_by_role("button")).to_have_count(0)

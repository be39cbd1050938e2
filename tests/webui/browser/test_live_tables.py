"""Tables under live updates: what has the focus keeps it, rows open, phones sort, names are told apart."""

import re
from typing import Any

from broker.quotas.kinds import QuotaKind
from tests.webui.browser.conftest import PHONE, Watched, watched
from tests.webui.fakes import FakeBroker
from tests.webui.rows import connection, throttled, topic
from tests.webui.served import ServedConsole

PRODUCE = "producer_byte_rate"


def test_the_focus_stays_where_it_is_while_figures_change(
    page: Watched, expect: Any, broker: FakeBroker
) -> None:
    alice = (("user", "alice"),)
    broker.set(alice, {PRODUCE: 2e6})
    for index in range(60):
        broker.set((("user", f"user {index:02}"),), {PRODUCE: 1e6})
    page.sign_in()
    opened = page.go("/explain?user=alice&client_id=app")
    probe = opened.locator(".probes tbody tr").nth(2).locator("button").first
    probe.focus()
    broker.set(alice, {PRODUCE: 3e6})
    expect(probe).to_contain_text("3 MB/s")
    expect(probe).to_be_focused()
    opened = page.go("/quotas")
    following = opened.get_by_role("button", name="Next")
    following.focus()
    broker.version += 1
    broker.set((("user", "one more"),), {PRODUCE: 1e6})
    expect(opened.locator("#pager")).to_contain_text("of 62")
    expect(following).to_be_focused()


def test_names_show_the_characters_that_cannot_be_seen(
    page: Watched, expect: Any, broker: FakeBroker
) -> None:
    broker.connection_rows = [connection(" app"), connection("a\u202epp\u200b", index=1)]
    page.sign_in()
    opened = page.go("/connections")
    names = opened.locator("tbody a.name")
    assert sorted(names.all_inner_texts()) == ["aU+202EppU+200B", "␣app"]
    expect(names.locator(".unseen").first).to_have_attribute("title", "A space")


def test_a_phone_sorts_a_table(browser: Any, served: ServedConsole, expect: Any, broker: FakeBroker) -> None:
    broker.topic_rows = [topic("small"), topic("large", partitions=9)]
    with watched(browser, served, viewport=PHONE) as page:
        page.sign_in()
        opened = page.go("/topics")
        expect(opened.locator("tbody tr").first).to_contain_text("large")
        opened.get_by_role("button", name="Topic", exact=True).click()
        expect(opened.locator("tbody tr").first).to_contain_text("small")


def test_a_click_anywhere_on_a_row_opens_it(page: Watched, expect: Any, broker: FakeBroker) -> None:
    broker.telemetry.join("orders-1")
    broker.topic_rows = [topic("orders")]
    page.sign_in()
    opened = page.go("/client-metrics")
    row = opened.locator("#table tbody tr").first
    row.locator("td").nth(3).click()
    expect(opened.locator(".instance")).to_be_visible()
    row.locator("td").nth(3).click()
    expect(opened.locator(".instance")).to_have_count(0)
    opened = page.go("/topics")
    opened.locator("tbody tr").first.locator("td").nth(3).click()
    expect(opened).to_have_url(re.compile("/topics/orders$"))
    expect(opened.get_by_role("heading", level=1)).to_contain_text("orders")
    opened.go_back()
    expect(opened).to_have_url(re.compile("/topics$"))


def test_an_address_over_its_connection_rate_is_among_the_throttled(
    page: Watched, expect: Any, broker: FakeBroker
) -> None:
    kind = QuotaKind.CONNECTION_RATE
    anywhere = (("ip", None),)
    broker.throttled_rows = [throttled("", principal="", quota_type=kind, entity=anywhere, throttle_ms=7_999)]
    page.sign_in()
    opened = page.go("/throttled")
    row = opened.locator("#table tbody tr")
    for words in ("New connections", "10.0.0.7", "connection rate", "8 s"):
        expect(row).to_contain_text(words)
    expect(row.locator("a.rule")).to_have_attribute("href", "/quotas/ip")
    expect(opened.locator("#recent-throttles")).to_contain_text("New connections")


def test_a_throttled_client_is_explained_raised_and_closed_from_its_row(
    page: Watched, expect: Any, broker: FakeBroker
) -> None:
    rule = (("client-id", "greedy"),)
    broker.set(rule, {PRODUCE: 1e6})
    broker.connection_rows = [connection("greedy", "alice")]
    broker.throttled_rows = [
        throttled(
            "greedy", principal="alice", connection_id=broker.connection_rows[0].connection_id, entity=rule
        ),
        throttled("elsewhere", connection_id="other", gateway="g2-77aa", entity=rule),
        throttled("tagged", connection_id="third", entity=(), tags=(("team", "blue"),)),
    ]
    page.sign_in()
    opened = page.go("/throttled")
    expect(opened.get_by_label("Close the connection of elsewhere")).to_have_count(0)
    expect(opened.get_by_label("Raise the limit of tagged")).to_have_count(0)
    opened.get_by_label("Close the connection of greedy").click()
    expect(opened.get_by_role("button", name="Close connection")).to_be_focused()
    opened.get_by_role("button", name="Keep it open").click()
    expect(opened.locator("dialog")).to_have_count(0)
    opened.get_by_label("Close the connection of greedy").click()
    opened.get_by_role("button", name="Close connection").click()
    expect(opened.locator(".toast")).to_contain_text("Closed the connection of greedy.")
    assert broker.connection_rows == []
    opened.get_by_label("Explain greedy").click()
    expect(opened.get_by_label("User")).to_have_value("alice")
    opened.go_back()
    opened.get_by_label("Raise the limit of greedy").click()
    expect(opened.locator("form.editor").get_by_label("Produce")).to_be_focused()
    assert "edit=" not in opened.url


def test_a_viewer_is_offered_no_change_of_a_throttled_client(
    page: Watched, expect: Any, broker: FakeBroker
) -> None:
    broker.throttled_rows = [throttled("greedy")]
    page.sign_in("viewer-token")
    opened = page.go("/throttled")
    expect(opened.get_by_label("Explain greedy")).to_be_visible()
    expect(opened.locator(".actions > *")).to_have_count(1)

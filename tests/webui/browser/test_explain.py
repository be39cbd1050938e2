"""Why a client has the limit that it has, and what another rule would change."""

from typing import Any

import pytest

from broker.controller.rows.quotas import NodeUse
from broker.controller.rows.upstream import GatewaySums, Incomplete
from broker.quotas.entity import Entity
from broker.quotas.remote_use import SensorUse
from tests.webui.browser.conftest import Watched
from tests.webui.fake_resolving import usage
from tests.webui.fakes import IP_KEY, FakeBroker
from tests.webui.rows import connection

FETCH = "consumer_byte_rate"


@pytest.fixture
def ruled(page: Watched, broker: FakeBroker) -> Watched:
    broker.set((("user", "alice"), ("client-id", "app")), {FETCH: 2e6})
    broker.set((("user", "alice"),), {FETCH: 9e6, "request_percentage": 50.0})
    broker.set((("ip", None),), {IP_KEY: 20.0})
    broker.observed = {(("user", "alice"), ("client-id", "app")): {FETCH: 1e6}}
    broker.connection_rows = [connection("app", "alice")]
    page.sign_in("viewer-token")
    return page


def verdict(page: Any, label: str) -> Any:
    return page.locator(".verdict", has=page.get_by_role("heading", name=label, exact=True))


def test_whoever_is_connected_is_a_click_away(ruled: Watched, expect: Any) -> None:
    opened = ruled.go("/explain")
    opened.get_by_role("button", name="app alice, 10.0.0.7").click()
    for words in ("2 MB/s", "1 MB/s now", "50 %", "alice", "app"):
        expect(verdict(opened, "Fetch")).to_contain_text(words)
    expect(verdict(opened, "Produce")).to_contain_text("No limit")
    expect(verdict(opened, "New connections")).to_contain_text("20/s")
    expect(opened).to_have_url(f"{ruled.console.pages}/explain?user=alice&client_id=app&ip=10.0.0.7")


def test_a_limit_at_each_upstream_node_shows_the_use_there(
    ruled: Watched, expect: Any, broker: FakeBroker
) -> None:
    broker.at_nodes[FETCH] = (NodeUse(1, 5e5, 0), NodeUse(2, 3e6, 1_000), NodeUse(-1, 0.0, 0))
    opened = ruled.go("/explain?user=alice&client_id=app")
    nodes = verdict(opened, "Fetch").locator("[data-node]")
    expect(nodes).to_have_count(3)
    expect(nodes.nth(0)).to_have_text("at node 1500 kB/s")
    expect(nodes.nth(1)).to_have_text("at node 23 MB/s, 1\u202f000 ms")
    expect(nodes.nth(2)).to_contain_text("before its node is known")


def test_the_use_at_each_gateway_stands_with_its_share_and_throttles(
    ruled: Watched, expect: Any, broker: FakeBroker
) -> None:
    shares = broker.remote_shares
    broker.throttled_here[FETCH] = [("alice", "app")]
    shares.sums, shares.parts = GatewaySums(2), {"g2-77aa": 0.25}
    shares.uses = [("g2-77aa", SensorUse(FETCH, Entity("alice", "app"), ("alice", "app"), 6e5, 2))]
    shares.not_complete = Incomplete(uses=frozenset({"g3-0000"}))
    opened = ruled.go("/explain?user=alice&client_id=app")
    fetch = verdict(opened, "Fetch")
    gateways = fetch.locator("[data-gateway]")
    expect(gateways).to_have_count(2)
    expect(gateways.nth(0)).to_have_text("this gateway1 MB/s1 connection throttled")
    expect(gateways.nth(1)).to_have_text("gateway g2-77aa600 kB/s of 500 kB/s2 connections throttled")
    expect(fetch).to_contain_text("1.6 MB/s now")
    expect(fetch).to_contain_text("not included: gateway g3-0000")
    expect(verdict(opened, "Produce").locator("[data-gateway]")).to_have_count(0)


def test_one_gateway_alone_is_not_named(ruled: Watched, expect: Any, broker: FakeBroker) -> None:
    broker.remote_shares.sums = GatewaySums(1)
    opened = ruled.go("/explain?user=alice&client_id=app")
    expect(verdict(opened, "Fetch")).to_contain_text("1 MB/s now")
    expect(verdict(opened, "Fetch").locator("[data-gateway]")).to_have_count(0)


def test_the_eight_rules_stand_in_order_with_the_one_that_governs(ruled: Watched, expect: Any) -> None:
    opened = ruled.go("/explain?user=alice&client_id=app")
    rows = opened.locator(".probes tbody tr")
    expect(rows).to_have_count(8)
    expect(rows.nth(0)).to_contain_text("alice")
    expect(rows.nth(0).locator("[data-state=governs]")).to_contain_text("2 MB/s")
    expect(rows.nth(2).locator("[data-state=overridden]")).to_contain_text("9 MB/s")
    expect(rows.nth(2).locator("[data-state=governs]")).to_contain_text("50 %")


def test_a_rule_is_tried_and_nothing_is_changed(ruled: Watched, expect: Any, broker: FakeBroker) -> None:
    opened = ruled.go("/explain?user=alice&client_id=app")
    cell = opened.locator(".probes tbody tr").nth(0).locator("td").nth(1)
    cell.get_by_role("button").click()
    expect(opened.get_by_label("Value")).to_be_focused()
    opened.get_by_label("Value").fill("500 kB")
    expect(verdict(opened, "Fetch")).to_contain_text("Would become")
    expect(verdict(opened, "Fetch")).to_contain_text("500 kB/s")
    expect(verdict(opened, "Fetch")).to_contain_text("throttled for")
    expect(cell).to_have_attribute("data-if", "yes")
    expect(verdict(opened, "Produce")).to_contain_text("No change")
    opened.get_by_label("Value").fill("")
    expect(verdict(opened, "Fetch")).to_contain_text("9 MB/s")
    opened.get_by_role("button", name="Discard").click()
    expect(opened.locator(".if")).to_have_count(0)
    assert broker.applied == [] and broker.rows[(("user", "alice"), ("client-id", "app"))].value(FETCH) == 2e6


def test_a_limit_that_makes_no_sense_stands_beside_its_field(ruled: Watched, expect: Any) -> None:
    opened = ruled.go("/explain?user=alice")
    opened.get_by_label("Value").fill("lots")
    expect(opened.locator("#if-note")).to_contain_text("Enter a number with a unit")
    expect(opened.get_by_label("Value")).to_have_value("lots")


def test_a_rule_that_was_tried_is_taken_to_the_editor(page: Watched, expect: Any, broker: FakeBroker) -> None:
    page.sign_in()
    opened = page.go("/explain?user=alice&client_id=app")
    opened.get_by_label("Value").fill("3 MB")
    opened.get_by_role("link", name="Create this rule").click()
    expect(opened.locator("form.editor").get_by_label("Produce")).to_have_value("3 MB")
    expect(opened.get_by_label("Name of the user")).to_have_value("alice")
    assert broker.rows == {}


def test_what_the_client_does_stands_with_its_limits(ruled: Watched, expect: Any, broker: FakeBroker) -> None:
    broker.connection_rows = [
        *(connection("app", "alice", 1 + number, software_version="2.16.0") for number in range(2)),
        connection("app", "alice", 3, software_version="2.15.0"),
        connection("app2", "alice", 4),
        connection("app", "bob", 5),
    ]
    broker.usage_rows = [usage("alice", "app", 5e6), usage("alice", "app2", 7e6), usage("bob", "app", 9e6)]
    opened = ruled.go("/explain?user=alice&client_id=app")
    facts = opened.locator(".client-facts")
    expect(facts.get_by_role("row")).to_have_count(1 + 3)
    expect(facts).to_contain_text("2.16.0: 2")
    expect(facts).to_contain_text("2.15.0: 1")
    expect(facts).to_contain_text("5 MB/s in")
    expect(facts).to_contain_text("None has asked for subscriptions.")
    expect(facts.get_by_role("link", name="All in Connections")).to_have_attribute(
        "href", "/connections?q=app"
    )
    opened = ruled.go("/explain?user=alice")
    expect(opened.locator(".client-facts").get_by_role("row")).to_have_count(1 + 4)
    expect(opened.locator(".client-facts")).to_contain_text("12 MB/s in")


def test_a_client_that_is_gone_has_its_rules(ruled: Watched, expect: Any) -> None:
    opened = ruled.go("/explain?user=nobody")
    expect(opened.locator(".client-facts")).to_contain_text("It is not connected.")
    expect(opened.get_by_text("Traffic", exact=True)).to_be_hidden()
    expect(verdict(opened, "Produce")).to_be_visible()

"""What holds for every page: it fits on a small phone whatever clients call themselves, it is used without a
pointer, and a table comes back as it was left.
"""

import re
from typing import Any

import pytest

from broker.controller.alerts import AlertCondition, AlertRule
from broker.controller.rows.connections import AddressUse
from broker.security.acl.acl import Operation
from tests.security.acl.acls import allow
from tests.webui.browser.conftest import ServedConsole, Watched, watched
from tests.webui.browser.test_hostile import NAMES
from tests.webui.browser.test_pages import PATHS
from tests.webui.fake_resolving import usage
from tests.webui.fakes import FakeBroker
from tests.webui.rows import connection, group, throttled, topic, transaction
from tests.webui.simulation import Simulation
from webui.pages import KINDS, QUOTA

SMALL_PHONE = {"width": 360, "height": 740}
LONG = "a-name-without-any-end-" * 10
TABS = 16
THINGS = tuple(
    f"{kind.listed}/{'user=' * (kind.noun == QUOTA)}{LONG}{'' if tab.path == '?' else tab.path}"
    for kind in KINDS
    for tab in kind.tabs
)
"""The pages of a topic, a group and a quota."""
OPENED = {
    "/quotas": "Edit user",
    "/broker-quotas": "Edit Produce",
    "/ip-quotas": "Limit an address",
    "/connections": "Close the connection",
    "/topics": "Create a topic",
    "/transactions": "Abort the transaction",
    "/client-metrics": LONG,
    "/audit": "Undo",
    "/access": "New token",
    "/scram-users": "Replace the password",
    "/delegation-tokens": "of User:",
    "/acls": "Delete ALLOW",
    "/settings": "broker.quota.enabled",
    "/alerts": "Edit",
}
"""What is clicked open where there is something to open."""

FOCUS = """() => {
    const focused = document.activeElement;
    if (!focused || focused === document.body) return null;
    const shown = [focused, focused.closest("label"), focused.firstElementChild].filter(Boolean).map(
        each => getComputedStyle(each));
    const box = focused.getBoundingClientRect();
    return {
        what: focused.outerHTML.slice(0, 120),
        same: window.before === (window.before = focused),
        marked: shown.some(style => style.boxShadow !== "none" || style.outlineStyle !== "none"),
        inside: box.width > 0 && box.bottom > 0 && box.top < innerHeight && box.left < innerWidth,
    };
}"""


def crowd(broker: FakeBroker) -> None:
    """As much as the simulation has, and everything called as badly as can be."""
    simulation = Simulation(broker)
    for _ in range(8):
        simulation.step(250)
    names = (LONG, *NAMES)
    broker.connection_rows += [connection(name, name, 100 + at) for at, name in enumerate(names)]
    broker.throttled_rows = [
        throttled(name, connection_id=f"c{at}", principal=name, entity=(("user", name), ("client-id", name)))
        for at, name in enumerate(names)
    ]
    broker.usage_rows = [usage(name, name, 5e6) for name in names]
    broker.set((("user", LONG),), {"producer_byte_rate": 1e6, "request_percentage": 1e3}, by=LONG)
    for name in names:
        broker.set((("user", name), ("client-id", name)), {"producer_byte_rate": 1e6}, by=name)
        broker.add_scram(name or "x")
        broker.add_delegation_token(f"User:{name or 'x'}", f"User:{name}", requester=f"User:{LONG}")
        broker.add_acl(
            allow(Operation.DESCRIBE_CONFIGS, name or "x", principal=f"User:{name or 'x'}", host=name or "x")
        )
        if name.isprintable() and name.strip() == name and 0 < len(name) <= 64:
            broker.add_destination(name)
            broker.add_rule(name, AlertRule(AlertCondition.LAG, 1e18, match=name, destinations=(name,)))
        client = broker.telemetry.join(name, software=name)
        broker.telemetry.say(client, broker.now_ms, **{LONG: 1e12})
    broker.topic_rows = [topic(LONG), *broker.topic_rows]
    broker.transaction_rows = [transaction(name or "x", topic=LONG, client=name) for name in names]
    broker.group_rows = [group(LONG, LONG), *broker.group_rows]
    broker.address_uses = [
        AddressUse("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", 1e6, 10**6, 10**7, 10**8, 10**9, 10**9)
    ]
    broker.configs |= {
        "broker.quota.enabled": "true",
        "broker.quota.produce.bytes": "1e300",
        "broker.quota.white.list.client.id": ",".join(name.replace(",", "") or "x" for name in names),
        "cluster.quota.partition.count": str(2**62),
    }
    broker.broker_use = {"broker.quota.produce.bytes": (1e299, 10**6, 10**9, 10**12)}
    broker.version += 1


@pytest.fixture
def crowded(broker: FakeBroker) -> FakeBroker:
    crowd(broker)
    return broker


def too_wide(page: Any) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth - innerWidth"))


@pytest.mark.parametrize("full", [False, True], ids=["empty", "full"])
def test_no_page_scrolls_sideways_on_a_small_phone(
    browser: Any, served: ServedConsole, broker: FakeBroker, full: bool
) -> None:
    if full:
        crowd(broker)
    aside = {}
    with watched(browser, served, viewport=SMALL_PHONE) as phone:
        phone.sign_in()
        for path in (*PATHS, *THINGS):
            page = phone.go(path)
            page.wait_for_timeout(150)
            aside[path] = too_wide(page)
            if full and path in OPENED:
                page.get_by_role("button", name=re.compile(re.escape(OPENED[path]))).first.click()
                page.wait_for_timeout(150)
                aside[f"{path} opened"] = too_wide(page)
    assert {path: by for path, by in aside.items() if by > 0} == {}


def test_every_page_is_used_without_a_pointer(page: Watched, crowded: FakeBroker) -> None:
    """Each stop is seen, is another one than the one before, and the last is not a trap."""
    page.sign_in()
    lost = []
    for path in (*PATHS, *THINGS):
        opened = page.go(path)
        opened.wait_for_timeout(100)
        opened.keyboard.press("Tab")
        opened.keyboard.press("Enter")
        assert opened.evaluate("document.activeElement.id") == "main", "the first stop skips the menu"
        for _ in range(TABS):
            opened.keyboard.press("Tab")
            stop = opened.evaluate(FOCUS)
            if stop is None:
                break
            if stop["same"] or not stop["marked"] or not stop["inside"]:
                lost.append((path, stop))
    assert lost == []


@pytest.mark.parametrize(
    ("path", "head", "sort", "shape", "search"),
    [
        ("/connections", "Requests", "requests", "plain", "reporting"),
        ("/ip-quotas", "Open now", "connections", "connected", "10.0"),
        ("/topics", "Size", "size", "all", "orders"),
        ("/groups", "Lag (records)", "lag", "behind", "reporting"),
        ("/client-metrics", "Pushes", "pushes", "pushing", "orders"),
    ],
)
def test_a_table_comes_back_as_it_was_left(
    page: Watched, expect: Any, broker: FakeBroker, path: str, head: str, sort: str, shape: str, search: str
) -> None:
    simulation = Simulation(broker)
    simulation.step(250)
    broker.telemetry.say(broker.telemetry.join("orders-1"), broker.now_ms, queue=1.0)
    page.sign_in()
    opened = page.go(path)
    rows = opened.locator("#table tbody tr")
    opened.locator("#table").get_by_role("button", name=head, exact=True).click()
    opened.locator("#shape").select_option(shape)
    opened.keyboard.press("Escape")
    opened.locator("#filter").fill(search)
    expect(opened).to_have_url(
        re.compile(rf"\?q={re.escape(search)}&shape={shape}&sort={sort}(&order=desc)?$")
    )
    expect(rows.first).to_contain_text(search)
    opened.reload()
    expect(opened.locator("#filter")).to_have_value(search)
    expect(opened.locator("#shape")).to_have_value(shape)
    expect(opened.locator("#table th[aria-sort=descending]")).to_contain_text(head)
    expect(rows.first).to_contain_text(search)
    opened.locator("#filter").fill("nobody at all")
    opened.get_by_role("button", name="Show all").click()
    expect(rows.first).to_be_visible()

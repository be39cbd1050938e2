"""Nothing moves while values change: the browser's own measure of layout shifts stays at 0 on live pages."""

import re
from collections.abc import Callable
from typing import Any, Final

import pytest

from broker.controller.commands import EntityPairs
from broker.controller.rows.alerts import AlertEvent, AlertRow
from broker.controller.rows.connections import ConnectionLimitRow
from tests.webui.browser.conftest import Watched
from tests.webui.fakes import FakeBroker
from tests.webui.rows import broker_metrics, connection, group, throttled, use

PRODUCE: Final = "producer_byte_rate"
FETCH: Final = "consumer_byte_rate"
SHIFTS: Final = """() => {
    window.shifts = [];
    new PerformanceObserver((list) => {
        for (const { value, sources } of list.getEntries())
            window.shifts.push([value, sources.map(({ node }) => node?.outerHTML ?? node?.data)]);
    }).observe({ type: "layout-shift" });
}"""


def app(index: int) -> EntityPairs:
    return (("client-id", f"app-{index}"),)


def change_quotas(broker: FakeBroker, turn: int) -> str:
    """Client 0 is throttled at every other turn, client 1 is idle at every third."""
    uses = {0: 900_000.0 + turn * 1_111_111, 1: 0.0 if turn % 3 == 0 else 12_345_678.0}
    broker.observed = {app(index): {PRODUCE: use, FETCH: use / 2} for index, use in uses.items() if use}
    broker.throttled_rows = [throttled("app-0", entity=app(0), times=turn)] * (turn % 2 * 12)
    return f"{(900 + turn * 1_111.1) / 10:.0f} %"


def change_connections(broker: FakeBroker, turn: int) -> str:
    states = ("not_muted", "muted", "muted_and_throttled_and_response_pending", "muted_for_memory")
    requests = 999 * 10**turn
    broker.connection_rows = [
        connection(f"app-{index}", "alice", index, requests=requests, mute_state=states[(turn + index) % 4])
        for index in range(4)
    ]
    return f"{requests:,}".replace(",", "\u202f")


def change_throttled(broker: FakeBroker, turn: int) -> str:
    broker.throttled_rows = [
        throttled(
            f"app-{index}",
            connection_id=str(index),
            entity=app(index),
            times=10**turn,
            remaining_ms=10**turn,
            throttle_ms=10**turn,
        )
        for index in range(4)
    ]
    return f"{10**turn:,}".replace(",", "\u202f")


def change_addresses(broker: FakeBroker, turn: int) -> str:
    rate = 1.5 * 10**turn
    broker.address_uses = [use(f"10.0.0.{index}", rate, throttled=turn % 2 * 3) for index in range(4)]
    return f"{rate:,.15g}/s".replace(",", "\u202f")


def change_groups(broker: FakeBroker, turn: int) -> str:
    lag = 10**turn
    broker.group_rows = [group(f"readers-{index}", *"abc"[: turn % 4], lag=lag) for index in range(4)]
    return f"{lag * (turn % 4):,}".replace(",", "\u202f")


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("/quotas", change_quotas),
        ("/connections", change_connections),
        ("/throttled", change_throttled),
        ("/ip-quotas", change_addresses),
        ("/groups", change_groups),
    ],
)
def test_nothing_moves_while_values_change(
    page: Watched, expect: Any, broker: FakeBroker, path: str, change: Callable[[FakeBroker, int], str]
) -> None:
    for index in range(4):
        broker.set(app(index), {PRODUCE: 1e6, FETCH: 5e6})
    change(broker, 0)
    page.sign_in()
    opened = page.go(path)
    expect(opened.locator("#table tbody tr")).to_have_count(4)
    opened.evaluate(SHIFTS)
    for turn in range(1, 6):
        shown = change(broker, turn)
        expect(opened.locator("#table tbody tr", has_text=shown).first).to_be_visible()
    assert opened.evaluate("() => window.shifts") == []


def test_rows_keep_their_places_until_they_are_sorted_again(
    page: Watched, expect: Any, broker: FakeBroker
) -> None:
    def show(**lags: int) -> None:
        broker.group_rows = [group(name, "a", lag=lag) for name, lag in lags.items()]

    show(one=30, two=20, three=10)
    page.sign_in()
    opened = page.go("/groups")
    names = opened.locator("#table tbody tr a.name")
    expect(names).to_have_text(["one", "two", "three"])
    again = opened.get_by_role("button", name="Sort again")
    expect(again).to_be_hidden()
    opened.evaluate(SHIFTS)
    show(one=30, two=99, three=40)
    expect(opened.locator("#table tbody tr", has_text="99")).to_be_visible()
    expect(names).to_have_text(["one", "two", "three"])
    expect(again).to_have_attribute(
        "title", re.compile("Values have changed since the rows were sorted, at ")
    )
    show(one=30, four=50, three=40)  # a new row takes the place of one that went
    expect(names).to_have_text(["one", "four", "three"])
    assert opened.evaluate("() => window.shifts") == []
    again.click()
    expect(names).to_have_text(["four", "three", "one"])
    expect(again).to_be_hidden()
    opened.locator("th").get_by_role("button", name="Lag").first.click()
    show(one=60, four=50, three=40)
    expect(again).to_be_visible()
    opened.locator("th").get_by_role("button", name="Lag").first.click()  # sorts, and does not turn the order
    expect(names).to_have_text(["one", "four", "three"])


def test_throttled_rows_say_that_their_order_is_old(page: Watched, expect: Any, broker: FakeBroker) -> None:
    def show(**times: int) -> None:
        broker.throttled_rows = [
            throttled(name, connection_id=name, times=each) for name, each in times.items()
        ]

    show(one=30, two=20)
    page.sign_in()
    opened = page.go("/throttled")
    names, again = opened.locator("#table tbody tr a.name"), opened.get_by_role("button", name="Sort again")
    expect(names).to_have_text(["one", "two"])
    expect(again).to_be_hidden()
    show(one=30, two=40)
    expect(again).to_be_visible()
    expect(names).to_have_text(["one", "two"])
    again.click()
    expect(names).to_have_text(["two", "one"])
    expect(again).to_be_hidden()


def firing(*groups: str) -> list[AlertRow]:
    return [
        AlertRow("lag", "critical", "lag", (("group", name),), "firing", 5_000.0, 1_000.0, 1, 1)
        for name in groups
    ]


def test_alerts_that_begin_and_end_move_nothing(page: Watched, expect: Any, broker: FakeBroker) -> None:
    def happened(number: int) -> AlertEvent:
        return AlertEvent(number, 1, "firing", "lag", "critical", (("group", f"of {number}"),), 5_000.0)

    broker.alerts.rows, broker.alerts.events = firing("one", "two"), [happened(1)]
    page.sign_in()
    opened = page.go("/alerts")
    rows, events = opened.locator("#active tbody tr"), opened.locator("#history tbody tr")
    expect(rows).to_have_count(2)
    opened.evaluate(SHIFTS)
    for names in (("two",), ("two", "three"), (), ("four", "five", "six")):
        broker.alerts.rows = firing(*names)
        broker.alerts.events.append(happened(len(broker.alerts.events) + 1))
        expect(rows.filter(has_text="critical")).to_have_count(len(names))
        for name in names:
            expect(rows.filter(has_text=name)).to_have_count(1)
    expect(events).to_have_count(1)  # what came since waits for the reader
    assert opened.evaluate("() => window.shifts") == []
    opened.get_by_role("button", name="Show 4 new events").click()
    expect(events).to_have_count(5)
    expect(events.first).to_contain_text("of 5")
    expect(opened.get_by_role("button", name="new event")).to_have_count(0)


def test_a_verdict_of_two_lines_moves_nothing(page: Watched, expect: Any, broker: FakeBroker) -> None:
    page.sign_in()
    opened = page.go("/doctor")
    opened.set_viewport_size({"width": 900, "height": 800})
    expect(opened.locator("#verdict")).to_contain_text("No problem found.")
    cards = opened.locator("#symptoms")
    before = cards.bounding_box()["y"]
    broker.now = broker_metrics(
        acceptor_blocked=0.9, processor_idle=0.05, handler_idle=0.05, offline_partitions=3
    )
    rejected = (("max.connections.per.ip", 7),)
    broker.limit_rows = [ConnectionLimitRow("", 96, 100, 1.0, None, rejected)]
    expect(opened.locator("#verdict a")).to_have_count(4)
    line = "each => parseFloat(getComputedStyle(each).lineHeight)"
    height = """each => {
        const text = document.createRange();
        text.selectNodeContents(each);
        return text.getBoundingClientRect().height;
    }"""
    verdict = opened.locator("#verdict")
    assert verdict.evaluate(height) > 1.5 * verdict.evaluate(line), "it has two lines"
    assert cards.bounding_box()["y"] == before


def test_a_released_connection_stays_as_it_stands(page: Watched, expect: Any, broker: FakeBroker) -> None:
    broker.throttled_rows = [throttled("app", connection_id="1", throttle_ms=809, remaining_ms=809)]
    page.sign_in()
    opened = page.go("/throttled")
    row = opened.locator("#table tbody tr", has_text="app")
    expect(row).to_have_attribute("data-free", "no")
    opened.evaluate(SHIFTS)
    broker.throttled_rows = []
    expect(row).to_have_attribute("data-free", "yes")
    opened.evaluate("() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    assert opened.evaluate("() => window.shifts") == []


def test_an_empty_place_stays_where_it_is(page: Watched, expect: Any, broker: FakeBroker) -> None:
    def show(*names: str) -> None:
        broker.throttled_rows = [throttled(name, connection_id=name) for name in names]

    show("one", "two", "three")
    page.sign_in()
    opened = page.go("/throttled")
    expect(opened.locator("#table tbody tr")).to_have_count(3)
    show("two", "three")
    blank = opened.locator("#table tbody tr.blank")
    expect(blank).to_have_count(1)
    opened.evaluate(SHIFTS)
    show("two", "three", "four")  # takes the place of one
    expect(blank).to_have_count(0)
    show("three", "four")
    expect(blank).to_have_count(1)
    assert opened.evaluate("() => window.shifts") == []


def test_a_throttle_that_begins_moves_nothing_in_explain(
    page: Watched, expect: Any, broker: FakeBroker
) -> None:
    rule = app(0)
    broker.set(rule, {PRODUCE: 1e6})
    broker.observed = {rule: {PRODUCE: 500_000.0}}
    page.sign_in()
    opened = page.go("/explain?client_id=app-0")
    expect(opened.locator(".verdicts")).to_contain_text("50 %")
    expect(opened.locator(".client-facts")).to_contain_text("It is not connected.")
    opened.evaluate(SHIFTS)
    broker.observed = {rule: {PRODUCE: 2_000_000.0}}
    expect(opened.locator(".verdicts")).to_contain_text("throttled for")
    broker.observed = {}
    expect(opened.locator(".verdicts")).to_contain_text("not in use")
    assert opened.evaluate("() => window.shifts") == []

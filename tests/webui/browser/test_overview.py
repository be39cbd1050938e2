"""The overview: one screen, one sentence of status, and what needs attention with the way to it."""

from typing import Any

import pytest

from broker.common.slices import Steps
from broker.controller.alerts import AlertCondition, AlertRule, Severity
from broker.controller.rows.broker import DiskRow
from tests.webui.browser.conftest import PHONE, ServedConsole, Watched, watched
from tests.webui.fakes import FakeBroker
from tests.webui.rows import group, throttled
from tests.webui.simulation import Simulation
from webui.live.lag_history import LagHistory

SCREEN = {"width": 1440, "height": 900}
STEP_MS = 10_000


def fill(broker: FakeBroker) -> None:
    """As much as the page can show."""
    simulation = Simulation(broker)
    for _ in range(8):
        simulation.step(250)
    name = "a-name-without-any-end-" * 10
    broker.throttled_rows = [
        throttled(f"{name}{at}", connection_id=str(at), entity=(("user", name),)) for at in range(30)
    ]
    for at in range(4):
        broker.add_rule(f"rule {at}", AlertRule(AlertCondition.LAG, 1.0, severity=Severity.CRITICAL))
        broker.alerts.counts[f"rule {at}"] = (0, at + 1, 0, 9.0)
    broker.disk_rows = [DiskRow(f"/{name}{at}", 10**12, 5 * 10**9, 0.99) for at in range(3)]


@pytest.mark.parametrize("density", ["", "comfortable"])
def test_the_overview_is_one_screen(
    browser: Any, served: ServedConsole, broker: FakeBroker, expect: Any, density: str
) -> None:
    fill(broker)
    with watched(browser, served, viewport=SCREEN) as wide:
        wide.sign_in()
        wide.page.add_init_script(f"localStorage.setItem('weir-density', '{density}')")
        opened = wide.go("/")
        expect(opened.locator("#attention li")).to_have_count(8)
        expect(opened.locator("#disks .gauge")).to_have_count(2)
        sizes = opened.evaluate(
            "[document.documentElement.scrollHeight, document.documentElement.scrollWidth]"
        )
        assert sizes[0] <= SCREEN["height"] and sizes[1] <= SCREEN["width"]
        board = opened.locator(".board").bounding_box()
        assert board is not None and board["y"] + board["height"] <= SCREEN["height"]
        for row in opened.locator("#attention li").all():
            place = row.bounding_box()
            assert place is not None and place["height"] == 44
            assert place["y"] + place["height"] <= SCREEN["height"]


def test_the_sentence_says_how_much_of_what_and_leads_there(
    page: Watched, expect: Any, broker: FakeBroker
) -> None:
    page.sign_in()
    opened = page.go("/")
    status = opened.locator("#status")
    expect(status).to_have_text("Nothing needs attention.")
    broker.throttled_rows = [throttled(connection_id=str(at)) for at in range(5)]
    for name, firing in (("a", 1), ("b", 1)):
        broker.add_rule(name, AlertRule(AlertCondition.LAG, 1.0))
        broker.alerts.counts[name] = (0, firing, 0, 9.0)
    broker.disk_rows = [DiskRow("/d", 100, 10, 0.9), DiskRow("/e", 100, 15, 0.85)]
    expect(status).to_have_text("5 connections throttled, 2 alerts firing, 1 disk nearly full.")
    links = [link.get_attribute("href") for link in status.locator("a").all()]
    assert links == ["/throttled", "/alerts", "/doctor"]
    broker.throttled_rows = broker.throttled_rows[:1]
    broker.alerts.counts = {}
    broker.disk_rows = []
    broker.version += 1
    expect(status).to_have_text("1 connection throttled.")


@pytest.mark.parametrize(("used", "listed"), [(0.8, False), (0.801, True)])
def test_a_limit_that_is_nearly_used_up_is_listed(
    page: Watched, expect: Any, broker: FakeBroker, used: float, listed: bool
) -> None:
    entity = (("client-id", "app"),)
    broker.set(entity, {"producer_byte_rate": 1e6})
    broker.observed = {entity: {"producer_byte_rate": 1e6 * used}}
    page.sign_in()
    opened = page.go("/")
    expect(opened.locator("#status")).to_contain_text("1 limit nearly used up" if listed else "Nothing needs")
    row = opened.locator("#attention li", has_text="client id app")
    expect(row).to_have_count(int(listed))
    if listed:
        expect(row).to_contain_text("80 %")
        row.locator("a").click()
        expect(opened).to_have_title("client id app · Weir")


def test_a_rule_that_needs_attention_is_not_cut(page: Watched, expect: Any, broker: FakeBroker) -> None:
    entity = (("user", "analytics"), ("client-id", "nightly-exports"))
    broker.set(entity, {"producer_byte_rate": 40 * 2**20})
    broker.observed = {entity: {"producer_byte_rate": 39.9 * 2**20}}
    page.sign_in()
    opened = page.go("/")  # 1280 pixels wide
    name = opened.locator("#attention li .name", has_text="user analytics, client id nightly-exports")
    expect(name).to_be_visible()
    assert name.evaluate("each => each.scrollWidth <= each.clientWidth")
    below = opened.locator("#attention li .below")
    expect(below).to_contain_text("Produce 39.9 MiB/s / 40 MiB/s")
    assert below.evaluate("each => each.scrollWidth <= each.clientWidth")


def test_a_group_that_falls_behind_is_listed(
    page: Watched, expect: Any, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def behind(_self: LagHistory) -> Steps[list[tuple[str, int, float]]]:
        yield
        return [("reports", 12_345, 41.5)]

    monkeypatch.setattr(LagHistory, "falling_behind", behind)
    broker.group_rows = [group("reports", "a", lag=12_345)]
    page.sign_in()
    opened = page.go("/")
    expect(opened.locator("#status")).to_have_text("1 group falling behind.")
    row = opened.locator("#attention li", has_text="reports")
    expect(row).to_contain_text("12\u202f345 records, +41.5/s")
    row.locator("a").click()
    expect(opened.locator("#table tbody tr", has_text="reports")).to_be_visible()


def test_the_overview_is_read_on_a_phone(
    browser: Any, served: ServedConsole, broker: FakeBroker, expect: Any
) -> None:
    fill(broker)
    with watched(browser, served, viewport=PHONE) as phone:
        phone.sign_in()
        opened = phone.go("/")
        expect(opened.locator("#attention li")).to_have_count(8)
        assert opened.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        for label in opened.locator("#throughput text.axis").all():
            place = label.bounding_box()
            assert place is not None and place["x"] >= 0
            assert place["x"] + place["width"] <= PHONE["width"]


def test_phases_and_queues_are_with_health(page: Watched, expect: Any, broker: FakeBroker) -> None:
    Simulation(broker).step(250)
    page.sign_in()
    opened = page.go("/requests")
    expect(opened.get_by_role("navigation", name="Tabs").locator("[aria-current]")).to_have_text("Requests")
    expect(opened.locator("#phases")).to_contain_text("Produce")
    expect(opened.locator("#queues")).to_contain_text("Requests")
    expect(opened.locator("#health")).to_contain_text("Network threads idle")
    expect(opened.locator("#health")).to_contain_text("Request handlers idle")

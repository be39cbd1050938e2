"""Insights in a browser: the tables, and the messages without tables."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.webui.browser.conftest import DESK, PHONE, ServedConsole, Watched, watched
from tests.webui.fakes import FakeBroker, FakeSettings
from tests.webui.insights.full import DAY, fill
from tests.webui.insights.warehouse import deltalake
from webui.insights.reader import STATE_FRESH_S

PAGE = f"/insights?days=1&to={DAY}"


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    fill(tmp_path)
    return tmp_path


@pytest.fixture
def served(warehouse: Path, broker: FakeBroker) -> Iterator[ServedConsole]:
    with ServedConsole(broker, FakeSettings(insights_warehouse=str(warehouse))) as served:
        yield served


def log_of(warehouse: Path, table: str) -> Path:
    return warehouse / "gold" / table / "_delta_log" / "00000000000000000000.json"


@pytest.fixture
def insights(page: Watched) -> Any:
    page.sign_in()
    return page.go(PAGE)


def test_each_card_says_what_its_table_says(insights: Any, expect: Any) -> None:
    for card, words in {
        "usage": ("alice", "9 MB", "bob", "scripts"),
        "throttling": ("alice", "produce", "4.5 s", "2 s"),
        "latency": ("Fetch", "Produce", "0.4 ms"),
        "advice": ("100 kB/s", "In 95% of 60 active minutes", "1.7 %", "never"),
        "utilisation": ("alice, a", "100 %", "2 of 2 min"),
        "throttle-compliance": ("librdkafka 2.16.1", "no", "unknown", "unknown"),
        "offenders": ("alice", "9 MB", "90 %"),
        "client-metrics": ("request.latency.avg", "gauge", "7"),
        "storms": ("10.0.0.9", "250", "PLAINTEXT"),
        "names": ("reports", "alice, bob"),
        "lost": ("__weir_requests", "4L6g3nShT-eMCtK--X86sw", "12\u202f000"),
    }.items():
        for word in words:
            expect(insights.locator(f"#{card}")).to_contain_text(word)
    expect(insights.locator("#freshness")).to_contain_text("25 rows")
    expect(insights.locator("#usage-chart svg")).to_have_attribute(
        "aria-valuetext", re.compile("Produced 3 MB")
    )


def test_a_tenant_that_is_clicked_is_shown_alone_and_kept_in_the_address(insights: Any, expect: Any) -> None:
    insights.locator("#usage").get_by_role("button", name="alice").click()
    expect(insights.locator("#usage tbody tr")).to_have_count(2)
    expect(insights.locator("#only button")).to_be_focused()
    assert parse_qs(urlsplit(insights.url).query)["user"] == ["alice"]
    insights.reload()
    expect(insights.locator("#usage tbody tr")).to_have_count(2)
    insights.get_by_role("button", name="Stop filtering by user alice").click()
    expect(insights.locator("#usage tbody tr")).to_have_count(3)


def test_advice_opens_the_editor_with_it_typed_in_and_nothing_saved(
    insights: Any, expect: Any, broker: FakeBroker
) -> None:
    insights.get_by_role("link", name="Set Produce of user alice").click()
    expect(insights.locator(".editor")).to_be_visible()
    expect(insights.locator(".editor input[type=text]").first).to_have_value("alice")
    expect(insights.locator(".editor")).to_contain_text("producer_byte_rate=100000")
    assert not broker.rows


def test_all_advice_is_a_quota_file(insights: Any, expect: Any) -> None:
    with insights.expect_download() as waiting:
        insights.get_by_role("button", name="Download advice.json").click()
    assert json.loads(Path(waiting.value.path()).read_text()) == {
        "quotas": [
            {"entity": {"user": "alice"}, "limits": {"producer_byte_rate": 100000}},
            {"entity": {"client-id": "scripts"}, "limits": {"request_percentage": 0.63}},
        ]
    }
    expect(insights.locator(".what-if pre")).to_contain_text(
        f"what-if advice.json --from {DAY} --warehouse /"
    )


def test_a_day_is_played_with_the_advice_and_without(insights: Any, expect: Any, broker: FakeBroker) -> None:
    played = insights.locator(".what-if")
    played.get_by_role("button", name=f"Simulate {DAY}").click()
    expect(played.get_by_role("status")).to_contain_text(
        "Of 1 client in 2 min, none would be throttled by the current rules, and 1 with the recommendations."
    )
    row = played.locator("tbody tr")
    expect(row).to_have_count(1)
    for words in ("alice", "Produce", "none", "never", "100 kB/s", "94.9 %"):
        expect(row).to_contain_text(words)
    expect(played).to_contain_text("Not simulated: request_percentage of client-id scripts")
    assert not broker.rows


def test_a_day_that_cannot_be_played_says_why(insights: Any, expect: Any, warehouse: Path) -> None:
    shutil.rmtree(warehouse / "bronze")
    button = insights.get_by_role("button", name=f"Simulate {DAY}")
    button.click()
    expect(insights.locator(".what-if [role=alert]")).to_have_text("There is no table bronze/events yet.")
    expect(button).to_be_enabled()


def test_other_days_and_another_order_are_asked_for(insights: Any, expect: Any) -> None:
    rows = insights.locator("#usage tbody tr")
    expect(rows.first).to_contain_text("alice")
    insights.locator("#usage").get_by_role("button", name="Fetched").click()
    expect(rows.first).to_contain_text("bob")
    insights.get_by_label("Last day").fill("2026-01-09")
    expect(insights.locator("#usage")).to_contain_text("No client was active on these days")
    insights.get_by_role("button", name="7 days").click()
    expect(insights.locator("#range")).to_have_text("2026-01-03 to 2026-01-09, in UTC")


def test_an_unreadable_table_is_reported_and_others_are_shown(
    page: Watched, expect: Any, warehouse: Path
) -> None:
    shutil.rmtree(warehouse / "gold" / "connection_storms")
    log_of(warehouse, "quota_advice").write_bytes(b"{")
    page.sign_in()
    insights = page.go(PAGE)
    expect(insights.locator("#state")).to_contain_text("The log of the table quota_advice cannot be read")
    expect(insights.locator("#advice")).to_contain_text("cannot be read")
    expect(insights.locator("#storms")).to_contain_text("No connections recorded yet")
    expect(insights.locator("#usage")).to_contain_text("alice")


def test_without_usage_nothing_can_be_told(page: Watched, expect: Any, warehouse: Path) -> None:
    log_of(warehouse, "usage_per_minute").write_bytes(b"{")
    page.sign_in()
    insights = page.go(PAGE)
    expect(insights.locator("#state")).to_contain_text("The log of the table usage_per_minute cannot be read")
    expect(insights.locator("#tables")).to_be_hidden()


def test_without_tables_it_says_what_fills_them(page: Watched, expect: Any, warehouse: Path) -> None:
    shutil.rmtree(warehouse / "gold")
    page.sign_in()
    insights = page.go("/insights")
    expect(insights.locator("#state pre")).to_have_text(
        f"weir pipeline run --continuous --bootstrap 127.0.0.1:9092 --warehouse {warehouse}"
    )
    fill(warehouse)
    insights.wait_for_timeout(STATE_FRESH_S * 1_000)
    insights.get_by_role("button", name="Check again").click()
    expect(insights.locator("#usage")).to_be_visible()


def test_tables_that_are_old_are_reported_to_be(page: Watched, expect: Any, warehouse: Path) -> None:
    log = log_of(warehouse, "usage_per_minute")
    written_ms = deltalake.DeltaTable(log.parents[1]).history()[0]["timestamp"]
    log.write_text(log.read_text().replace(str(written_ms), str(written_ms - 2 * 86_400_000)))
    page.sign_in()
    insights = page.go(PAGE)
    expect(insights.locator("#state .notice")).to_contain_text("Check that the pipeline is running.")
    expect(insights.locator("#usage")).to_contain_text("alice")


@pytest.mark.parametrize(("scheme", "size"), [("light", DESK), ("dark", PHONE)])
def test_axe_finds_nothing_on_a_full_page(
    browser: Any, served: ServedConsole, expect: Any, scheme: str, size: dict[str, int]
) -> None:
    axe: Any = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe")
    with watched(browser, served, color_scheme=scheme, viewport=size, reduced_motion="reduce") as opened:
        opened.sign_in()
        page = opened.go(PAGE)
        expect(page.locator("#names")).to_contain_text("reports")
        expect(page.locator("#latency-choices select")).to_have_count(2)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        found = axe.Axe().run(page).response["violations"]
        assert [(each["id"], [node["html"][:160] for node in each["nodes"]]) for each in found] == []

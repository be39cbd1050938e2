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
from tests.webui.fakes import FakeBroker, console_config
from tests.webui.insights.full import DAY, fill
from tests.webui.insights.warehouse import deltalake, usage, write
from webui.insights.reader import STATE_FRESH_S

PAGE = f"/insights?days=1&to={DAY}"
VIEWS = {
    "Usage": "usage",
    "Cost": "cost",
    "Quotas": "quotas",
    "Advice": "advice",
    "What if": "proposal",
    "Throttling": "throttling",
    "Latency": "latency",
    "Clients": "clients",
    "Data": "data",
}
PRICES: dict[str, Any] = {
    "price_per_gb_produced": 100.0,
    "price_per_gb_fetched": 200.0,
    "price_currency": "EUR",
}


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    fill(tmp_path)
    return tmp_path


@pytest.fixture
def served(warehouse: Path, broker: FakeBroker) -> Iterator[ServedConsole]:
    with ServedConsole(broker, console_config(insights_warehouse=str(warehouse), **PRICES)) as served:
        yield served


def log_of(warehouse: Path, table: str) -> Path:
    return warehouse / "gold" / table / "_delta_log" / "00000000000000000000.json"


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedConsole]:
    """For tests that only read: its worker, which reads the tables, is started once."""
    warehouse = tmp_path_factory.mktemp("warehouse")
    fill(warehouse)
    with ServedConsole(FakeBroker(), console_config(insights_warehouse=str(warehouse), **PRICES)) as served:
        yield served


@pytest.fixture
def reader(browser: Any, read: ServedConsole) -> Iterator[Watched]:
    with watched(browser, read) as opened:
        opened.sign_in()
        yield opened


@pytest.fixture
def insights(reader: Watched) -> Any:
    return reader.go(PAGE)


def go_to(insights: Any, view: str) -> Any:
    """Open a view, and return its panel."""
    insights.get_by_role("tab", name=view, exact=True).click()
    return insights.get_by_role("tabpanel", name=view, exact=True)


CARDS = {
    "Usage": {"usage": ("alice", "9 MB", "bob", "scripts"), "offenders": ("alice", "9 MB", "90 %")},
    "Cost": {"cost": ("alice", "9 MB", "0.9 EUR", "100 EUR produced", "33.3 %")},
    "Quotas": {
        "needs": ("alice", "scripts", "80 kB/s", "0.5 %", "none"),
        "utilisation": ("alice, a", "100 %", "2 of 2 min"),
    },
    "Advice": {"advice": ("100 kB/s", "would have throttled", "0.4 %", "never", "unknown", "97 %")},
    "Throttling": {
        "throttling": ("alice", "produce", "4.5 s", "2 s"),
        "throttle-compliance": ("librdkafka 2.16.1", "no", "unknown", "yes", "100 %"),
    },
    "Latency": {
        "latency": ("Fetch", "Produce", "0.4 ms"),
        "software": ("apache-kafka-java 4.1.1", "1.4 ms", "several versions", "unknown"),
    },
    "Clients": {
        "storms": ("10.0.0.9", "250", "PLAINTEXT"),
        "names": ("reports", "alice, bob"),
        "client-metrics": ("request.latency.avg", "gauge", "7"),
    },
    "Data": {
        "lost": ("__weir_requests", "4L6g3nShT-eMCtK--X86sw", "12\u202f000"),
        "written": ("usage_per_minute", "quota_advice", "latency_by_software_per_day"),
    },
}


def test_each_card_says_what_its_table_says(insights: Any, expect: Any) -> None:
    for view, cards in CARDS.items():
        panel = go_to(insights, view)
        expect(panel).to_be_visible()
        assert parse_qs(urlsplit(insights.url).query).get("view", ["usage"]) == [VIEWS[view]]
        for card, words in cards.items():
            for word in words:
                expect(panel.locator(f"#{card}")).to_contain_text(word)
        assert insights.evaluate("document.documentElement.scrollHeight") < 3 * DESK["height"], view
    expect(insights.locator("#freshness")).to_contain_text("31 rows")
    go_to(insights, "Usage")
    expect(insights.locator("#usage-chart svg")).to_have_attribute(
        "aria-valuetext", re.compile("Produced 3 MB")
    )


def test_the_view_is_in_the_address_and_the_arrows_move_among_views(insights: Any, expect: Any) -> None:
    tab = insights.get_by_role("tab", name="Usage", exact=True)
    tab.focus()
    for key, view in (
        ("ArrowRight", "Cost"),
        ("End", "Data"),
        ("ArrowRight", "Usage"),
        ("ArrowLeft", "Data"),
    ):
        insights.keyboard.press(key)
        expect(insights.get_by_role("tab", name=view, exact=True)).to_be_focused()
        expect(insights.get_by_role("tabpanel")).to_have_count(1)
    insights.reload()
    expect(insights.get_by_role("tabpanel", name="Data", exact=True)).to_be_visible()


def test_tables_are_searched_and_sorted_and_the_address_says_so(insights: Any, expect: Any) -> None:
    rows = insights.locator("#usage tbody tr")
    expect(rows).to_have_count(3)
    insights.locator("#usage").get_by_role("button", name="Tenant").click()
    expect(rows.first).to_contain_text("scripts")
    expect(insights.locator("#usage th", has_text="Tenant")).to_have_attribute("aria-sort", "ascending")
    expect(insights.locator("#usage").get_by_role("button", name="Tenant")).to_be_focused()
    insights.locator("#usage").get_by_role("button", name="Tenant").click()
    expect(rows.first).to_contain_text("bob")
    insights.keyboard.press("/")
    insights.keyboard.type("ALI")
    expect(rows).to_have_count(1)
    query = parse_qs(urlsplit(insights.url).query)
    assert (query["usage-sort"], query["q"]) == (["user.desc"], ["ALI"])
    insights.reload()
    expect(rows).to_have_count(1)
    insights.get_by_label("Search").fill("nobody at all")
    expect(insights.locator("#usage")).to_contain_text("No row contains the searched text.")


def test_ten_rows_are_shown_and_more_on_demand(page: Watched, expect: Any, warehouse: Path) -> None:
    tenants = [f"tenant {number:02}" for number in range(11)]
    write(warehouse, "usage_per_minute", [usage(f"{DAY} 10:00", each, "c", 1_000) for each in tenants])
    page.sign_in()
    insights = page.go(f"{PAGE}&q=tenant")
    rows, more = insights.locator("#usage tbody tr"), insights.get_by_role("button", name="More of Usage")
    expect(rows).to_have_count(10)
    more.click()
    expect(rows).to_have_count(11)
    expect(more).to_be_hidden()
    insights.get_by_label("Search").fill("tenant 0")
    expect(rows).to_have_count(10)
    expect(more).to_be_hidden()


def test_the_clusters_of_the_tables_can_be_chosen(page: Watched, expect: Any, warehouse: Path) -> None:
    figures = (DAY, "carol", "c", "requests", 5, 2, 0.1)
    write(warehouse, "top_offenders_per_day", [(*figures, "cluster-x"), (*figures, "cluster-y")])
    write(warehouse, "usage_per_minute", [(*usage(f"{DAY} 10:00", "carol", "c", 1_000), "cluster-x")])
    page.sign_in()
    insights = page.go(PAGE)
    cluster = insights.get_by_label("Cluster")
    expect(cluster.locator("option")).to_have_text(
        ["All clusters", "cluster-x", "cluster-y", "Without a cluster id"]
    )
    expect(insights.locator("#usage tbody tr")).to_have_count(4)
    expect(insights.locator("#offenders")).to_contain_text("cluster-y")
    go_to(insights, "Advice")
    expect(insights.locator("#advice")).to_contain_text("Choose a cluster to simulate its recommendations")
    go_to(insights, "Usage")
    cluster.select_option("cluster-x")
    expect(insights.locator("#usage tbody tr")).to_have_count(1)
    expect(insights.locator("#offenders tbody tr")).to_have_count(1)
    expect(insights.locator("#offenders")).not_to_contain_text("cluster-x")
    insights.reload()
    expect(insights.locator("#usage tbody tr")).to_have_count(1)
    cluster.select_option("Without a cluster id")
    expect(insights.locator("#usage tbody tr")).to_have_count(3)
    assert parse_qs(urlsplit(insights.url).query, keep_blank_values=True)["cluster"] == [""]


def test_without_several_clusters_there_is_no_choice(insights: Any, expect: Any) -> None:
    expect(insights.locator("#usage tbody tr")).to_have_count(3)
    expect(insights.get_by_label("Cluster")).to_be_hidden()


def test_needs_are_drawn_beside_the_present_limit(page: Watched, expect: Any, broker: FakeBroker) -> None:
    page.sign_in()
    insights = page.go(f"/insights?view=quotas&days=7&to={DAY}")
    drawing = insights.locator("#needs-chart svg")
    expect(insights.locator("#needs-of")).to_have_text("Produce of user alice")
    expect(drawing).to_have_attribute("aria-valuetext", re.compile("Needed 80 kB/s, Peak 100 kB/s"))
    expect(insights.locator("#needs tbody tr").first).to_contain_text("+100 %")
    expect(insights.locator("#needs tbody tr").first.locator("svg title")).to_contain_text("2 days")
    insights.locator("#needs").get_by_role("button", name="scripts").click()
    expect(insights.locator("#needs-of")).to_have_text("Request time of client id scripts")
    insights.reload()
    expect(insights.locator("#needs-of")).to_have_text("Request time of client id scripts")
    entry = {"entity": {"user": "alice"}, "ops": [{"key": "producer_byte_rate", "value": 60_000}]}
    insights.evaluate(
        """entry => fetch("/api/v1/client-quotas", {method: "PATCH", body: JSON.stringify({entries: [entry]}),
        headers: {"Content-Type": "application/json", "X-CSRF-Token": document.body.dataset.csrf}})""",
        entry,
    )
    insights.reload()
    expect(insights.locator("#needs tbody tr").first.locator("b.short")).to_have_text("60 kB/s")
    insights.locator("#needs").get_by_role("button", name="alice").click()
    expect(drawing).to_have_attribute("aria-valuetext", re.compile("Present limit 60 kB/s"))


def test_without_prices_it_says_which_to_set(
    browser: Any, broker: FakeBroker, warehouse: Path, expect: Any
) -> None:
    settings = console_config(insights_warehouse=str(warehouse))
    with ServedConsole(broker, settings) as served, watched(browser, served) as opened:
        opened.sign_in()
        insights = opened.go(f"{PAGE}&view=cost")
        expect(insights.locator("#cost pre")).to_contain_text("insights.price.per.gb.produced=0.05")


FILE = """quotas:
- entity: {user: alice}
  limits: {producer_byte_rate: 100000}
"""


def test_a_proposed_file_says_whom_it_would_hurt(reader: Watched, expect: Any, tmp_path: Path) -> None:
    insights = reader.go(f"{PAGE}&view=proposal")
    form = insights.locator("form.proposal")
    simulate = form.get_by_role("button", name="Simulate")
    simulate.click()
    expect(form.get_by_role("alert")).to_have_text("Paste a quota file, or choose one.")
    form.locator("textarea").fill(FILE.replace("100000", "-1"))
    simulate.click()
    expect(form.get_by_role("alert")).to_contain_text("quotas line 2")
    expect(form.locator("textarea")).to_have_value(FILE.replace("100000", "-1"))
    file = tmp_path / "quotas.yaml"
    file.write_text(FILE)
    form.get_by_label("File", exact=True).set_input_files(file)
    expect(form.locator("textarea")).to_have_value(FILE)
    simulate.click()
    expect(form.get_by_role("status")).to_contain_text(
        "1 would be throttled for longer than now, none for less."
    )
    for words in ("alice", "Produce", "none", "never", "100 kB/s", "94.9 %", "longer"):
        expect(form.locator("tbody tr")).to_contain_text(words)
    assert not reader.console.broker.rows


def test_a_file_that_is_too_large_is_refused_before_it_is_sent(
    reader: Watched, expect: Any, tmp_path: Path
) -> None:
    insights = reader.go(f"{PAGE}&view=proposal")
    form = insights.locator("form.proposal")
    file = tmp_path / "huge.yaml"
    file.write_bytes(b"#" * 900_001)
    form.get_by_label("File", exact=True).set_input_files(file)
    expect(form.get_by_role("alert")).to_contain_text("huge.yaml is larger than 900 kB")
    file.write_bytes(b"#" * 900_000)
    form.get_by_label("File", exact=True).set_input_files(file)
    expect(form.locator("textarea")).to_have_value(re.compile("^#"))
    form.get_by_role("button", name="Simulate").click()
    expect(form.get_by_role("alert")).to_have_text("Line 1 is longer than 16\u202f384 characters.")


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
    insights: Any, expect: Any, read: ServedConsole
) -> None:
    go_to(insights, "Advice")
    insights.get_by_role("link", name="Set Produce of user alice").click()
    expect(insights.locator(".editor")).to_be_visible()
    expect(insights.locator(".editor input[type=text]").first).to_have_value("alice")
    expect(insights.locator(".editor")).to_contain_text("producer_byte_rate=100000")
    assert not read.broker.rows


def test_all_advice_is_a_quota_file(insights: Any, expect: Any) -> None:
    go_to(insights, "Advice")
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


def test_a_day_is_played_with_the_advice_and_without(insights: Any, expect: Any, read: ServedConsole) -> None:
    go_to(insights, "Advice")
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
    assert not read.broker.rows


def test_a_day_that_cannot_be_played_says_why(page: Watched, expect: Any, warehouse: Path) -> None:
    shutil.rmtree(warehouse / "bronze")
    page.sign_in()
    insights = page.go(PAGE)
    go_to(insights, "Advice")
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
    expect(insights.locator("#usage")).to_contain_text("alice")
    go_to(insights, "Advice")
    expect(insights.locator("#advice")).to_contain_text("cannot be read")
    go_to(insights, "Quotas")
    expect(insights.locator("#needs")).to_contain_text("cannot be read")
    expect(insights.locator("#needs-chart")).to_be_hidden()
    go_to(insights, "Clients")
    expect(insights.locator("#storms")).to_contain_text("No connections recorded yet")
    go_to(insights, "Data")
    expect(insights.locator("#written")).to_contain_text("damaged")


def test_without_usage_nothing_is_known(page: Watched, expect: Any, warehouse: Path) -> None:
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
def test_axe_finds_nothing_in_any_view(
    browser: Any, read: ServedConsole, expect: Any, scheme: str, size: dict[str, int]
) -> None:
    axe: Any = pytest.importorskip("axe_playwright_python.base", reason="no axe")
    with watched(browser, read, color_scheme=scheme, viewport=size, reduced_motion="reduce") as opened:
        opened.sign_in()
        page = opened.go(PAGE)
        page.evaluate(axe.AXE_SCRIPT)
        found = {}
        for view in VIEWS:
            panel = go_to(page, view)
            for card, words in CARDS.get(view, {}).items():
                expect(panel.locator(f"#{card}")).to_contain_text(words[0])
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
            for each in page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]:
                found[view, each["id"]] = [node["html"][:160] for node in each["nodes"]]
        assert found == {}

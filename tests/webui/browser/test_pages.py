"""The pages in a browser: live values, throttles that count down, states as drawings."""

import re
import time
from typing import Any

import pytest
from msgspec.structs import replace

from broker.controller.rows.client_endpoint import ClientEndpoint
from broker.controller.rows.connections import ConnectionLimitRow
from tests.webui.browser.conftest import PHONE, ServedConsole, Watched, account_menu, watched
from tests.webui.fakes import FakeBroker
from tests.webui.rows import connection, tasks, throttled, upstream
from webui.http.app import monotonic_ms
from webui.pages import PAGES

PATHS = tuple(page.path for page in PAGES)


@pytest.mark.parametrize("host", ["pages", "address"])
def test_the_printed_link_opens_a_live_overview(
    page: Watched, expect: Any, broker: FakeBroker, host: str
) -> None:
    """By its own name, and by the address that it redirects from."""
    opened = page.page
    opened.goto(f"{getattr(page.console, host)}/?code={broker.links.make(monotonic_ms())}")
    expect(opened).to_have_title("Overview · Weir")
    expect(opened).to_have_url(f"{page.console.pages}/")
    expect(opened.locator("#live")).to_have_text("Live")


def test_a_token_in_the_address_is_refused_and_said_so(page: Watched, expect: Any) -> None:
    opened = page.page
    opened.goto(f"{page.console.pages}/?token=admin-token")
    expect(opened.get_by_role("alert")).to_contain_text("in the URL is not accepted")
    opened.get_by_label("Token").fill("admin-token")
    opened.keyboard.press("Enter")
    expect(opened).to_have_url(f"{page.console.pages}/")
    expect(opened.locator("#live")).to_have_text("Live")


def test_an_unused_broker_says_what_to_do_next(page: Watched, expect: Any, broker: FakeBroker) -> None:
    page.sign_in()
    opened = page.go("/")
    expect(opened.locator("#first-steps")).to_contain_text("127.0.0.1:9092")
    expect(opened.locator("#snippets pre")).to_have_count(3)
    port = page.console.address.rpartition(":")[2]
    command = f"--running --bootstrap 127.0.0.1:9092 --console localhost:{port}"
    expect(opened.locator("#snippets")).to_contain_text(command)
    expect(opened.locator("#first-steps-title")).to_have_text("No client has connected yet")
    broker.topic_count, broker.own_topic_count = 4, 4
    broker.connection_rows = [connection("hello")]
    expect(opened.locator("#now div", has_text="Connections").locator("dd")).to_have_text("1")
    expect(opened.locator("#facts")).to_contain_text("4 topics (4 internal), 12 partitions")
    expect(opened.locator("#first-steps-title")).to_have_text("No topic has been created yet")
    expect(opened.locator("#first-steps")).to_be_visible()
    broker.topic_count = 5
    expect(opened.locator("#first-steps")).to_be_hidden()
    broker.topic_count, broker.connection_rows = 4, []
    expect(opened.locator("#first-steps-title")).to_have_text("No client has connected yet")


def test_a_gateway_shows_the_first_steps_until_a_client_connects(
    page: Watched, expect: Any, broker: FakeBroker
) -> None:
    broker.upstream_row = upstream()
    page.sign_in()
    opened = page.go("/")
    expect(opened.locator("#first-steps")).to_be_visible()
    broker.connection_rows = [connection("hello")]
    expect(opened.locator("#first-steps")).to_be_hidden()


@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize(
    ("token", "hint"),
    [
        ("admin-token", "Create the topic greetings first, on the console's page Topics: clients may not."),
        ("editor-token", "Create the topic greetings first, on the console's page Topics: clients may not."),
        ("viewer-token", "Clients may not create the topic greetings: ask an editor to create it first."),
    ],
)
def test_the_first_steps_of_a_role_are_what_it_may_do(
    browser: Any, served: ServedConsole, expect: Any, broker: FakeBroker, token: str, hint: str, scheme: str
) -> None:
    broker.endpoints = (ClientEndpoint("127.0.0.1:9092", creates_topics=False),)
    with watched(browser, served, color_scheme=scheme) as page:
        page.sign_in(token)
        first = page.go("/").locator("#first-steps")
        expect(first).to_contain_text(hint)
        expect(first.locator("pre", has_text="WEIR_ADMIN_TOKEN")).to_have_count(int(token == "admin-token"))


def test_first_steps_and_commands_have_what_a_secured_listener_asks_for(
    page: Watched, expect: Any, broker: FakeBroker
) -> None:
    broker.set((("client-id", "app"),), {"producer_byte_rate": 1e6})
    broker.endpoints = (ClientEndpoint("[::1]:9093", "SASL_SSL", ("SCRAM-SHA-512",)),)
    page.sign_in()
    opened = page.go("/")
    first = opened.locator("#first-steps")
    expect(first).to_contain_text("Replace ca.pem by the file")
    expect(first.locator("pre")).to_have_count(2)
    expect(first.locator("pre").first).to_contain_text("-X security.protocol=SASL_SSL")
    opened = page.go("/quotas")
    opened.get_by_label("Edit client id app").click()
    opened.get_by_label("Produce").fill("7 MB")
    command = opened.locator(".consequences .copyable").first
    expect(command).to_contain_text("--command-config client.properties")
    opened.locator(".consequences summary", has_text="client.properties").click()
    expect(opened.locator(".consequences details pre")).to_contain_text("security.protocol=SASL_SSL")


def test_figures_move_by_themselves(page: Watched, expect: Any, broker: FakeBroker) -> None:
    page.sign_in()
    opened = page.go("/")
    for count in (1, 2):
        broker.throttled_rows = [throttled(connection_id=str(index)) for index in range(count)]
        expect(opened.locator("#nav-throttled")).to_have_text(str(count))
        expect(opened.locator("#status")).to_contain_text(f"{count} connection")
    expect(opened.locator("#attention li")).to_have_count(2)
    broker.throttled_rows = []
    expect(opened.locator("#nav-throttled")).to_be_hidden()


def test_a_control_that_the_role_may_not_use_says_so_when_it_is_clicked(page: Watched, expect: Any) -> None:
    page.sign_in("viewer-token")
    opened = page.go("/topics")
    for use in (lambda: opened.locator("#add").click(force=True), lambda: opened.locator("body").press("n")):
        use()
        expect(opened.locator(".toast")).to_contain_text(
            "This needs the role editor; you are logged in as viewer."
        )
        opened.get_by_role("button", name="Close this message").click()
    expect(opened.locator("form.editor")).to_have_count(0)


def test_the_doctor_says_what_is_wrong_and_what_would_change_it(
    page: Watched, expect: Any, broker: FakeBroker
) -> None:
    page.sign_in("viewer-token")
    opened = page.go("/doctor")
    expect(opened.locator("#verdict")).to_contain_text("No problem found")
    expect(opened.locator(".symptom")).to_have_count(5)
    broker.configs["max.connections"] = "100"
    broker.version += 1
    broker.limit_rows = [ConnectionLimitRow("", 96, 100, 1.0, None, ())]
    expect(opened.locator("#verdict")).to_have_text("A problem needs action. Open connections")
    opened.locator("#verdict").get_by_role("link", name="Open connections").click()
    expect(opened.locator(".symptom", has_text="Clients cannot connect")).to_be_in_viewport()
    taken = opened.locator(".check", has_text="Open connections")
    expect(taken).to_have_attribute("data-level", "urgent")
    expect(taken).to_contain_text("96 of 100")
    expect(taken.locator("pre")).to_contain_text("--add-config max.connections=200")


def test_the_controllers_request_memory_has_a_gauge_where_there_is_any(
    page: Watched, expect: Any, broker: FakeBroker
) -> None:
    page.sign_in("viewer-token")
    opened = page.go("/requests")
    expect(opened.locator("#health")).to_contain_text("Request memory")
    expect(opened.locator("#health")).not_to_contain_text("Request memory of the controller")
    changes = {"controller_memory_pool_used": 1_000_000, "controller_memory_pool_size": 4_000_000}
    broker.now = replace(broker.now, **changes)
    expect(opened.locator("#health")).to_contain_text("Request memory of the controller")
    expect(opened.locator("#health")).to_contain_text("977 KiB of 3.81 MiB")


def test_a_longer_range_is_asked_for_and_kept_in_the_address(page: Watched, expect: Any) -> None:
    page.sign_in()
    opened = page.go("/")
    with opened.expect_request(lambda request: "history_s=86400" in request.url):
        opened.get_by_role("button", name="24 h").click()
    expect(opened.get_by_role("button", name="24 h")).to_have_attribute("aria-pressed", "true")
    expect(opened).to_have_url(f"{page.console.pages}/?range=24h")
    expect(opened.locator("#throughput")).to_contain_text("12:00")
    opened.get_by_role("button", name="1 min", exact=True).click()
    expect(opened.locator("#throughput")).to_contain_text(re.compile(r"\d\d:\d\d:[0134][05]"))


def test_a_throttle_appears_counts_down_and_is_let_go(page: Watched, expect: Any, broker: FakeBroker) -> None:
    page.sign_in()
    opened = page.go("/throttled")
    expect(opened.locator("#table")).to_contain_text("No client is throttled")
    broker.throttled_rows = [throttled("greedy", remaining_ms=5_000, throttle_ms=6_000)]
    row = opened.locator("tbody tr")
    expect(row).to_contain_text("greedy")
    for words in (
        "ANONYMOUS",
        "10.0.0.7",
        "produce",
        "client id",
        "3.3 MB/s",
        "1 MB/s",
        "3.3×",
        "6 s",
    ):
        expect(row).to_contain_text(words)

    def left() -> int:
        title = row.locator("td[data-label=Throttle]").get_attribute("title") or ""
        return int(title.partition("of which ")[2].partition(" ms")[0].replace("\u202f", ""))

    # Between two events of the server, which says 5000 each time here.
    seen = {left() for _ in range(12) if not time.sleep(0.03)}
    assert len(seen) > 2 and max(seen) <= 5_000 and min(seen) < 4_990
    broker.throttled_rows = []
    expect(row).to_have_attribute("data-free", "yes")
    expect(row.locator("td[data-label=Throttle]")).to_have_attribute("title", re.compile("; released$"))
    expect(opened.locator("#table")).to_contain_text("No client is throttled")
    expect(opened.locator("#recent-throttles li")).to_contain_text("1 time, longest 6 s")


def test_a_client_that_is_throttled_again_stays_one_row(
    page: Watched, expect: Any, broker: FakeBroker
) -> None:
    page.sign_in()
    opened = page.go("/throttled")
    for times in (1, 2, 3):
        broker.throttled_rows = [throttled(times=times)]
        expect(opened.locator("tbody tr td[data-label=Times]")).to_have_text(str(times))
        broker.throttled_rows = []
        expect(opened.locator("tbody tr")).to_have_attribute("data-free", "yes")
    expect(opened.locator("tbody tr")).to_have_count(1)


def test_the_table_sorts_and_filters_and_keeps_that_in_the_address(
    page: Watched, expect: Any, broker: FakeBroker
) -> None:
    broker.throttled_rows = [
        throttled(name, connection_id=name, address=address, times=times)
        for name, address, times in (("b", "10.0.0.1", 3), ("a", "10.0.0.2", 9), ("c", "10.0.0.2", 5))
    ]
    page.sign_in()
    opened = page.go("/throttled")
    clients = opened.locator("tbody tr td:first-child .client")
    expect(clients).to_have_text(["a", "c", "b"])
    opened.get_by_role("button", name="Client", exact=True).click()
    expect(clients).to_have_text(["c", "b", "a"])
    expect(opened.locator("th[aria-sort]")).to_have_attribute("aria-sort", "descending")
    opened.get_by_role("button", name="Client", exact=True).click()
    expect(clients).to_have_text(["a", "b", "c"])
    opened.keyboard.press("/")
    opened.keyboard.type("10.0.0.2")
    expect(clients).to_have_text(["a", "c"])
    expect(opened).to_have_url(re.compile(r"\?q=10\.0\.0\.2&sort=client&order=asc$"))
    opened.reload()
    expect(clients).to_have_text(["a", "c"])
    opened.locator("#filter").fill("nobody")
    expect(opened.locator("#table")).to_contain_text("No match")


def test_tags_of_a_callback_stand_in_place_of_a_rule_and_are_no_link(
    page: Watched, expect: Any, broker: FakeBroker
) -> None:
    tags = (("group", "<img src=x>"), ("tier", "2"))
    broker.throttled_rows = [
        throttled("one", connection_id="1", entity=(), tags=tags),
        throttled("two", connection_id="2", entity=(), tags=()),
    ]
    page.sign_in()
    opened = page.go("/throttled")
    row = opened.locator("tbody tr", has_text="one")
    expect(row.locator(".chip")).to_have_text(["group<img src=x>", "tier2"])
    expect(opened.locator("tbody tr", has_text="two")).to_contain_text("no tags")
    assert opened.locator("tbody a.rule").count() == 0
    opened.get_by_label("Filter").fill("tier 2")
    expect(opened.locator("tbody tr")).to_have_count(1)


def test_the_rule_of_a_throttle_is_one_click_away(page: Watched, expect: Any, broker: FakeBroker) -> None:
    for name in ("greedy", "other"):
        broker.set((("client-id", name),), {"producer_byte_rate": 1e6})
    broker.throttled_rows = [throttled("greedy")]
    page.sign_in()
    opened = page.go("/throttled")
    opened.locator("tbody a.rule").click()
    expect(opened).to_have_url(re.compile("/quotas/client-id=greedy$"))
    expect(opened.get_by_role("region", name="Limits")).to_contain_text("1 MB/s")


def test_the_tasks_stand_in_each_other_with_what_they_own(
    page: Watched, expect: Any, broker: FakeBroker
) -> None:
    page.sign_in()
    opened = page.go("/tasks")
    expect(opened.locator("#table")).to_contain_text("No task has been reported")
    broker.task_rows = tasks()
    rows = opened.locator("tbody tr")
    expect(rows).to_have_count(len([row for row in broker.task_rows if row.kind == "nursery"]))
    opened.get_by_role("button", name="Open all").click()
    expect(rows).to_have_count(len(broker.task_rows))
    expect(opened.locator("#count")).to_have_text("9 tasks")
    network = opened.locator("tr", has_text="network-thread-1-PLAINTEXT-PLAINTEXT-0").first
    for words in ("processor", "1\u202f240 connections", "19 of 20 accepted sockets", "peak 20", "15 %"):
        expect(network).to_contain_text(words)
    expect(network.locator(".idle .bar")).to_have_attribute("data-level", "urgent")

    def indent(name: str) -> float:
        found = opened.locator("tr", has_text=name).first.locator("td").first
        return float(found.evaluate("cell => parseFloat(getComputedStyle(cell).paddingLeft)"))

    assert indent("broker") < indent("storage") < indent("log-flusher")


def test_the_tasks_of_a_nursery_are_folded_and_what_is_wrong_among_them_is_not(
    page: Watched, expect: Any, broker: FakeBroker
) -> None:
    broker.task_rows = tasks()
    page.sign_in()
    opened = page.go("/tasks")
    processors = opened.locator("tr", has=opened.get_by_role("button", name="processors"))
    for words in ("3 tasks", "19 of 20 accepted sockets", "15 %"):
        expect(processors).to_contain_text(words)
    expect(processors).not_to_contain_text("connections")
    threads = opened.locator("tr", has_text="network-thread")
    fold = opened.get_by_role("button", name="processors")
    expect(fold).to_have_attribute("aria-expanded", "false")
    fold.focus()
    opened.keyboard.press("Enter")
    expect(fold).to_have_attribute("aria-expanded", "true")
    expect(fold).to_be_focused()
    expect(threads).to_have_count(2)
    expect(opened).to_have_url(re.compile(r"\?open=processors$"))
    opened.reload()
    expect(threads).to_have_count(2)
    fold.click()
    expect(threads).to_have_count(0)


def test_the_tasks_sort_and_filter_and_keep_that_in_the_address(
    page: Watched, expect: Any, broker: FakeBroker
) -> None:
    broker.task_rows = tasks()
    page.sign_in()
    opened = page.go("/tasks")
    opened.get_by_role("button", name="Idle", exact=True).click()
    expect(opened.locator("tbody tr").first).to_contain_text("network-thread")
    expect(opened.locator("th[aria-sort]")).to_have_attribute("aria-sort", "ascending")
    opened.keyboard.press("/")
    opened.keyboard.type("handler-")
    expect(opened.locator("tbody tr")).to_have_count(2)
    expect(opened).to_have_url(re.compile(r"\?q=handler-&sort=idle$"))
    opened.reload()
    expect(opened.locator("tbody tr")).to_have_count(2)
    opened.locator("#filter").fill("nothing of that name")
    expect(opened.locator("#table")).to_contain_text("No match")


def test_figures_that_stopped_coming_say_so(page: Watched, expect: Any, served: ServedConsole) -> None:
    page.sign_in()
    opened = page.go("/")
    expect(opened.locator("#live")).to_have_text("Live")
    served.stop()
    expect(opened.locator("#live")).to_contain_text("Disconnected; data from")
    page.troubles.clear()


KEPT_SOURCE = """
window.EventSource = class extends EventSource {
  constructor(address) { super(address); window.stream = this; }
};
"""


def test_every_page_says_that_its_figures_are_stale(page: Watched, expect: Any) -> None:
    page.page.add_init_script(KEPT_SOURCE)
    page.page.clock.install()
    page.sign_in()
    for path in PATHS:
        opened = page.go(path)
        # As when a network drops everything in silence: no error, and nothing more comes.
        opened.evaluate("window.stream.close()")
        opened.clock.run_for(6_000)
        expect(opened.locator("#live")).to_contain_text("Disconnected; data from")
        expect(opened.locator("body")).to_have_attribute("data-stale", "yes")


def test_a_session_that_ended_is_reported_on_the_page(page: Watched, expect: Any, broker: FakeBroker) -> None:
    page.sign_in()
    opened = page.go("/")
    expect(opened.locator("#live")).to_have_text("Live")
    broker.token_rows = []
    broker.version += 1
    expect(opened.get_by_role("heading", name="Log in")).to_be_visible()


def test_signing_in_by_hand_and_out_again(page: Watched, expect: Any) -> None:
    opened = page.go("/quotas")
    opened.get_by_label("Token").fill("nonsense")
    opened.get_by_role("button", name="Log in").click()
    expect(opened.get_by_role("alert")).to_have_text("Unknown token.")
    opened.get_by_label("Token").fill("admin-token")
    opened.keyboard.press("Enter")
    expect(opened.get_by_role("heading", name="Client quotas")).to_be_visible()
    expect(opened.locator("#live")).to_have_text("Live")
    account_menu(opened).get_by_role("button", name="Log out").click()
    expect(opened.get_by_role("heading", name="Log in")).to_be_visible()


def test_a_link_from_elsewhere_finds_the_session(page: Watched, expect: Any) -> None:
    page.sign_in()
    # Another site, as far as cookies go.
    page.page.goto(f"{page.console.address}/healthz")
    page.page.evaluate("address => location.assign(address)", page.console.pages + "/quotas")
    expect(page.page.get_by_role("heading", name="Client quotas")).to_be_visible()


def test_on_a_phone_the_pages_are_behind_a_menu(
    browser: Any, served: ServedConsole, expect: Any, broker: FakeBroker
) -> None:
    broker.throttled_rows = [throttled()]
    with watched(browser, served, viewport=PHONE) as phone:
        phone.sign_in()
        opened = phone.go("/")
        expect(opened.get_by_role("link", name="1 throttled", exact=True)).to_be_visible()
        link = opened.get_by_role("link", name="Quotas", exact=True)
        expect(link).to_be_hidden()
        menu = opened.get_by_role("button", name="Menu")
        menu.focus()
        opened.keyboard.press("Enter")
        expect(link).to_be_visible()
        assert opened.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        opened.keyboard.press("Escape")
        expect(link).to_be_hidden()
        expect(menu).to_be_focused()
        menu.click()
        link.click()
        expect(opened.get_by_role("heading", name="Client quotas")).to_be_visible()


def test_the_keyboard_reaches_everything_in_order(page: Watched, expect: Any) -> None:
    page.sign_in()
    opened = page.go("/quotas")
    expect(opened.locator("#live")).to_have_text("Live")
    opened.keyboard.press("Tab")
    expect(opened.locator(".skip")).to_be_focused()
    opened.keyboard.press("Enter")
    expect(opened.locator("main")).to_be_focused()
    for tab in ("Clients", "Broker", "Addresses"):
        opened.keyboard.press("Tab")
        expect(opened.locator(".tabs").get_by_role("link", name=tab)).to_be_focused()
    opened.keyboard.press("Tab")
    expect(opened.locator("#filter")).to_be_focused()

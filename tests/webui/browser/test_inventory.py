"""Connections, topics and groups on their pages."""

import re
from typing import Any

import pytest
from msgspec.structs import replace

from broker.controller.rows.topics import TopicClientRow
from tests.webui.browser.conftest import Watched
from tests.webui.fakes import FakeBroker
from tests.webui.rows import connection, group, topic, upstream


@pytest.fixture
def busy(page: Watched, broker: FakeBroker) -> Watched:
    broker.connection_rows = [
        connection("app", "alice", 1, requests=4_321, mute_state="muted_and_throttled"),
        connection("<b>", "bob", 0, tls="TLSv1.3 TLS_AES_256_GCM_SHA384"),
    ]
    broker.topic_rows = [topic("orders"), topic("__consumer_offsets", internal=True, configs=())]
    broker.group_rows = [group("readers", "app"), group("idle", lag=0)]
    broker.topic_clients["orders"] = [TopicClientRow("shop", "alice", "librdkafka", "2.16.0", 3, 2, 1)]
    page.sign_in()
    return page


def test_a_connection_row_has_its_client_and_its_mute_state(busy: Watched, expect: Any) -> None:
    opened = busy.go("/connections")
    row = opened.locator("tbody tr", has_text="alice")
    for words in ("app", "10.0.0.7", "PLAINTEXT", "apache-kafka-java", "4.1.1", "4\u202f321", "throttled"):
        expect(row).to_contain_text(words)
    expect(opened.locator("tbody tr", has_text="bob")).to_contain_text("TLSv1.3")
    opened.get_by_label("Filter connections").select_option("tls")
    expect(opened.locator("tbody tr")).to_have_count(1)


def test_long_names_of_a_topics_clients_leave_the_figures_in_sight(
    busy: Watched, expect: Any, broker: FakeBroker
) -> None:
    long = "a-name-without-end-" * 12
    broker.topic_clients["orders"] = [TopicClientRow(long, long, long, "1", 3, 2, 1)]
    opened = busy.go("/topics/orders?tab=consumers")
    region = opened.get_by_role("region", name="Clients")
    expect(region.locator("tbody tr")).to_contain_text("writes, reads")
    assert region.evaluate("each => each.scrollWidth <= each.clientWidth")
    assert region.locator("a.name").evaluate("each => each.clientWidth") > 200
    opened.set_viewport_size({"width": 390, "height": 844})
    client, software = (region.locator("td").nth(at).bounding_box() for at in (0, 1))
    assert region.locator("a.name").bounding_box()["width"] <= client["width"] <= software["x"]


def test_a_gateway_shows_the_clients_of_a_topic_that_it_knows(
    busy: Watched, expect: Any, broker: FakeBroker
) -> None:
    broker.upstream_row = upstream()
    opened = busy.go("/topics/orders?tab=consumers")
    expect(opened.locator("main")).to_contain_text("or read from it, through this gateway")
    row = opened.get_by_role("region", name="Clients").locator("tbody tr")
    for words in ("shop", "alice", "librdkafka 2.16.0", "writes, reads", "3"):
        expect(row).to_contain_text(words)


def test_a_connection_row_has_its_balancer(page: Watched, expect: Any, broker: FakeBroker) -> None:
    broker.connection_rows = [
        connection("direct", "alice", 1),
        replace(connection("behind", "bob", 2), proxy="2001:db8:1111:2222:3333:4444:5555:6666"),
        replace(connection("check", "", 3), proxy="10.0.0.7"),
    ]
    page.sign_in()
    opened = page.go("/connections")
    for client, words in (
        ("direct", "10.0.0.7"),
        ("behind", "10.0.0.7through 2001:db8:1111:2222:3333:4444:5555:6666"),
        ("check", "10.0.0.7the balancer itself"),
    ):
        cell = opened.locator("tbody tr", has_text=client).locator("td").nth(1)
        expect(cell).to_have_text(words)
        assert cell.evaluate("td => td.scrollWidth <= td.clientWidth"), f"{client} fits"


def test_a_connection_is_closed_after_a_question(busy: Watched, expect: Any, broker: FakeBroker) -> None:
    opened = busy.go("/connections")
    opened.get_by_label("Close the connection of app").click()
    expect(opened.locator("tr.panel")).to_contain_text("The client can reconnect at once")
    opened.keyboard.press("Escape")
    expect(opened.get_by_label("Close the connection of app")).to_be_focused()
    assert len(broker.connection_rows) == 2
    opened.get_by_label("Close the connection of app").click()
    opened.get_by_role("button", name="Close connection").click()
    expect(opened.locator("tbody tr")).to_have_count(1)
    assert [row.client_id for row in broker.connection_rows] == ["<b>"]


def test_a_viewer_closes_nothing(page: Watched, expect: Any, broker: FakeBroker) -> None:
    broker.connection_rows = [connection("app")]
    page.sign_in("viewer-token")
    opened = page.go("/connections")
    expect(opened.locator("tbody tr")).to_have_count(1)
    expect(opened.locator(".actions")).to_have_count(0)


def test_a_topic_has_a_page_with_tabs(busy: Watched, expect: Any) -> None:
    opened = busy.go("/topics")
    rows = opened.locator("#table > table > tbody > tr")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("1 d")
    opened.get_by_label("Filter topics").select_option("internal")
    expect(rows).to_have_text([re.compile("__consumer_offsets")])
    opened.get_by_label("Filter topics").select_option("all")
    expect(rows).to_have_count(2)
    opened.get_by_role("link", name="orders", exact=True).press("Enter")
    expect(opened.locator("#facts")).to_contain_text("Partitions3")
    tabs = opened.get_by_role("navigation", name="Tabs").get_by_role("link")
    expect(tabs).to_have_text(["Records", "Partitions", "Clients", "Config"])
    tabs.nth(1).click()
    expect(opened.get_by_role("region", name="Partitions").locator("tbody tr")).to_have_count(3)
    expect(opened).to_have_url(re.compile(r"/topics/orders\?tab=partitions$"))
    tabs.nth(2).click()
    expect(opened.get_by_role("region", name="Groups").locator("tbody tr")).to_have_count(2)
    clients = opened.get_by_role("region", name="Clients").locator("tbody tr")
    expect(clients).to_have_text([re.compile("shop.*alice.*librdkafka 2.16.0.*writes, reads.*3")])
    expect(clients.get_by_role("link", name="shop")).to_have_attribute(
        "href", "/explain?user=alice&client_id=shop"
    )
    opened.go_back()
    expect(opened.locator(".tabs [aria-current=page]")).to_have_text("Partitions")
    expect(opened.locator(".sidebar [aria-current]")).to_have_text("Topics")


def test_a_group_has_a_page_with_its_members_and_how_far_they_are(busy: Watched, expect: Any) -> None:
    opened = busy.go("/groups")
    rows = opened.locator("#table > table > tbody > tr")
    expect(rows.first).to_contain_text("readers")
    opened.get_by_role("link", name="readers", exact=True).click()
    expect(opened.get_by_role("region", name="Members")).to_contain_text("orders")
    opened.get_by_role("navigation", name="Tabs").get_by_role("link", name="Offsets").click()
    offsets = opened.get_by_role("region", name="Offsets").locator("tbody tr")
    expect(offsets.first).to_contain_text("40")
    expect(offsets.first).to_contain_text("app")


def test_a_members_address_is_shown_without_kafkas_slash(
    busy: Watched, expect: Any, broker: FakeBroker
) -> None:
    readers = group("readers", "app")
    broker.group_rows = [replace(readers, members=(replace(readers.members[0], address="/10.0.0.8"),))]
    opened = busy.go("/groups/readers")
    expect(opened.get_by_role("region", name="Members").locator("td").nth(1)).to_have_text("10.0.0.8")


def test_two_thousand_topics_are_searched_paged_and_selected(
    page: Watched, expect: Any, broker: FakeBroker
) -> None:
    broker.topic_rows = [topic(f"{'t' * 230}-{number:05}") for number in range(2_000)]
    page.sign_in()
    opened = page.go("/topics")
    expect(opened.locator("#count")).to_have_text("2\u202f000 topics")
    rows = opened.locator("#table tbody tr")
    expect(rows).to_have_count(50)
    heights = [row.bounding_box()["height"] for row in rows.all()]
    assert max(heights) - min(heights) < 1, "the last row has no line below"
    opened.get_by_role("button", name="Next").click()
    expect(rows.first).to_contain_text("-00050")
    opened.locator("#filter").fill("-01999")
    expect(rows).to_have_count(1)
    expect(opened.locator("#count")).to_have_text("1 of 2\u202f000 topics")
    opened.locator("#filter").fill("")
    expect(rows).to_have_count(50)
    opened.get_by_label("Select every topic on this page").check()
    opened.get_by_role("button", name="Select all 2\u202f000").click()
    expect(opened.locator("#selected output")).to_have_text("2\u202f000 topics selected")
    opened.get_by_role("button", name="Delete…").click()
    expect(opened.get_by_label("Type “delete 2000” to confirm")).to_be_focused()
    expect(opened.locator("form.editor")).to_contain_text("and 1\u202f988 more")

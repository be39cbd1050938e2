"""Connections, topics and groups on their pages."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.webui.browser.conftest import Watched
from tests.webui.fakes import FakeBroker
from tests.webui.rows import connection, group, topic


@pytest.fixture
def busy(page: Watched, broker: FakeBroker) -> Watched:
    broker.connection_rows = [
        connection("app", "alice", 1, requests=4_321, mute_state="muted_and_throttled"),
        connection("<b>", "bob", 0, tls="TLSv1.3 TLS_AES_256_GCM_SHA384"),
    ]
    broker.topic_rows = [topic("orders"), topic("__consumer_offsets", internal=True, configs=())]
    broker.group_rows = [group("readers", "app"), group("idle", lag=0)]
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


def test_a_topic_opens_to_its_partitions(busy: Watched, expect: Any) -> None:
    opened = busy.go("/topics")
    expect(opened.locator("#table > table > tbody > tr")).to_have_count(2)
    opener = opened.get_by_role("button", name="orders", exact=True)
    opener.press("Enter")
    expect(opener).to_have_attribute("aria-expanded", "true")
    expect(opened.get_by_role("region", name="Partitions").locator("tbody tr")).to_have_count(3)
    expect(opened.get_by_role("region", name="Settings")).to_contain_text("retention.ms")
    opener.press("Enter")
    expect(opened.get_by_role("region", name="Partitions")).to_have_count(0)
    opened.get_by_label("Filter topics").select_option("internal")
    expect(opened.locator("#table")).to_contain_text("__consumer_offsets")
    expect(opened.locator("#table")).not_to_contain_text("orders")


def test_a_group_opens_to_its_members_and_how_far_they_are(busy: Watched, expect: Any) -> None:
    opened = busy.go("/groups?sort=lag&order=desc")
    rows = opened.locator("#table > table > tbody > tr")
    expect(rows.first).to_contain_text("readers")
    opened.get_by_role("button", name="readers", exact=True).click()
    expect(opened.get_by_role("region", name="Members")).to_contain_text("orders")
    offsets = opened.get_by_role("region", name="Offsets").locator("tbody tr")
    expect(offsets.first).to_contain_text("40")
    expect(offsets.first).to_contain_text("app")


def test_a_members_address_is_shown_without_kafkas_slash(
    busy: Watched, expect: Any, broker: FakeBroker
) -> None:
    readers = group("readers", "app")
    broker.group_rows = [replace(readers, members=(replace(readers.members[0], address="/10.0.0.8"),))]
    opened = busy.go("/groups")
    opened.get_by_role("button", name="readers", exact=True).click()
    expect(opened.get_by_role("region", name="Members").locator("td").nth(1)).to_have_text("10.0.0.8")

"""Groups on their pages: the worst first, offsets reset after a dry run, deleted, and the lag drawn."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from broker.controller.rows.topics import GroupRow
from broker.coordinator.share.dead_letters import DeadLetterCounts
from tests.webui.browser.conftest import Watched, refused_buttons
from tests.webui.log_world import LoggedBroker, LogWorld
from webui.path_names import path_name

NAMES = ("reports", "<b>a/b</b>")
HOSTILE = (
    "..",
    "a/b?c#d%20&e;f",
    "~2e",
    "g" * 249,
    "\u0639\u0631\u0628\u064a \u05e9\u05dc\u05d5\u05dd",
    "🚀 x",
    "offsets",
    " a  b ",
)


def address(name: str) -> str:
    return "/groups/" + quote(path_name(name), safe="!~*'()")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LogWorld]:
    world = LogWorld(tmp_path)
    world.topic("orders", 2)
    for partition in range(2):
        world.append("orders", *((None, str(n)) for n in range(10)), partition=partition)
    for name in NAMES:
        world.commit(name, "orders", 4, 6)
    yield world
    world.close()


@pytest.fixture
def broker(world: LogWorld) -> LoggedBroker:
    return LoggedBroker(world)


@pytest.fixture
def groups(page: Watched) -> Any:
    page.sign_in()
    return page.go("/groups")


def tab(page: Any, name: str) -> None:
    page.get_by_role("navigation", name="Tabs").get_by_role("link", name=name, exact=True).click()


def reports(page: Any, tab: str) -> None:
    page.goto(f"{page.url.partition('/groups')[0]}/groups/reports?tab={tab}")


@pytest.mark.parametrize("name", NAMES)
def test_offsets_are_reset_after_a_dry_run(groups: Any, expect: Any, world: LogWorld, name: str) -> None:
    groups.get_by_role("link", name=name, exact=True).click()
    tab(groups, "Reset")
    dry = groups.get_by_role("region", name="Dry run").locator("tbody tr")
    expect(dry.nth(0)).to_contain_text("-4")
    groups.get_by_label("To", exact=True).select_option("shift")
    groups.get_by_label("Records", exact=True).fill("3")
    expect(dry.nth(1).locator("td")).to_have_text(["orders", "1", "6", "9", "+3", "1"])
    expect(groups.locator(".reach")).to_contain_text("2 partitions, +6 records in total")
    expect(groups.locator(".copyable pre")).to_contain_text("--shift-by 3 --execute")
    assert world.committed(name, "orders") == {0: 4, 1: 6}
    groups.get_by_label("Topics", exact=True).select_option("orders")
    groups.get_by_label("Partitions", exact=True).fill("1")
    expect(dry).to_have_count(1)
    groups.get_by_role("button", name="Reset offsets", exact=True).click()
    expect(groups.locator(".toast")).to_contain_text("Reset 1 offset of")
    assert world.committed(name, "orders") == {0: 4, 1: 9}


def test_wrong_input_is_reported_and_kept(groups: Any, expect: Any) -> None:
    reports(groups, "reset")
    save = groups.get_by_role("button", name="Reset offsets", exact=True)
    for kind, label, typed, words in (
        ("shift", "Records", "far", "Enter a number of records"),
        ("shift", "Records", "0", "Enter a number of records"),
        ("offset", "Offset", "-1", "Enter an offset"),
        ("offset", "Offset", "9" * 16, "Enter an offset"),
    ):
        groups.get_by_label("To", exact=True).select_option(kind)
        groups.get_by_label(label, exact=True).fill(typed)
        expect(groups.locator(".reach")).to_contain_text(words)
        expect(groups.get_by_label(label, exact=True)).to_have_value(typed)
        expect(save).to_be_disabled()


def test_members_that_forbid_it_are_named(groups: Any, expect: Any, world: LogWorld) -> None:
    reports(groups, "reset")
    expect(groups.get_by_role("region", name="Dry run")).to_be_visible()
    world.join("reports", "<i>billing</i>", "/10.0.0.9")
    groups.get_by_role("button", name="Reset offsets", exact=True).click()
    alert = groups.locator(".editor").get_by_role("alert")
    expect(alert).to_contain_text("The group reports is in use")
    expect(alert.get_by_role("region", name="Members")).to_contain_text("<i>billing</i>")
    assert world.committed("reports", "orders") == {0: 4, 1: 6}


def test_offsets_and_the_group_are_deleted(groups: Any, expect: Any, world: LogWorld) -> None:
    reports(groups, "offsets")
    groups.get_by_role("button", name="Delete the offsets of orders").click()
    groups.get_by_role("button", name="Delete offsets", exact=True).click()
    expect(groups.locator(".toast")).to_contain_text("Deleted the offsets of orders.")
    assert world.committed("reports", "orders") == {}
    groups.goto(groups.url.partition("/groups")[0] + "/groups")
    groups.get_by_role("link", name="<b>a/b</b>", exact=True).click()
    groups.locator("#delete").click()
    groups.locator("form.editor").get_by_role("button", name="Delete group").click()
    expect(groups).to_have_url(re.compile("/groups$"))
    expect(groups.locator("#count")).to_have_text("1 group")
    expect(groups.locator(".toast")).to_contain_text("Deleted <b>a/b</b>.")
    assert not world.groups.coordinator.overview("<b>a/b</b>")


def test_the_lag_is_drawn_in_total_and_of_a_group(groups: Any, expect: Any) -> None:
    expect(groups.locator("#lag-now")).to_have_text("20 records")
    expect(groups.get_by_label("Lag of all groups, over time")).to_be_visible()
    reports(groups, "offsets")
    expect(groups.get_by_label("Lag of the group, over time")).to_be_visible()
    expect(groups.get_by_role("region", name="Offsets")).to_contain_text("orders")


def test_lost_records_are_marked_and_such_groups_come_first(
    page: Watched, expect: Any, world: LogWorld
) -> None:
    log = world.partitions.log("orders", 0)
    assert log is not None
    log.delete_records_before(7)
    world.commit("ahead", "orders", 9, 0)
    page.sign_in()
    groups = page.go("/groups")
    rows = groups.locator("#table tbody tr")
    expect(rows.first).to_contain_text("3 lost")
    expect(rows.nth(2)).to_contain_text("ahead")
    expect(rows.nth(2)).not_to_contain_text("lost")
    groups.get_by_label("Filter groups").select_option("lost")
    expect(rows).to_have_count(2)
    reports(groups, "offsets")
    expect(groups.locator("#facts")).to_contain_text("Lost to retention3")
    cells = groups.get_by_role("region", name="Offsets").locator("tbody tr").first.locator("td")
    expect(cells.nth(4)).to_have_text("6")
    expect(cells.nth(5)).to_have_text("3")


def test_a_group_that_does_not_exist_has_a_page_that_says_so(page: Watched, expect: Any) -> None:
    page.sign_in()
    answer = page.page.goto(f"{page.console.pages}/groups/nothing%20here")
    assert answer.status == 404
    expect(page.page.get_by_role("heading", level=1)).to_have_text("This group does not exist")
    expect(page.page.get_by_role("heading", level=2)).to_contain_text("nothing here")
    page.page.locator("main").get_by_role("link", name="All groups").click()
    expect(page.page).to_have_url(re.compile("/groups$"))


def test_a_group_that_is_deleted_meanwhile_is_said_to_be_gone(
    groups: Any, expect: Any, world: LogWorld
) -> None:
    reports(groups, "offsets")
    expect(groups.get_by_role("region", name="Offsets")).to_be_visible()
    world.drop("reports")
    expect(groups.locator(".notice[role=alert]")).to_contain_text("This group does not exist any more")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_group_of_any_name_has_an_address(page: Watched, expect: Any, world: LogWorld, name: str) -> None:
    world.commit(name, "orders", 1, 2)
    page.sign_in()
    groups = page.go("/groups")
    link = groups.locator(f"#table a.name[href='{address(name)}']")
    expect(link).to_have_count(1)
    box = link.bounding_box()
    assert box["height"] < 30, "one line"
    link.click()
    expect(groups.locator("#facts")).to_contain_text("Lag (records)17")
    tab(groups, "Offsets")
    expect(groups.get_by_role("region", name="Offsets").locator("tbody tr")).to_have_count(2)
    groups.go_back()
    groups.go_back()
    expect(groups).to_have_url(re.compile("/groups$"))


@pytest.mark.parametrize(("lag", "text"), [(None, "unknown"), (7, "≥ 7")])
def test_a_lag_that_is_not_known_is_not_shown_as_one_that_is(
    page: Watched,
    expect: Any,
    monkeypatch: pytest.MonkeyPatch,
    lag: int | None,
    text: str,
) -> None:
    row = GroupRow("far", "Stable", "consumer", 1, lag, lag_is_known=False)
    monkeypatch.setattr("broker.views.topics.group_rows", lambda _groups: iter([row]))
    page.sign_in()
    expect(page.go("/groups").locator("#table tbody tr")).to_contain_text(text)


def test_a_viewer_changes_no_group(page: Watched, expect: Any) -> None:
    page.sign_in("viewer-token")
    opened = page.go("/groups")
    expect(opened.locator("#table tbody tr")).to_have_count(2)
    reports(opened, "offsets")
    expect(opened.get_by_role("region", name="Offsets")).to_be_visible()
    refused_buttons(opened, "#body button[aria-label^=Delete]", "editor", 1)
    refused_buttons(opened, "#delete", "editor", 1)
    reports(opened, "reset")
    save = opened.locator("form.editor button[type=submit]")
    expect(save).to_have_attribute("aria-disabled", "true")
    expect(save).to_have_attribute("title", re.compile("needs the role editor"))


def test_a_group_shows_its_type_and_a_consumer_group_its_members(
    world: LogWorld, page: Watched, expect: Any
) -> None:
    world.consume("readers", "orders", client_id="mobile")
    page.sign_in()
    groups = page.go("/groups")
    row = groups.locator("#table tr").filter(has_text="readers").first
    expect(row).to_contain_text("consumer")
    expect(row).to_contain_text("Stable")
    expect(groups.locator("#table tr").filter(has_text="reports").first).to_contain_text("classic")
    row.get_by_role("link").click()
    details = groups.locator("#body")
    expect(details).to_contain_text("mobile")
    expect(details).to_contain_text("10.0.0.7")
    expect(details).to_contain_text("Consumer group, protocol consumer, assignor uniform")


def test_a_group_shows_the_number_of_its_dead_letters(groups: Any, expect: Any, world: LogWorld) -> None:
    counts = world.dead_letters["reports"] = DeadLetterCounts()
    counts.records = 7
    reports(groups, "members")
    expect(groups.locator("#body")).to_contain_text("7 dead letters since the start")


def test_a_reset_that_is_refused_keeps_its_dry_run(groups: Any, expect: Any) -> None:
    problem = '{"status": 503, "title": "Unavailable", "detail": "The broker is busy."}'
    groups.route(
        "**/offsets:reset",
        lambda route: route.fulfill(status=503, content_type="application/problem+json", body=problem),
    )
    reports(groups, "reset")
    moves = groups.locator("form.editor .reach table")
    expect(moves).to_be_visible()
    groups.locator("form.editor button[type=submit]").click()
    expect(groups.locator("form.editor .field-error")).to_have_text("The broker is busy.")
    expect(moves).to_be_visible()

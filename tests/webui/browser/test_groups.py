"""Groups on their page: offsets reset after a dry run, deleted, and the lag drawn."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.controller.rows.topics import GroupRow
from broker.coordinator.share.dead_letters import DeadLetterCounts
from tests.webui.browser.conftest import Watched, refused_buttons
from tests.webui.log_world import LoggedBroker, LogWorld

NAMES = ("reports", "<b>a/b</b>")


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


@pytest.mark.parametrize("name", NAMES)
def test_offsets_are_reset_after_a_dry_run(groups: Any, expect: Any, world: LogWorld, name: str) -> None:
    groups.get_by_label(f"Reset offsets of {name}", exact=True).click()
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
    groups.get_by_label("Reset offsets of reports").click()
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
    groups.get_by_label("Reset offsets of reports").click()
    expect(groups.get_by_role("region", name="Dry run")).to_be_visible()
    world.join("reports", "<i>billing</i>", "/10.0.0.9")
    groups.get_by_role("button", name="Reset offsets", exact=True).click()
    alert = groups.locator(".editor").get_by_role("alert")
    expect(alert).to_contain_text("The group reports is in use")
    expect(alert.get_by_role("region", name="Members")).to_contain_text("<i>billing</i>")
    assert world.committed("reports", "orders") == {0: 4, 1: 6}


def test_offsets_and_the_group_are_deleted(groups: Any, expect: Any, world: LogWorld) -> None:
    groups.get_by_role("button", name="reports", exact=True).click()
    groups.get_by_role("button", name="Delete the offsets of orders").click()
    groups.get_by_role("button", name="Delete offsets", exact=True).click()
    expect(groups.locator(".toast")).to_contain_text("Deleted the offsets of orders.")
    assert world.committed("reports", "orders") == {}
    groups.get_by_label("Delete <b>a/b</b>", exact=True).click()
    groups.get_by_role("button", name="Delete group").click()
    expect(groups.locator("#table tbody tr", has_text="a/b")).to_have_count(0)


def test_the_lag_is_drawn_in_total_and_of_a_group(groups: Any, expect: Any) -> None:
    expect(groups.locator("#lag-now")).to_have_text("20 records")
    expect(groups.get_by_label("Lag of all groups, over time")).to_be_visible()
    groups.get_by_role("button", name="reports", exact=True).click()
    expect(groups.get_by_label("Lag of the group, over time")).to_be_visible()
    expect(groups.get_by_role("region", name="Offsets")).to_contain_text("orders")


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
    refused_buttons(opened, "#table .actions button", "editor", 4)


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
    row.locator(".opener").click()
    details = groups.locator("tr.panel").first
    expect(details).to_contain_text("mobile")
    expect(details).to_contain_text("10.0.0.7")
    expect(details).to_contain_text("Consumer group, protocol consumer, assignor uniform")


def test_a_group_shows_the_number_of_its_dead_letters(groups: Any, expect: Any, world: LogWorld) -> None:
    counts = world.dead_letters["reports"] = DeadLetterCounts()
    counts.records = 7
    groups.locator("#table tr").filter(has_text="reports").first.locator(".opener").click()
    expect(groups.locator("tr.panel").first).to_contain_text("7 dead letters since the start")


def test_a_reset_that_is_refused_keeps_its_dry_run(groups: Any, expect: Any) -> None:
    problem = '{"status": 503, "title": "Unavailable", "detail": "The broker is busy."}'
    groups.route(
        "**/offsets:reset",
        lambda route: route.fulfill(status=503, content_type="application/problem+json", body=problem),
    )
    groups.get_by_label("Reset offsets of reports", exact=True).click()
    moves = groups.locator("form.editor .reach table")
    expect(moves).to_be_visible()
    groups.locator("form.editor button[type=submit]").click()
    expect(groups.locator("form.editor .field-error")).to_have_text("The broker is busy.")
    expect(moves).to_be_visible()

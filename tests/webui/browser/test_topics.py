"""Topics on their page: created, extended, configured and deleted."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.log.cleaner.harness import clean, put
from tests.webui.browser.conftest import Watched, refused_buttons
from tests.webui.log_world import LoggedBroker, LogWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LogWorld]:
    world = LogWorld(tmp_path)
    world.topic("orders", 2, retention_ms="5")
    yield world
    world.close()


@pytest.fixture
def broker(world: LogWorld) -> LoggedBroker:
    return LoggedBroker(world)


@pytest.fixture
def topics(page: Watched) -> Any:
    page.sign_in()
    return page.go("/topics")


def alert(page: Any) -> Any:
    return page.locator(".editor").get_by_role("alert")


def test_a_topic_is_created_after_a_preview(topics: Any, expect: Any, world: LogWorld) -> None:
    topics.locator("body").press("n")
    topics.get_by_label("Name", exact=True).fill("clicks")
    topics.get_by_label("Partitions", exact=True).fill("3")
    for typed, words in (
        ("retention.ms=soon", "retention.ms: enter a duration, such as 5 min."),
        ("retention.ms=10,000", "10,000 may mean 10000 or 10; write 10000 or 10."),
    ):
        topics.get_by_label("Configuration").fill(typed)
        expect(alert(topics)).to_contain_text(words)
        expect(topics.get_by_role("button", name="Create topic")).to_be_disabled()
    topics.get_by_label("Configuration").fill("nonsense=1")
    expect(alert(topics)).to_contain_text("nonsense")
    topics.get_by_label("Configuration").fill("retention.ms=7d")
    expect(topics.locator(".copyable pre")).to_contain_text("--config retention.ms=604800000")
    topics.get_by_label("Configuration").fill("retention.ms=7")
    expect(topics.locator(".reach")).to_contain_text("3 partitions, 1 setting of its own.")
    expect(topics.locator(".copyable pre")).to_contain_text(
        "--partitions 3 --replication-factor 1 --config retention.ms=7"
    )
    topics.get_by_role("button", name="Create topic").click()
    expect(topics.locator("#table tbody tr", has_text="clicks")).to_contain_text("retention.ms")
    assert world.control.image.topics["clicks"].partitions == 3


def test_a_name_that_is_taken_or_none_is_reported_and_kept(topics: Any, expect: Any) -> None:
    topics.get_by_role("button", name="Create a topic").click()
    name = topics.get_by_label("Name", exact=True)
    for typed, words in (
        ("orders", "already exists"),
        ("a b", "characters other than"),
        ("..", "not allowed"),
    ):
        name.fill(typed)
        expect(alert(topics)).to_contain_text(words)
        expect(name).to_have_value(typed)
    topics.keyboard.press("Escape")
    topics.get_by_role("button", name="Discard").click()
    expect(topics.get_by_role("button", name="Create a topic")).to_be_focused()


def test_partitions_are_added(topics: Any, expect: Any, world: LogWorld) -> None:
    topics.get_by_label("Add partitions to orders").click()
    total = topics.get_by_label("Number of partitions")
    total.fill("1")
    expect(topics.locator(".reach")).to_contain_text("their number can only increase")
    total.fill("5")
    expect(topics.locator(".reach")).to_contain_text("2 → 5 partitions")
    topics.get_by_role("button", name="Add partitions", exact=True).click()
    expect(topics.locator(".toast")).to_contain_text("orders has 5 partitions.")
    assert world.control.image.topics["orders"].partitions == 5


def test_settings_are_set_and_removed(topics: Any, expect: Any, world: LogWorld) -> None:
    topics.get_by_label("Configure orders").click()
    table = topics.get_by_role("region", name="Configuration")
    row = table.locator("tbody tr", has_text="retention.ms")
    for words in ("5", "this topic", "604800000"):
        expect(row).to_contain_text(words)
    topics.get_by_label("Remove retention.ms").click()
    topics.get_by_label("Only this topic’s own").uncheck()
    topics.get_by_label("Search settings").fill("segment.bytes")
    topics.get_by_label("Set segment.bytes").click()
    value = topics.get_by_label("Value of segment.bytes")
    value.fill("many")
    expect(alert(topics)).to_have_text("segment.bytes: enter a number with a unit, such as 10 MB.")
    value.fill("1")
    expect(alert(topics)).to_contain_text("Invalid value 1")
    value.fill("1 MiB")
    expect(topics.locator(".copyable pre")).to_contain_text(
        "--add-config segment.bytes=1048576 --delete-config retention.ms"
    )
    topics.get_by_role("button", name="Save configuration").click()
    expect(topics.locator(".toast")).to_contain_text("Saved 2 settings of orders.")
    assert world.control.image.topics["orders"].configs == {"segment.bytes": "1048576"}


def test_an_edit_of_somebody_else_is_shown_and_not_overwritten_unseen(
    topics: Any, expect: Any, world: LogWorld
) -> None:
    topics.get_by_label("Configure orders").click()
    topics.get_by_label("Set retention.ms").click()
    topics.get_by_label("Value of retention.ms").fill("8")
    expect(topics.locator(".copyable pre")).to_contain_text("retention.ms=8")
    world.set("orders", "retention.ms", "7")
    topics.get_by_role("button", name="Save configuration").click()
    conflict = topics.locator(".conflict")
    expect(conflict.locator("td")).to_have_text(["7", "8"])
    assert world.control.image.topics["orders"].configs == {"retention.ms": "7"}
    conflict.get_by_role("button", name="Keep mine to overwrite").click()
    expect(topics.get_by_label("Value of retention.ms")).to_have_value("8")
    topics.get_by_role("button", name="Save configuration").click()
    expect(topics.locator(".toast")).to_contain_text("Saved")
    assert world.control.image.topics["orders"].configs == {"retention.ms": "8"}


def test_a_topic_is_deleted_after_its_name_is_typed(topics: Any, expect: Any, world: LogWorld) -> None:
    topics.get_by_label("Delete orders").click()
    delete = topics.get_by_role("button", name="Delete topic")
    for typed in ("", "order", "Orders"):
        topics.get_by_label("Type the topic’s name to confirm").fill(typed)
        expect(delete).to_be_disabled()
    topics.get_by_label("Type the topic’s name to confirm").fill("orders")
    delete.click()
    expect(topics.locator("#table")).to_contain_text("No topics yet")
    assert world.control.image.topics == {}


def test_a_lost_connection_keeps_what_was_typed(topics: Any, expect: Any, world: LogWorld) -> None:
    topics.locator("body").press("n")
    topics.get_by_label("Name", exact=True).fill("clicks")
    expect(topics.locator(".copyable pre")).to_contain_text("clicks")
    topics.route("**/api/v1/topics", lambda route: route.abort())
    topics.get_by_role("button", name="Create topic").click()
    expect(alert(topics)).to_contain_text("The broker does not respond.")
    expect(topics.get_by_label("Name", exact=True)).to_have_value("clicks")
    topics.unroute("**/api/v1/topics")
    topics.get_by_role("button", name="Create topic").click()
    expect(topics.locator(".toast")).to_contain_text("Created clicks.")


def test_a_viewer_changes_no_topic(page: Watched, expect: Any) -> None:
    page.sign_in("viewer-token")
    opened = page.go("/topics")
    refused_buttons(opened, "#table .actions button:not([aria-label^=Delete])", "editor", 2)
    refused_buttons(opened, "#table .actions button[aria-label^=Delete]", "admin", 1)
    refused_buttons(opened, "#add", "editor", 1)


def test_a_compacted_topic_shows_what_the_cleaner_did(topics: Any, expect: Any, world: LogWorld) -> None:
    world.topic("customers", 2, cleanup_policy="compact")
    log = world.partitions.log("customers", 0)
    assert log is not None
    for value in ("1", "2", "3"):
        put(log, ("a", value))
    log.roll()
    clean(world.log, log, now=world.clock.wall_ms(), manager=world.cleaner)
    failing = world.partitions.log("customers", 1)
    assert failing is not None
    put(failing, ("a", "1"))
    failing.roll()
    world.cleaner.fail(failing, "bytes are damaged")
    topics.reload()
    topics.get_by_role("button", name="customers", exact=True).click()
    table = topics.get_by_role("region", name="Partitions")
    expect(table.get_by_role("columnheader")).to_have_text(
        ["Partition", "First offset", "End", "Records", "Size", "Segments", "Dirty", "Last compaction"]
    )
    cells = table.locator("tbody tr")
    expect(cells.nth(0)).to_contain_text("0 %")
    expect(cells.nth(0)).to_contain_text("B to ")
    expect(cells.nth(1)).to_contain_text("100 %")
    expect(cells.nth(1)).to_contain_text("failed: not until the next start")


def test_other_topics_show_nothing_of_compaction(topics: Any, expect: Any) -> None:
    topics.get_by_role("button", name="orders", exact=True).click()
    expect(topics.get_by_role("region", name="Partitions").locator("tbody tr")).to_have_count(2)
    expect(topics.get_by_role("region", name="Partitions")).not_to_contain_text("Last compaction")

"""Topics on their pages: created, extended, configured and deleted, one or several."""

import re
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


def orders(page: Any, tab: str) -> None:
    page.goto(f"{page.url.partition('/topics')[0]}/topics/orders?tab={tab}")


def alert(page: Any) -> Any:
    return page.locator(".editor").get_by_role("alert")


def test_a_topic_is_created_after_a_preview(topics: Any, expect: Any, world: LogWorld) -> None:
    topics.locator("body").press("n")
    topics.get_by_label("Name", exact=True).fill("clicks")
    topics.get_by_label("Partitions", exact=True).fill("3")
    topics.get_by_text("Other settings").click()
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
    expect(topics.locator("#table tbody tr", has_text="clicks")).to_contain_text("7 ms")
    assert world.control.image.topics["clicks"].partitions == 3
    topics.locator(".toast").get_by_role("button", name="Open").click()
    expect(topics).to_have_url(re.compile("/topics/clicks$"))


def test_the_common_settings_have_fields(topics: Any, expect: Any, world: LogWorld) -> None:
    topics.locator("#add").click()
    topics.get_by_label("Name", exact=True).fill("clicks")
    topics.get_by_label("Keep records for").fill("soon")
    expect(alert(topics)).to_have_text("Keep records for: enter a duration, such as 5 min.")
    topics.get_by_label("Keep records for").fill("2 d")
    topics.get_by_label("Keep at most").fill("10 GiB")
    topics.get_by_label("Old records").select_option("compact,delete")
    topics.get_by_label("Compression").select_option("zstd")
    topics.get_by_text("Other settings").click()
    topics.get_by_label("Configuration").fill("retention.ms=1d")
    expect(alert(topics)).to_have_text("retention.ms is set twice.")
    topics.get_by_label("Configuration").fill("segment.bytes=1 MiB")
    topics.get_by_role("button", name="Create topic").click()
    expect(topics.locator(".toast")).to_contain_text("Created clicks.")
    assert world.control.image.topics["clicks"].configs == {
        "retention.ms": "172800000",
        "retention.bytes": "10737418240",
        "cleanup.policy": "compact,delete",
        "compression.type": "zstd",
        "segment.bytes": "1048576",
    }


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
    orders(topics, "partitions")
    topics.get_by_role("button", name="Add partitions").click()
    total = topics.get_by_label("Number of partitions")
    total.fill("1")
    expect(topics.locator(".reach")).to_contain_text("their number can only increase")
    total.fill("5")
    expect(topics.locator(".reach")).to_contain_text("2 → 5 partitions")
    topics.locator("form.editor").get_by_role("button", name="Add partitions").click()
    expect(topics.locator(".toast")).to_contain_text("orders has 5 partitions.")
    assert world.control.image.topics["orders"].partitions == 5


def test_settings_are_set_and_removed(topics: Any, expect: Any, world: LogWorld) -> None:
    orders(topics, "config")
    table = topics.get_by_role("region", name="Configuration")
    row = table.locator("tbody tr", has=topics.locator("code", has_text=re.compile("^retention.ms$")))
    for words in ("5 ms", "this topic", "7 d"):
        expect(row).to_contain_text(words)
    heads = table.locator("tr.group")
    expect(heads).to_have_text(
        ["Retention", "Compaction", "Records", "Durability", "Files", "Tiered storage", "Other"]
    )
    for marks in ("`", "](", ".md", "9223372036854775807", "604800000"):
        expect(table).not_to_contain_text(marks)
    topics.get_by_label("Remove retention.ms").click()
    topics.get_by_label("Search settings").fill("segment.bytes")
    topics.get_by_label("Set segment.bytes").click()
    value = topics.get_by_label("Value of segment.bytes")
    value.fill("many")
    expect(value).to_have_attribute("aria-invalid", "true")
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


def test_the_button_that_saves_is_in_sight_of_the_field(topics: Any, expect: Any) -> None:
    orders(topics, "config")
    save = topics.get_by_role("button", name="Save configuration")
    expect(topics.get_by_label("Set retention.ms")).to_be_visible()
    expect(save).to_be_hidden()
    topics.get_by_label("Set retention.ms").click()
    for typed, words in (("soon", "enter a duration"), ("3 days", "retention.ms=259200000")):
        topics.get_by_label("Value of retention.ms").fill(typed)
        expect(topics.locator(".save-bar")).to_contain_text(words)
        expect(save).to_be_in_viewport(ratio=1)
        expect(topics.get_by_label("Value of retention.ms")).to_be_in_viewport(ratio=1)
    topics.get_by_label("Keep retention.ms").click()
    expect(save).to_be_hidden()


def test_numbers_of_settings_have_no_marks(topics: Any, expect: Any) -> None:
    orders(topics, "config")
    table = topics.get_by_role("region", name="Configuration")
    row = table.locator("tbody tr", has=topics.locator("code", has_text=re.compile("^max.message.records$")))
    expect(row.locator("[data-label=Value]")).to_have_text("262\u202f144")
    expect(table).not_to_contain_text("U+")


def test_an_edit_of_somebody_else_is_shown_and_not_overwritten_unseen(
    topics: Any, expect: Any, world: LogWorld
) -> None:
    orders(topics, "config")
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
    orders(topics, "config")
    topics.locator("#delete").click()
    delete = topics.locator("form.editor").get_by_role("button", name="Delete topic")
    for typed in ("", "order", "Orders"):
        topics.get_by_label("Type the topic’s name to confirm").fill(typed)
        expect(delete).to_be_disabled()
    topics.get_by_label("Type the topic’s name to confirm").fill("orders")
    delete.click()
    expect(topics).to_have_url(re.compile("/topics$"))
    expect(topics.locator("#table")).to_contain_text("No topics yet")
    expect(topics.locator(".toast")).to_contain_text("Deleted orders.")
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
    refused_buttons(opened, "#add", "editor", 1)
    opened.get_by_label("Select orders").check()
    refused_buttons(opened, "#selected button:has-text('Configure')", "editor", 1)
    refused_buttons(opened, "#selected button:has-text('Delete')", "admin", 1)
    orders(opened, "partitions")
    refused_buttons(opened, "#extend", "editor", 1)
    refused_buttons(opened, "#delete", "admin", 1)


def test_several_topics_are_configured_and_deleted_after_a_typed_confirmation(
    page: Watched, expect: Any, world: LogWorld
) -> None:
    for number in range(3):
        world.topic(f"clicks-{number}")
    page.sign_in()
    topics = page.go("/topics?q=clicks")
    topics.get_by_label("Select every topic on this page").check()
    topics.get_by_role("button", name="Configure…").click()
    editor = topics.locator("form.editor")
    editor.get_by_label("Setting").fill("retention.ms")
    editor.get_by_label("Value").fill("soon")
    expect(alert(topics)).to_contain_text("retention.ms: enter a duration")
    editor.get_by_label("Value").fill("3d")
    change = editor.get_by_role("button", name="Change 3 topics")
    expect(change).to_be_disabled()
    editor.get_by_label("to confirm").fill("change 3")
    change.click()
    expect(topics.locator(".toast")).to_contain_text("Changed 3 topics.")
    own = [world.control.image.topics[f"clicks-{number}"].configs for number in range(3)]
    assert own == [{"retention.ms": "259200000"}] * 3
    expect(topics.locator("#table tbody tr").first).to_contain_text("3 d")
    topics.get_by_label("Select clicks-0").check()
    topics.get_by_label("Select clicks-2").check()
    topics.get_by_role("button", name="Delete…").click()
    delete = editor.get_by_role("button", name="Delete 2 topics")
    for typed in ("", "delete", "delete 3"):
        editor.get_by_label("to confirm").fill(typed)
        expect(delete).to_be_disabled()
    editor.get_by_label("to confirm").fill("delete 2")
    delete.click()
    expect(topics.locator(".toast")).to_contain_text("Deleted 2 topics.")
    assert sorted(world.control.image.topics) == ["clicks-1", "orders"]
    expect(topics.locator("#selected")).to_be_hidden()


def test_what_fails_of_several_is_listed_and_left(page: Watched, expect: Any, world: LogWorld) -> None:
    world.topic("clicks")
    page.sign_in()
    topics = page.go("/topics")
    topics.get_by_label("Select every topic on this page").check()
    topics.get_by_role("button", name="Delete…").click()
    topics.get_by_label("to confirm").fill("delete 2")
    world.set("orders", "retention.ms", "7")
    topics.locator("form.editor").get_by_role("button", name="Delete 2 topics").click()
    expect(alert(topics)).to_contain_text("Deleted 1 topic. 1 topic failed:")
    expect(alert(topics).locator("li")).to_contain_text("orders: ")
    assert sorted(world.control.image.topics) == ["orders"]


def test_a_topic_that_does_not_exist_has_a_page_that_says_so(page: Watched, expect: Any) -> None:
    page.sign_in()
    answer = page.page.goto(f"{page.console.pages}/topics/Orders?tab=config")
    assert answer.status == 404
    expect(page.page.get_by_role("heading", level=1)).to_have_text("This topic does not exist")
    page.page.locator("main").get_by_role("link", name="All topics").click()
    expect(page.page.locator("#table tbody tr")).to_have_count(1)


def test_a_long_name_is_one_line_with_a_tooltip_and_a_button_that_copies(
    page: Watched, expect: Any, world: LogWorld
) -> None:
    name = "a." * 124 + "z"
    world.topic(name, 1)
    page.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.sign_in()
    topics = page.go("/topics")
    rows = topics.locator("#table tbody tr")
    expect(rows).to_have_count(2)
    assert len({row.bounding_box()["height"] for row in rows.all()}) == 1
    expect(rows.first.get_by_role("link")).to_have_attribute("title", name)
    rows.first.get_by_role("button", name=f"Copy {name}").click()
    expect(rows.first.locator(".copy")).to_have_attribute("data-said", "Copied")
    assert topics.evaluate("navigator.clipboard.readText()") == name
    rows.first.get_by_role("link").hover()
    expect(rows.first.locator("td").first.get_by_role("button")).to_have_count(1)
    rows.first.get_by_role("link").click()
    expect(topics.locator("#facts")).to_contain_text("Partitions1")
    expect(topics).to_have_title(f"{name} · Weir")


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
    topics.goto(f"{topics.url.partition('/topics')[0]}/topics/customers?tab=partitions")
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
    orders(topics, "partitions")
    expect(topics.get_by_role("region", name="Partitions").locator("tbody tr")).to_have_count(2)
    expect(topics.get_by_role("region", name="Partitions")).not_to_contain_text("Last compaction")

"""The page of client metrics: subscriptions written in place, and what clients say of themselves."""

from typing import Any

import pytest

from broker.controller.commands import (
    Actor,
    ChangeOrigin,
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    OpType,
    ResourceType,
    Role,
)
from tests.webui.browser.conftest import Watched
from tests.webui.fakes import FakeBroker
from tests.webui.rows import NOW_MS


@pytest.fixture
def telemetry(page: Watched, broker: FakeBroker) -> Any:
    world = broker.telemetry
    orders = world.join("orders-1")
    world.join("orders-2", software="librdkafka")
    world.join("billing")
    for number in range(5):
        world.say(orders, NOW_MS + 1_000 * number, queue=float(number * number), latency=3.5)
    page.sign_in()
    return page.go("/client-metrics")


def subscription(page: Any, name: str) -> Any:
    return page.locator("#subscriptions tbody tr:not(.panel)", has_text=name)


def client(page: Any, name: str) -> Any:
    return page.locator("#table tbody tr:not(.panel)", has_text=name)


def write(page: Any, name: str, match: str = "") -> None:
    page.keyboard.press("n")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Metrics", exact=True).fill("org.a.\norg.b.")
    page.get_by_label("Client match").fill(match)
    page.get_by_label("Interval", exact=True).fill("30 s")


def alter(broker: FakeBroker, name: str, wanted: dict[str, str]) -> None:
    """Another user does."""
    ops = tuple(ConfigOp(key, OpType.SET, value) for key, value in wanted.items())
    alteration = ConfigAlteration(ConfigResource(ResourceType.CLIENT_METRICS, name), ops)
    assert broker.telemetry.configure(
        alteration, Actor("somebody", Role.EDITOR, "10.0.0.9", ChangeOrigin.REST)
    ).ok


def test_a_subscription_is_written_with_the_clients_that_it_would_be_for(
    telemetry: Any, expect: Any, broker: FakeBroker
) -> None:
    expect(telemetry.locator("#subscriptions")).to_contain_text("No subscription yet")
    write(telemetry, "queues", "client_id=orders-.*")
    expect(telemetry.locator(".reach")).to_contain_text("2 of the 3 known clients match: orders-1, orders-2")
    expect(telemetry.locator(".copyable pre")).to_contain_text("--metrics org.a.,org.b. --interval 30000")
    telemetry.get_by_role("button", name="Save subscription").click()
    for words in ("org.a.", "org.b.", "30 s", "client_id=orders-.*", "by ann"):
        expect(subscription(telemetry, "queues")).to_contain_text(words)
    expect(client(telemetry, "orders-2")).to_contain_text("queues")
    telemetry.get_by_role("button", name="Undo").click()
    expect(telemetry.locator(".toast")).to_contain_text("Restored")
    assert broker.telemetry.world.image.client_metrics == {}


@pytest.mark.parametrize("name", ["..", "a/b", "%2F", " a"])
def test_a_subscription_of_any_name_is_opened_edited_and_removed(
    telemetry: Any, expect: Any, broker: FakeBroker, name: str
) -> None:
    alter(broker, name, {"metrics": "org.a."})
    telemetry.get_by_role("button", name=f"Edit {name}", exact=True).click()
    editor = telemetry.locator("form.editor")
    editor.get_by_label("Metrics", exact=True).fill("org.b.")
    expect(editor.locator(".reach")).to_contain_text("3 of the 3 known clients match")
    editor.get_by_role("button", name="Save subscription").click()
    row = telemetry.locator("#subscriptions tbody tr:not(.panel)")
    expect(row).to_contain_text("org.b.")
    assert broker.telemetry.world.image.client_metrics[name].configs["metrics"] == "org.b."
    row.get_by_role("button", name="Remove").click()
    telemetry.locator("form.editor").get_by_role("button", name="Remove subscription").click()
    expect(telemetry.locator("#subscriptions")).to_contain_text("No subscription yet")
    assert broker.telemetry.world.image.client_metrics == {}


def test_an_expression_that_is_none_is_reported_before_it_is_saved(telemetry: Any, expect: Any) -> None:
    write(telemetry, "queues", "client_id=(")
    expect(telemetry.get_by_role("alert")).to_contain_text("missing )")
    telemetry.get_by_label("Client match").fill("client_id=nobody")
    expect(telemetry.locator(".reach")).to_contain_text("None of the 3 known clients matches.")


def test_an_interval_that_makes_no_sense_stands_beside_its_field(telemetry: Any, expect: Any) -> None:
    write(telemetry, "queues")
    field = telemetry.get_by_label("Interval", exact=True)
    for typed in ("99", "61 min", "soon", "-1"):
        field.fill(typed)
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(telemetry.get_by_role("button", name="Save subscription")).to_be_disabled()
    field.fill("1 h")
    expect(telemetry.get_by_role("button", name="Save subscription")).to_be_enabled()
    telemetry.keyboard.press("Escape")
    telemetry.get_by_role("button", name="Discard").click()
    expect(telemetry.get_by_role("button", name="Add a subscription").first).to_be_focused()


def test_a_subscription_is_removed_and_comes_back(telemetry: Any, expect: Any, broker: FakeBroker) -> None:
    write(telemetry, "queues", "client_id=orders-1")
    telemetry.get_by_role("button", name="Save subscription").click()
    telemetry.get_by_label("Remove queues").click()
    expect(telemetry.locator(".copyable pre")).to_contain_text("--delete --name queues")
    telemetry.get_by_role("button", name="Remove subscription").click()
    expect(telemetry.locator("#subscriptions")).to_contain_text("No subscription yet")
    telemetry.get_by_role("button", name="Undo").click()
    expect(subscription(telemetry, "queues")).to_contain_text("client_id=orders-1")


def test_both_versions_are_shown_after_a_concurrent_edit(
    telemetry: Any, expect: Any, broker: FakeBroker
) -> None:
    write(telemetry, "queues")
    telemetry.get_by_role("button", name="Save subscription").click()
    telemetry.get_by_label("Edit queues").click()
    telemetry.get_by_label("Metrics", exact=True).fill("org.mine.")
    expect(telemetry.locator(".copyable pre")).to_contain_text("org.mine.")
    alter(broker, "queues", {"metrics": "org.theirs.", "interval.ms": "60000"})
    telemetry.get_by_role("button", name="Save subscription").click()
    conflict = telemetry.locator(".conflict")
    expect(conflict).to_contain_text("changed this subscription in the meantime")
    expect(conflict.locator("tr", has_text="Metrics").locator("td")).to_have_text(
        ["org.theirs.", "org.mine."]
    )
    expect(conflict.locator("tr", has_text="Interval").locator("td")).to_have_text(["1 min", "30 s"])
    assert broker.telemetry.world.image.client_metrics["queues"].configs["metrics"] == "org.theirs."
    expect(telemetry.get_by_label("Metrics", exact=True)).to_have_value("org.mine.")
    conflict.get_by_role("button", name="Overwrite").click()
    expect(telemetry.locator(".editor")).to_have_count(0)
    assert broker.telemetry.world.image.client_metrics["queues"].configs["metrics"] == "org.mine."


def test_the_subscriptions_are_sorted_and_keep_that_in_the_address(
    telemetry: Any, expect: Any, broker: FakeBroker
) -> None:
    for name, every in (("b", "60000"), ("a", "30000"), ("c", "1000")):
        alter(broker, name, {"metrics": "*", "interval.ms": every})
    broker.version += 1
    names = telemetry.locator("#subscriptions tbody tr td:first-child")
    expect(names).to_have_text(["a", "b", "c"])
    head = telemetry.locator("#subscriptions")
    head.get_by_role("button", name="Interval").click()
    expect(names).to_have_text(["c", "a", "b"])
    head.get_by_role("button", name="Interval").click()
    expect(names).to_have_text(["b", "a", "c"])
    telemetry.reload()
    expect(names).to_have_text(["b", "a", "c"])
    expect(telemetry.locator("#table th[aria-sort]")).to_have_text("Client")


def test_a_client_opens_to_its_figures_drawn(telemetry: Any, expect: Any, broker: FakeBroker) -> None:
    expect(telemetry.locator("#count")).to_have_text("3 clients")
    telemetry.get_by_role("button", name="orders-1").click()
    figure = telemetry.locator(".figure", has_text="org.queue")
    expect(figure).to_contain_text("16")
    expect(figure.locator("path.line")).to_have_attribute(
        "d", "M0.00 26.00L25.00 24.56L50.00 20.25L75.00 13.06L100.00 3.00"
    )
    first, *_ = broker.telemetry.state.manager
    broker.telemetry.say(first, NOW_MS + 6_000, queue=25.0)
    expect(figure).to_contain_text("25")
    telemetry.get_by_label("Search metrics").fill("LATENCY")
    expect(telemetry.locator(".figure")).to_have_count(1)
    telemetry.get_by_role("button", name="orders-1").click()
    expect(telemetry.locator(".figure")).to_have_count(0)


def test_a_metric_without_labels_shows_no_mark(telemetry: Any, expect: Any) -> None:
    telemetry.get_by_role("button", name="orders-1").click()
    expect(telemetry.locator(".figure", has_text="org.queue")).to_be_visible()
    expect(telemetry.locator(".figure .unseen")).to_have_count(0)


def test_a_metric_is_drawn_large_over_the_other_instances(
    telemetry: Any, expect: Any, broker: FakeBroker
) -> None:
    twin = broker.telemetry.join("orders-1")
    stranger = broker.telemetry.join("orders-10")
    for number in range(5):
        broker.telemetry.say(twin, NOW_MS + 500 + 1_000 * number, queue=100.0 + number)
        broker.telemetry.say(stranger, NOW_MS + 1_000 * number, queue=7.0)
    expect(telemetry.locator("#count")).to_have_text("5 clients")
    telemetry.get_by_role("button", name="orders-1", exact=False).first.click()
    tile = telemetry.locator(".figure", has_text="org.queue")
    tile.click()
    chart = telemetry.locator(".metric-chart")
    expect(chart.locator(".legend")).to_have_text("This instance1 other instance")
    expect(chart.locator("path.line.in")).to_have_count(1)
    expect(chart.locator("path.line.plain")).to_have_count(1)
    expect(tile).to_have_attribute("aria-pressed", "true")
    telemetry.get_by_role("slider", name="org.queue, over time").focus()
    telemetry.keyboard.press("End")
    for words in ("This instance", "10.0.0."):
        expect(chart.locator(".reading")).to_contain_text(words)
    chart.get_by_role("button", name="Close chart").click()
    expect(chart).to_have_count(0)
    expect(tile).to_be_focused()


def test_clients_are_searched_and_chosen_by_what_they_do(telemetry: Any, expect: Any) -> None:
    telemetry.locator("#shape").select_option("pushing")
    expect(telemetry.locator("#count")).to_have_text("1 of 3 clients")
    telemetry.locator("#shape").select_option("")
    telemetry.keyboard.press("/")
    telemetry.keyboard.type("librdkafka")
    expect(client(telemetry, "orders-2")).to_have_count(1)
    expect(telemetry.locator("#count")).to_have_text("1 of 3 clients")

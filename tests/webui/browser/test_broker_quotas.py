"""The page of the limits of the whole broker: their use, and editing in place."""

from typing import Any

import pytest

from tests.webui.browser.conftest import Watched, refused_buttons
from tests.webui.fakes import FakeBroker
from tests.webui.rows import throttled

PRODUCE = "broker.quota.produce.bytes"
ENABLED = "broker.quota.enabled"
HOLD_RESPONSES = """
() => {
  const send = window.fetch;
  const released = new Promise((resolve) => { window.releaseResponses = resolve; });
  window.fetch = async (...request) => {
    const response = await send(...request);
    await released;
    return response;
  };
}
"""


@pytest.fixture
def limits(page: Watched, broker: FakeBroker) -> Any:
    broker.configs |= {ENABLED: "true", PRODUCE: "1000000", "cluster.quota.topic.count": "10"}
    broker.broker_use = {PRODUCE: (900_000.0, 2, 7, 4_500)}
    broker.topic_count = 9
    page.sign_in()
    return page.go("/broker-quotas")


def row(page: Any, key: str) -> Any:
    return page.locator(".one-setting").filter(has=page.locator(f'code:text-is("{key}")'))


def edit(page: Any, label: str) -> Any:
    page.get_by_role("button", name=f"Edit {label}", exact=True).click()
    return page.locator(".editor")


def test_an_untouched_broker_says_that_nothing_is_limited(page: Watched, expect: Any) -> None:
    page.sign_in()
    opened = page.go("/broker-quotas")
    expect(opened.locator("#verdict")).to_have_text("Broker-wide limits are not enforced.")
    expect(row(opened, PRODUCE)).to_contain_text("no limit")
    expect(row(opened, PRODUCE)).to_contain_text("not measured")
    expect(row(opened, "broker.quota.white.list.user")).to_contain_text("none")
    expect(row(opened, "automq.retry.storm.backoff.max.delay.ms")).to_contain_text("1 s")


def test_a_limit_is_shown_with_its_use_and_moves_by_itself(
    limits: Any, expect: Any, broker: FakeBroker
) -> None:
    for words in ("900 kB/s now", "90 %", "7 throttles, 4\u202f500 ms; 2 throttled now", "1 MB/s"):
        expect(row(limits, PRODUCE)).to_contain_text(words)
    expect(row(limits, PRODUCE).locator(".bar")).to_have_attribute("data-level", "watch")
    expect(limits.locator("#verdict")).to_have_text("2 connections throttled by a broker-wide limit.")
    expect(row(limits, "cluster.quota.topic.count")).to_contain_text("9 exist")
    broker.broker_use = {PRODUCE: (1_200_000.0, 0, 8, 5_000)}
    expect(row(limits, PRODUCE).locator(".bar")).to_have_attribute("data-level", "urgent")
    expect(limits.locator("#verdict")).to_have_text("1 limit enforced; no connection is throttled.")


def test_a_limit_is_previewed_saved_and_put_back(limits: Any, expect: Any, broker: FakeBroker) -> None:
    editor = edit(limits, "Produce")
    expect(editor.get_by_role("button", name="Save")).to_be_disabled()
    editor.locator("input").fill("500 kB")
    expect(editor.locator(".reach")).to_contain_text("All clients together use 900 kB/s now: their responses")
    expect(editor.locator(".copyable pre")).to_contain_text(
        f"--entity-name 1 --add-config '{PRODUCE}=500000'"
    )
    assert broker.altered == []
    editor.get_by_role("button", name="Save").click()
    expect(row(limits, PRODUCE).locator(".value")).to_have_text("500 kB/s")
    assert broker.configs[PRODUCE] == "500000"
    limits.get_by_role("button", name="Undo").click()
    expect(row(limits, PRODUCE).locator(".value")).to_have_text("1 MB/s")


def test_undo_restores_the_old_limit_where_the_stream_is_faster_than_the_response(
    limits: Any, expect: Any, broker: FakeBroker
) -> None:
    editor = edit(limits, "Produce")
    editor.locator("input").fill("500 kB")
    limits.evaluate(HOLD_RESPONSES)
    editor.get_by_role("button", name="Save").click()
    expect(row(limits, PRODUCE).locator(".value")).to_have_text("500 kB/s")
    expect(editor.locator(".field-error")).to_be_empty()
    limits.evaluate("releaseResponses()")
    limits.get_by_role("button", name="Undo").click()
    expect(row(limits, PRODUCE).locator(".value")).to_have_text("1 MB/s")
    assert broker.configs[PRODUCE] == "1000000"


def test_an_empty_field_takes_the_limit_away(limits: Any, expect: Any, broker: FakeBroker) -> None:
    editor = edit(limits, "Produce")
    editor.locator("input").fill("")
    expect(editor.locator(".reach")).to_contain_text("are unlimited")
    expect(editor.locator(".copyable pre")).to_contain_text(f"--delete-config {PRODUCE}")
    editor.get_by_role("button", name="Save").click()
    expect(row(limits, PRODUCE).locator(".value")).to_have_text("no limit")
    assert PRODUCE not in broker.configs


@pytest.mark.parametrize(
    ("label", "typed", "trouble"),
    [
        ("Produce", "ten", "Enter a number with a unit"),
        ("Produce", "0", "Enter a value greater than 0"),
        ("Requests", "many", "Enter a number, such as 5."),
        ("Topics", "-1", "Enter a whole number of at least 0."),
        ("Delay", "10.001 s", "Enter at most 10 s."),
        ("Delay", "1,5 s", "1,5 may mean 15 or 1.5; write 15 or 1.5."),
        ("Topics", "10,000", "10,000 may mean 10000 or 10; write 10000 or 10."),
        ("Users", "a,,b", "Empty name"),
    ],
)
def test_invalid_input_is_reported_beside_the_field(
    limits: Any, expect: Any, label: str, typed: str, trouble: str
) -> None:
    editor = edit(limits, label)
    editor.locator("input").fill(typed)
    expect(editor.locator(".note")).to_contain_text(trouble)
    expect(editor.get_by_role("button", name="Save")).to_be_disabled()


def test_the_brokers_own_refusal_is_shown_in_its_words(limits: Any, expect: Any) -> None:
    editor = edit(limits, "Requests")
    editor.locator("input").fill("0.001")
    expect(editor.locator(".field-error")).to_contain_text("must be a number from 0.01 on")


def test_the_effect_of_each_kind_of_setting_is_reported(limits: Any, expect: Any) -> None:
    for label, typed, words in (
        ("Topics", "9", "There are 9 now: no further topics can be created."),
        ("Topics", "12", "There are 9 now; 3 more can be created."),
        ("Topics", "3", "There are 9 already"),
        ("Users", "ann, bob", "2 names; their requests are neither counted nor throttled."),
        ("Delay", "0", "No response is delayed."),
    ):
        editor = edit(limits, label)
        editor.locator("input").fill(typed)
        expect(editor.locator(".reach")).to_contain_text(words)
        limits.keyboard.press("Escape")
        limits.get_by_role("button", name="Discard").click()
    editor = edit(limits, "Enforced")
    editor.locator("select").select_option("false")
    expect(editor.locator(".reach")).to_contain_text("unmuted at once")


def test_a_concurrent_change_is_not_overwritten_unseen(limits: Any, expect: Any, broker: FakeBroker) -> None:
    editor = edit(limits, "Produce")
    editor.locator("input").fill("3 MB")
    broker.configs[PRODUCE] = "2000000"
    broker.version += 1
    expect(editor.locator(".field-error")).to_contain_text("The setting changed in the meantime, to 2 MB/s.")
    editor.get_by_role("button", name="Save").click()
    expect(row(limits, PRODUCE).locator(".value")).to_have_text("3 MB/s")


@pytest.mark.parametrize("role", ["viewer", "editor"])
def test_only_an_administrator_edits(page: Watched, role: str) -> None:
    page.sign_in(f"{role}-token")
    refused_buttons(page.go("/broker-quotas"), ".one-setting > button", "admin", 12)


def test_a_held_connection_names_the_brokers_quota_as_its_rule(
    page: Watched, expect: Any, broker: FakeBroker
) -> None:
    broker.throttled_rows = [
        throttled(quota_type="broker_produce", entity=(), tags=(("broker quota", "produce bytes"),))
    ]
    page.sign_in()
    rows = page.go("/throttled").locator("#table tbody tr")
    expect(rows.locator("a.rule")).to_have_text("broker quota:produce bytes")
    expect(rows.locator("a.rule")).to_have_attribute("href", "/broker-quotas")
    page.page.locator("#filter").fill("broker quota: produce")
    expect(rows).to_have_count(1)


def test_a_held_connection_names_the_upstream_node_where_the_limit_holds(
    page: Watched, expect: Any, broker: FakeBroker
) -> None:
    broker.throttled_rows = [throttled("a", upstream_node=2), throttled("b", connection_id="b")]
    page.sign_in()
    opened = page.go("/throttled")
    rows = opened.locator("#table tbody tr")
    expect(rows.filter(has_text="at node")).to_have_count(1)
    expect(rows.filter(has_text="at node 2")).to_contain_text("client ida")
    recent = opened.locator("#recent-throttles li")
    expect(recent.filter(has_text="at node 2")).to_have_count(1)
    page.page.locator("#filter").fill("at node 2")
    expect(rows).to_have_count(1)

"""What is typed is kept until its user lets it go, and what is shown beside it is of the present input."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from playwright.sync_api import Error

from tests.webui.browser.conftest import Watched
from tests.webui.fake_resolving import usage
from tests.webui.fakes import IP_KEY, FakeBroker
from tests.webui.rows import connection

PRODUCE = "producer_byte_rate"
APP = (("client-id", "app"),)
ONE = (("ip", "10.0.0.7"),)


@pytest.fixture
def quotas(page: Watched, broker: FakeBroker) -> Any:
    broker.set(APP, {PRODUCE: 1e6})
    broker.connection_rows = [connection("app", "alice")]
    page.sign_in()
    return page.go("/quotas")


def test_a_typed_edit_is_discarded_only_after_a_question(quotas: Any, expect: Any) -> None:
    editor, question = (
        quotas.locator("form.editor"),
        quotas.get_by_role("dialog", name="Discard your changes?"),
    )
    quotas.get_by_label("Edit client id app").click()
    quotas.keyboard.press("Escape")
    expect(editor).to_have_count(0)
    quotas.get_by_label("Edit client id app").click()
    editor.get_by_label("Produce").fill("7 MB")
    assert asks_before_leaving(quotas)
    quotas.keyboard.press("Escape")
    question.get_by_role("button", name="Keep editing").click()
    expect(editor.get_by_label("Produce")).to_have_value("7 MB")
    expect(editor.get_by_label("Produce")).to_be_focused()
    quotas.locator("#add").click()
    expect(question).to_be_visible()
    quotas.keyboard.press("Escape")
    expect(editor.get_by_label("Produce")).to_have_value("7 MB")
    quotas.locator("#add").click()
    question.get_by_role("button", name="Discard").click()
    expect(editor).to_contain_text("Add a quota")
    assert not asks_before_leaving(quotas)


def asks_before_leaving(page: Any) -> bool:
    return bool(
        page.evaluate(
            "(() => { const event = new Event('beforeunload', {cancelable: true});"
            " window.dispatchEvent(event); return event.defaultPrevented; })()"
        )
    )


def test_a_saved_edit_is_not_asked_about(quotas: Any, expect: Any) -> None:
    quotas.get_by_label("Edit client id app").click()
    quotas.locator("form.editor").get_by_label("Produce").fill("7 MB")
    quotas.keyboard.press("Enter")
    expect(quotas.locator(".toast")).to_contain_text("Saved")
    assert not asks_before_leaving(quotas)
    quotas.get_by_role("button", name="Close this message").click()
    expect(quotas.locator(".toast")).to_have_count(0)


def test_a_refused_edit_shows_neither_an_old_hint_nor_an_old_command(quotas: Any, expect: Any) -> None:
    quotas.keyboard.press("n")
    editor = quotas.locator("form.editor")
    editor.get_by_label("Name of the client id").fill("x")
    expect(editor.locator(".reach")).to_have_text("Enter at least one limit.")
    editor.get_by_label("Name of the client id").fill("x" * 1_025)
    editor.get_by_label("Produce").fill("1 MB")
    expect(editor.locator(".field-error")).not_to_be_empty()
    expect(editor.locator(".consequences")).to_have_text("")


def test_a_bad_rate_or_address_has_no_command(page: Watched, expect: Any, broker: FakeBroker) -> None:
    broker.set(ONE, {IP_KEY: 20.0})
    page.sign_in()
    opened = page.go("/ip-quotas")
    editor = opened.locator("form.editor")
    opened.get_by_label("Edit the limit of 10.0.0.7").click()
    rate = editor.get_by_label("New connections")
    rate.fill("5")
    expect(editor.locator(".copyable")).to_contain_text("connection_creation_rate=5")
    rate.fill("5x")
    expect(editor.locator(".copyable")).to_have_count(0)
    rate.fill("20")
    opened.keyboard.press("Escape")
    opened.keyboard.press("n")
    editor.get_by_label("Address", exact=True).fill("10.0.0.9")
    editor.get_by_label("New connections").fill("5")
    expect(editor.locator(".copyable")).to_contain_text("--entity-name 10.0.0.9")
    editor.get_by_label("Address", exact=True).fill("10.0.0.999")
    expect(editor.locator(".field-error")).not_to_be_empty()
    expect(editor.locator(".copyable")).to_have_count(0)


def test_what_the_broker_did_not_answer_is_asked_again_when_it_does(quotas: Any, expect: Any) -> None:
    quotas.get_by_label("Edit client id app").click()
    editor = quotas.locator("form.editor")
    quotas.context.set_offline(True)
    editor.get_by_label("Produce").fill("7 MB")
    expect(editor.locator(".field-error")).to_have_text("The broker does not respond.")
    quotas.context.set_offline(False)
    quotas.evaluate("document.dispatchEvent(new Event('recovered'))")
    expect(editor.locator(".field-error")).to_have_text("")
    expect(editor.locator(".reach")).to_contain_text("1 connected client matches this rule")


def test_set_a_limit_begins_in_the_limit(page: Watched, expect: Any, broker: FakeBroker) -> None:
    broker.usage_rows = [usage("ANONYMOUS", "busy", 2e6)]
    page.sign_in()
    opened = page.go("/quotas")
    opened.get_by_label("Set a limit for client id busy").click()
    expect(opened.locator("form.editor").get_by_label("Produce")).to_be_focused()


def test_a_limit_that_is_discarded_while_it_is_saved_closes_no_other_one(
    page: Watched, expect: Any, broker: FakeBroker
) -> None:
    broker.set(ONE, {IP_KEY: 20.0})
    page.sign_in()
    on = page.go("/ip-quotas")
    on.get_by_label("Edit the limit of 10.0.0.7").click()
    on.get_by_label("New connections per second").fill("4")
    with discarded_while_it_is_saved(on, expect, "ip-quotas/10.0.0.7"):
        on.keyboard.press("n")
        on.get_by_label("Address", exact=True).fill("10.0.0.9")
    on.get_by_label("New connections per second").fill("5")
    expect(on.locator("form.editor .reach p").first).to_be_visible()
    expect(on.get_by_label("Address", exact=True)).to_have_value("10.0.0.9")
    assert broker.rows[ONE].value(IP_KEY) == 20


def test_a_subscription_that_is_discarded_while_it_is_saved_closes_no_other_one(
    page: Watched, expect: Any
) -> None:
    page.sign_in()
    on = page.go("/client-metrics")
    on.keyboard.press("n")
    on.get_by_label("Name", exact=True).fill("queues")
    with discarded_while_it_is_saved(on, expect, "client-metrics/queues"):
        on.keyboard.press("n")
        on.get_by_label("Name", exact=True).fill("another")
    on.get_by_label("Interval", exact=True).fill("5 s")
    expect(on.locator("form.editor .reach p").first).to_be_visible()
    expect(on.get_by_label("Name", exact=True)).to_have_value("another")


@contextmanager
def discarded_while_it_is_saved(page: Any, expect: Any, path: str) -> Iterator[None]:
    """Save the open editor and discard it before the broker answers, which it does after the block."""
    held: list[Any] = []
    page.route(f"**/api/v1/{path}", lambda route: held.append(route))
    expect(page.locator("form.editor .consequences")).to_have_attribute("data-stale", "no")
    with page.expect_request(f"**/api/v1/{path}"):
        page.locator("form.editor button[type=submit]").click()
    page.locator("form.editor input").first.press("Escape")
    page.get_by_role("button", name="Discard").click()
    expect(page.locator("form.editor")).to_have_count(0)
    yield
    for route in held:
        with suppress(Error):
            route.continue_()


def test_an_input_that_is_spoiled_while_it_is_saved_keeps_the_choice_between_both_versions(
    quotas: Any, expect: Any, broker: FakeBroker
) -> None:
    held: list[Any] = []
    quotas.get_by_label("Edit client id app").click()
    produce = quotas.locator("form.editor").get_by_label("Produce")
    produce.fill("2 MB")
    expect(quotas.locator(".reach")).to_contain_text("client")
    broker.version += 1
    broker.set(APP, {PRODUCE: 3e6}, by="somebody")
    quotas.route("**/api/v1/client-quotas", lambda route: held.append(route))
    with quotas.expect_request("**/api/v1/client-quotas"):
        quotas.get_by_role("button", name="Save limits").click()
    produce.fill("nonsense")
    held.pop().continue_()
    expect(quotas.locator(".conflict")).to_contain_text("2 MB")
    expect(quotas.get_by_role("button", name="Overwrite")).to_be_visible()


def test_overwriting_what_is_already_so_sends_nothing(quotas: Any, expect: Any, broker: FakeBroker) -> None:
    quotas.get_by_label("Edit client id app").click()
    quotas.locator("form.editor").get_by_label("Produce").fill("2 MB")
    expect(quotas.locator(".reach")).to_contain_text("client")
    broker.version += 1
    broker.set(APP, {PRODUCE: 2e6}, by="somebody")
    quotas.get_by_role("button", name="Save limits").click()
    quotas.get_by_role("button", name="Overwrite").click()
    expect(quotas.locator("form.editor")).to_contain_text("No changes yet.")
    expect(quotas.locator("form.editor .field-error")).to_be_empty()

"""Removing many rules in the browser: chosen by pointer or keys, told what follows, done at once, undone."""

from typing import Any

import pytest

from broker.controller.commands import EntityPairs
from tests.webui.browser.conftest import Watched, refused_buttons
from tests.webui.fakes import FakeBroker
from tests.webui.rows import connection

PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"


def user(index: int) -> EntityPairs:
    return (("user", f"user {index:02}"),)


@pytest.fixture
def quotas(page: Watched, broker: FakeBroker) -> Any:
    """60 rules on two pages, one connected client under each of the first three."""
    for index in range(60):
        broker.set(user(index), {PRODUCE: 1e6 + index})
    broker.set((("ip", "10.0.0.1"),), {"connection_creation_rate": 5.0})
    broker.connection_rows = [connection("app", f"user {index:02}", index) for index in range(3)]
    page.sign_in()
    return page.go("/quotas")


def test_chosen_rules_go_in_one_request_and_come_back(quotas: Any, expect: Any, broker: FakeBroker) -> None:
    broker.set(user(1), {FETCH: 7e6}, shadow=True)
    broker.version += 1
    before = {
        entity: (row.shadow, [(each.key, each.value) for each in row.limits])
        for entity, row in broker.rows.items()
    }
    quotas.get_by_label("Select user user 00").check()
    quotas.get_by_label("Select user user 02").click(modifiers=["Shift"])
    expect(quotas.locator("#selected")).to_contain_text("3 rules selected")
    quotas.get_by_role("button", name="Remove limits…").click()
    editor = quotas.locator(".editor")
    expect(editor.locator(".chosen li")).to_have_count(3)
    expect(editor.locator(".reach")).to_contain_text("3 connected clients become unlimited.")
    expect(editor.locator(".copyable pre")).to_contain_text(
        "--delete-config producer_byte_rate --entity-type users --entity-name 'user 02'"
    )
    assert len(editor.locator(".copyable pre").inner_text().splitlines()) == 3
    assert len(broker.rows) == 61
    editor.get_by_role("button", name="Remove limits of 3 rules").click()
    # Under the pointer the message stays, however long the machine takes for the rest.
    quotas.locator(".toast").hover()
    expect(quotas.locator("#count")).to_have_text("57 rules")
    expect(quotas.locator("#selected")).to_be_hidden()
    [(command, actor)] = [each for each in broker.applied if not each[0].validate_only]
    assert len(command.entries) == 3 and actor.origin == "page"
    quotas.get_by_role("button", name="Undo").click()
    expect(quotas.locator(".toast")).to_contain_text("Restored the limits of 3 rules.")
    assert before == {
        entity: (row.shadow, [(each.key, each.value) for each in row.limits])
        for entity, row in broker.rows.items()
    }


def test_all_that_the_filter_leaves_can_be_chosen(quotas: Any, expect: Any, broker: FakeBroker) -> None:
    quotas.get_by_label("Select every rule on this page").check()
    bar = quotas.locator("#selected")
    expect(bar).to_contain_text("50 rules selected")
    bar.get_by_role("button", name="Select all 60").click()
    expect(bar).to_contain_text("60 rules selected")
    quotas.keyboard.press("Escape")
    expect(bar).to_be_hidden()
    quotas.locator("#filter").fill("user 5")
    expect(quotas.locator("#table tbody tr")).to_have_count(10)
    quotas.get_by_label("Select every rule on this page").check()
    expect(bar).to_contain_text("10 rules selected")
    expect(bar.get_by_role("button", name="Select all")).to_have_count(0)
    bar.get_by_role("button", name="Remove limits…").click()
    quotas.get_by_role("button", name="Remove limits of 10 rules").click()
    expect(quotas.locator("#table")).to_contain_text("No match")
    assert set(broker.rows) == {user(index) for index in range(50)} | {(("ip", "10.0.0.1"),)}


def test_rules_are_chosen_and_removed_without_a_pointer(quotas: Any, expect: Any, broker: FakeBroker) -> None:
    quotas.get_by_label("Select user user 00").focus()
    quotas.keyboard.press("Space")
    for _ in range(2):
        quotas.keyboard.press("Shift+ArrowDown")
    expect(quotas.get_by_label("Select user user 02")).to_be_focused()
    quotas.keyboard.press("ArrowDown")
    expect(quotas.get_by_label("Select user user 03")).to_be_focused()
    expect(quotas.locator("#selected")).to_contain_text("3 rules selected")
    quotas.keyboard.press("Delete")
    expect(quotas.get_by_role("button", name="Remove limits of 3 rules")).to_be_focused()
    quotas.keyboard.press("Escape")
    expect(quotas.locator(".editor")).to_have_count(0)
    expect(quotas.get_by_role("button", name="Remove limits…")).to_be_focused()
    expect(quotas.locator("#selected")).to_contain_text("3 rules selected")
    quotas.keyboard.press("Enter")
    quotas.get_by_role("button", name="Remove limits of 3 rules").press("Enter")
    expect(quotas.locator("#count")).to_have_text("57 rules")


def test_a_choice_outlives_sorting_searching_and_turning_the_page(quotas: Any, expect: Any) -> None:
    quotas.get_by_label("Select user user 07").check()
    quotas.get_by_role("button", name="Next").click()
    quotas.get_by_label("Select user user 55").check()
    quotas.locator("#filter").fill("user 0")
    expect(quotas.get_by_label("Select user user 07")).to_be_checked()
    expect(quotas.locator("#selected")).to_contain_text("2 rules selected")


def test_rules_changed_meanwhile_are_shown_in_both_versions_and_stay(
    quotas: Any, expect: Any, broker: FakeBroker
) -> None:
    for index in range(4):
        quotas.get_by_label(f"Select user user {index:02}").check()
    quotas.get_by_role("button", name="Remove limits…").click()
    expect(quotas.locator(".reach")).to_contain_text("become unlimited")
    broker.version += 1
    broker.set(user(1), {PRODUCE: 9e6}, by="somebody")
    del broker.rows[user(3)]
    quotas.get_by_role("button", name="Remove limits of 4 rules").click()
    conflict = quotas.locator(".conflict")
    for words in ("Produce 1 MB/s", "Produce 9 MB/s, by somebody", "removed already"):
        expect(conflict).to_contain_text(words)
    expect(quotas.locator(".toast")).to_contain_text("Removed the limits of 2 rules.")
    assert user(0) not in broker.rows and user(2) not in broker.rows and user(1) in broker.rows
    conflict.get_by_role("button", name="Remove the current version").click()
    expect(quotas.locator(".editor h2")).to_contain_text("user 01")
    quotas.get_by_role("button", name="Remove limits", exact=True).click()
    expect(quotas.locator(".editor")).to_have_count(0)
    assert user(1) not in broker.rows


def test_an_undo_overwrites_nothing(quotas: Any, expect: Any, broker: FakeBroker) -> None:
    for index in range(2):
        quotas.get_by_label(f"Select user user {index:02}").check()
    quotas.get_by_role("button", name="Remove limits…").click()
    quotas.get_by_role("button", name="Remove limits of 2 rules").click()
    expect(quotas.locator(".toast")).to_contain_text("Removed")
    broker.set(user(0), {PRODUCE: 3.0})
    quotas.get_by_role("button", name="Undo").click()
    expect(quotas.locator(".toast")).to_contain_text("Restored 1 of 2 rules")
    assert broker.rows[user(0)].value(PRODUCE) == 3.0 and broker.rows[user(1)].value(PRODUCE) == 1e6 + 1


def test_a_viewer_may_choose_and_not_remove(page: Watched, expect: Any, broker: FakeBroker) -> None:
    broker.set(user(0), {PRODUCE: 1e6})
    page.sign_in("viewer-token")
    opened = page.go("/quotas")
    opened.get_by_label("Select user user 00").check()
    refused_buttons(opened, "#selected .danger", "editor", 1)
    assert broker.applied == []

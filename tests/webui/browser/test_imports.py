"""Files of quotas and of subscriptions in the browser: previewed, imported whole or not at all, exported."""

import json
from pathlib import Path
from typing import Any

import pytest

from broker.controller.commands import EntityPairs
from tests.webui.browser.conftest import Watched
from tests.webui.fakes import FakeBroker
from tests.webui.rows import connection

ALICE: EntityPairs = (("user", "alice"),)
BOB: EntityPairs = (("user", "bob"),)
PRODUCE = "producer_byte_rate"
TWO = """# limits of two teams
quotas:
- entity: {user: alice}
  limits: {producer_byte_rate: 2000000}
- entity: {user: bob}
  limits: {producer_byte_rate: 500000}
  shadow: true
"""


@pytest.fixture
def stocked(broker: FakeBroker) -> FakeBroker:
    broker.set(ALICE, {PRODUCE: 1e6})
    broker.set((("client-id", None),), {PRODUCE: 5e6})
    broker.connection_rows = [connection("app", "bob")]
    return broker


@pytest.fixture
def importing(page: Watched, stocked: FakeBroker) -> Any:
    page.sign_in()
    opened = page.go("/quotas")
    opened.get_by_text("Import, export").click()
    opened.get_by_role("button", name="Import a file").click()
    return opened


def content(page: Any) -> Any:
    return page.get_by_label("Content", exact=True)


def save(page: Any) -> Any:
    return page.locator(".editor button.primary")


def value(broker: FakeBroker, entity: EntityPairs) -> float | None:
    row = broker.rows.get(entity)
    return None if row is None else row.value(PRODUCE)


def test_the_differences_are_shown_before_anything_changes(
    importing: Any, expect: Any, stocked: FakeBroker
) -> None:
    expect(save(importing)).to_be_disabled()
    content(importing).fill(TWO)
    rows = importing.locator(".consequences tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(0)).to_contain_text("1 MB/s")
    expect(rows.nth(0)).to_contain_text("2 MB/s")
    expect(rows.nth(2)).to_contain_text("Shadow (not enforced)")
    expect(importing.locator(".reach")).to_contain_text("1 connected client changes rule or limit")
    assert (value(stocked, ALICE), value(stocked, BOB)) == (1e6, None)
    expect(save(importing)).to_have_text("Import 3 changes")
    save(importing).click()
    expect(importing.locator(".toast")).to_contain_text("Imported 3 changes.")
    expect(importing.locator(".editor")).to_have_count(0)
    assert (value(stocked, ALICE), value(stocked, BOB)) == (2e6, 5e5)


def test_what_the_file_does_not_list_goes_only_if_it_is_to(
    importing: Any, expect: Any, stocked: FakeBroker
) -> None:
    content(importing).fill(
        '{"quotas": [{"entity": {"user": "alice"}, "limits": {"producer_byte_rate": 1000000}}]}'
    )
    expect(importing.locator(".reach")).to_contain_text("Nothing to change")
    importing.get_by_label("Remove rules that the file does not list").check()
    expect(importing.locator(".consequences tbody tr")).to_contain_text("removed")
    save(importing).click()
    expect(importing.locator(".toast")).to_contain_text("Imported 1 change.")
    assert list(stocked.rows) == [ALICE]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (
            "quotas:\n- entity: {user: carol}\n  limits: {producer_byte_rate: 1.5}\n",
            2,
            "must be a whole number",
        ),
        ("quotas:\n- entity: {user: carol}\n  limits: {producer_byte_rate: -1}\n", 2, "greater than 0"),
        (
            "quotas:\n- entity: {user: carol}\n  limits: {producer_byte_rate: ten}\n",
            2,
            "enter a number with a unit",
        ),
        ("quotas:\n- entity: {user: c}\n  limits: {producer_byte_rate: 1}\n  limit: 1\n", 2, "unknown field"),
        (
            '{"quotas": [\n{"entity": {"user": "c"},\n "limits": {"producer_byte_rate": 1}},\n]}',
            4,
            "expected value",
        ),
        ("quotas:\n- entity: {user: c}\n  limits: [", 4, "is not YAML"),
        ("quotas: 5", 1, "must be an array"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_nothing_is_lost(
    importing: Any, expect: Any, stocked: FakeBroker, text: str, line: int, words: str
) -> None:
    content(importing).fill(text)
    alert = importing.locator(".import-trouble")
    expect(alert).to_contain_text(words)
    alert.get_by_role("button", name=f"Line {line}").click()
    expect(content(importing)).to_be_focused()
    expect(content(importing)).to_have_value(text)
    expect(save(importing)).to_be_disabled()
    assert len(stocked.rows) == 2


def test_every_refused_entry_is_named(importing: Any, expect: Any, stocked: FakeBroker) -> None:
    entry = "- entity: {{user: u{}}}\n  limits: {{producer_byte_rate: 1.5}}\n"
    content(importing).fill("quotas:\n" + "".join(entry.format(number) for number in range(3)))
    expect(importing.locator(".import-trouble button")).to_have_text(["Line 2", "Line 4", "Line 6"])
    assert len(stocked.rows) == 2


def test_a_file_is_chosen_and_replaces_the_text_which_comes_back(
    importing: Any, expect: Any, tmp_path: Path
) -> None:
    file = tmp_path / "limits.yaml"
    file.write_text(TWO)
    content(importing).fill("quotas: []")
    importing.get_by_label("File", exact=True).set_input_files(file)
    expect(content(importing)).to_have_value(TWO)
    expect(save(importing)).to_have_text("Import 3 changes")
    importing.locator(".toast").get_by_role("button", name="Undo").click()
    expect(content(importing)).to_have_value("quotas: []")
    for held, words in (
        (b"quotas: [\xff]", "limits.yaml cannot be read as UTF-8 text"),
        ("quotas: []".encode("utf-16"), "limits.yaml cannot be read as UTF-8 text"),
        (b"", "limits.yaml is empty"),
        (b" " * 20_000_001, "limits.yaml is larger than 20 MB"),
    ):
        file.write_bytes(held)
        importing.get_by_label("File", exact=True).set_input_files(file)
        expect(importing.locator(".import-trouble")).to_contain_text(words)
        expect(content(importing)).to_have_value("quotas: []")


def test_a_change_after_the_preview_is_shown_before_it_is_imported(
    importing: Any, expect: Any, stocked: FakeBroker
) -> None:
    content(importing).fill(TWO)
    expect(save(importing)).to_have_text("Import 3 changes")
    stocked.set(ALICE, {PRODUCE: 3e6})
    save(importing).click()
    expect(importing.locator(".import-trouble")).to_contain_text("changed since the preview")
    assert (value(stocked, ALICE), value(stocked, BOB)) == (3e6, None)
    content(importing).press("End")
    content(importing).type(" ")
    expect(importing.locator(".consequences tbody tr").first).to_contain_text("3 MB/s")


def test_a_lost_connection_keeps_the_text_and_asks_again(
    importing: Any, expect: Any, page: Watched, stocked: FakeBroker
) -> None:
    content(importing).fill(TWO)
    expect(save(importing)).to_have_text("Import 3 changes")
    importing.route("**/client-quotas:import*", lambda route: route.abort())
    save(importing).click()
    expect(importing.locator(".import-trouble")).to_contain_text("The broker does not respond.")
    expect(content(importing)).to_have_value(TWO)
    assert value(stocked, BOB) is None
    importing.unroute("**/client-quotas:import*")
    importing.evaluate("document.dispatchEvent(new Event('recovered'))")
    expect(save(importing)).to_have_text("Import 3 changes")
    page.troubles.clear()


def test_a_typed_file_is_not_lost_unasked(importing: Any, expect: Any) -> None:
    content(importing).fill(TWO)
    content(importing).press("Escape")
    importing.get_by_role("button", name="Keep editing").click()
    expect(content(importing)).to_have_value(TWO)


def test_the_export_is_a_file_that_can_be_imported(page: Watched, expect: Any, stocked: FakeBroker) -> None:
    page.sign_in("viewer-token")
    opened = page.go("/quotas")
    for form in ("YAML", "JSON"):
        opened.get_by_text("Import, export").click()
        with opened.expect_download() as download:
            opened.get_by_role("link", name=f"Export as {form}").click()
        assert download.value.suggested_filename == f"client-quotas.{form.lower()}"
        text = Path(download.value.path()).read_text()
        assert "alice" in text and (form == "YAML" or len(json.loads(text)["quotas"]) == 2)


def test_subscriptions_are_imported_too(page: Watched, expect: Any, broker: FakeBroker) -> None:
    page.sign_in()
    opened = page.go("/client-metrics")
    opened.get_by_text("Import, export").click()
    opened.get_by_role("button", name="Import a file").click()
    content(opened).fill("subscriptions:\n- name: queues\n  metrics: [org.a.]\n  match: ['client_id=(']\n")
    expect(opened.locator(".import-trouble")).to_contain_text("missing )")
    content(opened).fill("subscriptions:\n- name: queues\n  metrics: [org.a.]\n  interval.ms: 30000\n")
    expect(opened.locator(".consequences tbody tr")).to_have_count(3)
    expect(opened.locator(".consequences tbody")).to_contain_text("30 s")
    save(opened).click()
    expect(opened.locator("#subscriptions tbody tr")).to_contain_text("queues")
    assert list(broker.telemetry.world.image.client_metrics) == ["queues"]

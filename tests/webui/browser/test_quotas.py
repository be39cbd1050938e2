"""Editing quotas in the browser: add, change, remove, undo, and the preview."""

import re
from typing import Any

import pytest

from broker.common.temporary_limits import from_times
from broker.controller.commands import EntityPairs
from broker.controller.rows.quotas import ShadowUse
from tests.webui.browser.conftest import Watched, refused_buttons
from tests.webui.fake_resolving import usage
from tests.webui.fakes import FakeBroker
from tests.webui.rows import connection, throttled

PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
APP: EntityPairs = (("client-id", "app"),)
ALICE: EntityPairs = (("user", "alice"),)


@pytest.fixture
def quotas(page: Watched, broker: FakeBroker) -> Any:
    """The page, with one rule and two clients."""
    broker.version = 5
    broker.set(APP, {PRODUCE: 1_048_576.0})
    broker.observed = {APP: {PRODUCE: 786_432.0}}
    broker.connection_rows = [
        connection("app", "alice"),
        connection("app", "bob"),
        connection("other", "bob"),
    ]
    page.sign_in()
    return page.go("/quotas")


def field(page: Any, label: str) -> Any:
    return page.locator("form.editor").get_by_label(label)


def test_a_rule_shows_its_limit_and_its_use(quotas: Any, expect: Any, broker: FakeBroker) -> None:
    broker.throttled_rows = [throttled("app", entity=APP)]
    row = quotas.locator("tbody tr")
    for words in ("client id", "app", "1 MiB/s", "768 KiB/s", "75 %", "1 throttled", "by root"):
        expect(row).to_contain_text(words)
    expect(quotas.locator("#count")).to_have_text("1 rule")


def test_the_rules_nearest_to_a_limit_come_first(quotas: Any, expect: Any, broker: FakeBroker) -> None:
    broker.set(ALICE, {PRODUCE: 1_000.0})
    broker.observed = {APP: {PRODUCE: 1_000_000.0}, ALICE: {PRODUCE: 10.0}}
    broker.version += 1
    rows = quotas.locator("#table tbody tr")
    expect(rows.first).to_contain_text("alice")
    quotas.get_by_label("Order").select_option("Nearest limit first")
    expect(rows.first).to_contain_text("app")
    expect(quotas).to_have_url(re.compile("sort=used"))
    quotas.locator("th").get_by_role("button", name="Rule").click()
    expect(quotas.get_by_label("Order")).to_have_value("entity")


def test_a_limit_has_a_line_of_its_use_against_it(quotas: Any, expect: Any, broker: FakeBroker) -> None:
    cell = quotas.locator("tbody td[data-limit=yes]")
    expect(cell).to_have_count(1)
    broker.observed = {APP: {PRODUCE: 524_288.0}}
    expect(cell).to_contain_text("50 %")
    line = cell.locator(".spark path.line")
    expect(line).to_have_count(1)
    # Three quarters of the limit, then half of it.
    points = str(line.get_attribute("d")).removeprefix("M").split("L")
    heights = [float(point.split()[1]) for point in points]
    assert heights[0] == 8.75 and heights[-1] == 14.5
    expect(cell.locator(".spark title")).to_contain_text("768 KiB/s at most in the last")


def test_columns_without_a_limit_leave_their_width_to_the_names(
    quotas: Any, expect: Any, broker: FakeBroker
) -> None:
    def width() -> float:
        return float(quotas.locator("tbody td").first.bounding_box()["width"])

    expect(quotas.locator("col.unused")).to_have_count(3)
    narrow = width()
    broker.set(ALICE, {FETCH: 1e6, "request_percentage": 50.0, "controller_mutation_rate": 5.0})
    broker.version += 1
    expect(quotas.locator("col.unused")).to_have_count(0)
    assert width() < narrow


def test_adding_a_quota(quotas: Any, expect: Any, broker: FakeBroker) -> None:
    quotas.keyboard.press("n")
    quotas.get_by_label("User", exact=True).select_option("name")
    quotas.get_by_label("Name of the user").fill("alice")
    quotas.get_by_label("Client id", exact=True).select_option("default")
    expect(quotas.locator(".picker")).to_contain_text(
        "This user with each client id that has no rule with this user."
    )
    field(quotas, "Fetch").fill("2.5 MB")
    expect(quotas.locator(".reach")).to_contain_text("1 connected client matches this rule")
    expect(quotas.locator(".copyable pre")).to_have_text(
        "kafka-configs.sh --bootstrap-server 127.0.0.1:9092 --alter --add-config consumer_byte_rate=2500000 "
        "--entity-type users --entity-name alice --entity-type clients --entity-default"
    )
    quotas.get_by_role("button", name="Add quota").last.click()
    expect(quotas.locator("tbody tr")).to_have_count(2)
    assert broker.rows[(("user", "alice"), ("client-id", None))].value(FETCH) == 2_500_000
    expect(quotas.locator(".toast")).to_contain_text("Saved the limits of user alice, default client id.")
    assert broker.applied[-1][1].origin == "page"


def test_a_preview_counts_the_clients_of_all_gateways(quotas: Any, expect: Any, broker: FakeBroker) -> None:
    broker.remote_shares.client_rows = [usage("carol", "app")]
    broker.unlisted_client_count, broker.without_report = 1_200, ["3-c"]
    quotas.get_by_label("Edit client id app").click()
    field(quotas, "Produce").fill("500 kB")
    reach = quotas.locator(".reach")
    expect(reach).to_contain_text("3 connected clients match this rule")
    expect(reach).to_contain_text("Counts the first 4 of 1\u202f204 connected clients; of each other gateway")
    expect(reach).to_contain_text("Not included: gateway 3-c, which has told nothing yet.")


def test_editing_in_place(quotas: Any, expect: Any, broker: FakeBroker) -> None:
    quotas.get_by_label("Edit client id app").click()
    expect(field(quotas, "Produce")).to_be_focused()
    expect(field(quotas, "Produce")).to_have_value("1 MiB")
    expect(quotas.get_by_role("button", name="Save limits")).to_be_disabled()
    field(quotas, "Produce").fill("500 kB")
    expect(quotas.locator(".reach")).to_contain_text("2 connected clients match this rule")
    expect(quotas.locator(".reach")).to_contain_text("2 exceed 500 kB/s now and would be throttled")
    quotas.keyboard.press("Enter")
    expect(quotas.locator("tbody tr:not(.panel)")).to_contain_text("500 kB/s")
    assert broker.rows[APP].value(PRODUCE) == 500_000
    expect(quotas.get_by_label("Edit client id app")).to_be_focused()


@pytest.mark.parametrize("typed", ["10 kB", "999999", "1 MB"])
def test_a_small_byte_rate_is_as_exact_as_a_large_one(quotas: Any, expect: Any, typed: str) -> None:
    """Pacing keeps 10 kB/s within 0.2 %, so no limit gets a caution."""
    quotas.get_by_label("Edit client id app").click()
    edited = field(quotas, "Produce")
    edited.fill(typed)
    note = quotas.locator(f"#{edited.get_attribute('aria-describedby')}")
    expect(quotas.get_by_role("button", name="Save limits")).to_be_enabled()
    expect(note).to_have_attribute("data-kind", "")


def test_a_double_click_on_a_limit_edits_that_one(quotas: Any, expect: Any, broker: FakeBroker) -> None:
    quotas.locator("#table td[data-label=Fetch]").dblclick()
    expect(field(quotas, "Fetch")).to_be_focused()
    quotas.keyboard.type("5 MB")
    quotas.keyboard.press("Enter")
    expect(quotas.locator(".editor")).to_have_count(0)
    assert broker.rows[APP].value(FETCH) == 5e6


def test_an_edit_can_be_undone(quotas: Any, expect: Any, broker: FakeBroker) -> None:
    quotas.get_by_label("Edit client id app").click()
    field(quotas, "Produce").fill("")
    field(quotas, "Fetch").fill("3 MB")
    expect(quotas.locator(".copyable pre")).to_contain_text("--delete-config producer_byte_rate")
    quotas.get_by_role("button", name="Save limits").click()
    expect(quotas.locator(".toast")).to_contain_text("Saved")
    assert broker.rows[APP].value(PRODUCE) is None
    quotas.get_by_role("button", name="Undo").click()
    expect(quotas.locator(".toast")).to_contain_text("Restored")
    assert {limit.key: limit.value for limit in broker.rows[APP].limits} == {PRODUCE: 1_048_576}


def test_removing_says_first_what_follows(quotas: Any, expect: Any, broker: FakeBroker) -> None:
    quotas.get_by_label("Remove client id app").click()
    expect(quotas.locator(".reach")).to_contain_text("2 connected clients become unlimited.")
    quotas.keyboard.press("Escape")
    expect(quotas.locator(".editor")).to_have_count(0)
    quotas.get_by_label("Remove client id app").click()
    quotas.get_by_role("button", name="Remove limits").click()
    expect(quotas.locator("#table")).to_contain_text("No quotas yet")
    assert broker.rows == {}


def test_a_rule_that_goes_first_is_named(quotas: Any, expect: Any, broker: FakeBroker) -> None:
    broker.version += 1
    broker.set((("user", None),), {PRODUCE: 9e6})
    quotas.get_by_label("Edit client id app").click()
    field(quotas, "Produce").fill("2 MB")
    expect(quotas.locator(".reach")).to_contain_text("2 connected clients stay under user")
    expect(quotas.locator(".reach")).to_contain_text("which takes precedence")


def test_a_mistake_stands_beside_its_field_and_keeps_what_was_typed(
    quotas: Any, expect: Any, broker: FakeBroker
) -> None:
    quotas.get_by_label("Edit client id app").click()
    field(quotas, "Fetch").fill("ten")
    note = quotas.locator(".editor .note").nth(1)
    expect(note).to_have_text("Enter a number with a unit, such as 10 MB.")
    expect(field(quotas, "Fetch")).to_have_attribute("aria-invalid", "true")
    expect(quotas.get_by_role("button", name="Save limits")).to_be_disabled()
    field(quotas, "Fetch").fill("0")
    expect(note).to_contain_text("Enter a value greater than 0")
    expect(field(quotas, "Fetch")).to_have_value("0")
    assert broker.applied == []


def test_an_edit_against_a_changed_rule_shows_both_versions(
    quotas: Any, expect: Any, broker: FakeBroker
) -> None:
    quotas.get_by_label("Edit client id app").click()
    field(quotas, "Produce").fill("2 MB")
    expect(quotas.locator(".reach")).to_contain_text("2 connected clients match this rule")
    broker.version += 1
    broker.set(APP, {PRODUCE: 3e6}, by="somebody")
    quotas.get_by_role("button", name="Save limits").click()
    conflict = quotas.locator(".conflict")
    for words in ("somebody changed this rule in the meantime", "3 MB/s", "2 MB/s"):
        expect(conflict).to_contain_text(words)
    assert broker.rows[APP].value(PRODUCE) == 3e6
    conflict.get_by_role("button", name="Overwrite").click()
    expect(quotas.locator(".toast")).to_contain_text("Saved")
    assert broker.rows[APP].value(PRODUCE) == 2e6


def test_a_rule_that_is_there_already_is_not_overwritten_by_adding(
    quotas: Any, expect: Any, broker: FakeBroker
) -> None:
    quotas.keyboard.press("n")
    quotas.get_by_label("Name of the client id").fill("app")
    field(quotas, "Produce").fill("7 MB")
    conflict = quotas.locator(".conflict")
    expect(conflict).to_contain_text("A rule for this entity exists already.")
    conflict.get_by_role("button", name="Use current").click()
    expect(field(quotas, "Produce")).to_have_value("1 MiB")
    assert broker.rows[APP].value(PRODUCE) == 1_048_576


def test_another_operators_edit_is_shown_and_does_not_close_an_open_editor(
    quotas: Any, expect: Any, broker: FakeBroker
) -> None:
    quotas.get_by_label("Edit client id app").click()
    field(quotas, "Fetch").fill("5 MB")
    broker.version += 1
    broker.set(ALICE, {PRODUCE: 4e6})
    expect(quotas.locator("tbody tr:not(.panel)")).to_have_count(2)
    expect(field(quotas, "Fetch")).to_have_value("5 MB")
    expect(field(quotas, "Fetch")).to_be_focused()


def test_search_kind_sort_and_page_are_in_the_address(quotas: Any, expect: Any, broker: FakeBroker) -> None:
    for index in range(60):
        broker.set((("user", f"user {index:02}"),), {PRODUCE: 1e6 + index})
    broker.version += 1
    rules = quotas.locator("tbody tr")
    expect(rules).to_have_count(50)
    expect(quotas.locator("#pager")).to_contain_text("1 to 50 of 61")
    quotas.get_by_role("button", name="Next").click()
    expect(rules).to_have_count(11)
    assert quotas.url.endswith("?offset=50")
    quotas.locator("#shape").select_option("user")
    quotas.get_by_role("button", name="Produce", exact=True).click()
    expect(rules.first).to_contain_text("user 59")
    quotas.locator("#filter").fill("user 1")
    expect(rules).to_have_count(10)
    quotas.reload()
    expect(rules.first).to_contain_text("user 19")
    expect(quotas.locator("#filter")).to_have_value("user 1")
    quotas.locator("#filter").fill("nobody")
    quotas.get_by_role("button", name="Show all rules").click()
    expect(quotas.locator("#count")).to_have_text("61 rules")


def test_a_viewer_sees_everything_and_changes_nothing(page: Watched, expect: Any, broker: FakeBroker) -> None:
    broker.set(APP, {PRODUCE: 1e6})
    page.sign_in("viewer-token")
    opened = page.go("/quotas")
    expect(opened.locator("tbody tr")).to_contain_text("1 MB/s")
    refused_buttons(opened, "#add, .actions button", "editor", 4)
    opened.keyboard.press("n")
    expect(opened.locator(".editor")).to_have_count(0)


def test_limits_are_only_measured_and_say_what_they_would_have_done(
    quotas: Any, expect: Any, broker: FakeBroker
) -> None:
    quotas.get_by_label("Edit client id app").click()
    quotas.get_by_label("Shadow (not enforced)").check()
    field(quotas, "Produce").fill("500 kB")
    expect(quotas.locator(".reach")).to_contain_text("and would only be counted as throttled")
    expect(quotas.locator(".copyable pre")).to_contain_text(
        "&& weir quotas --console http://127.0.0.1:8080 set --client-id app --shadow"
    )
    quotas.get_by_role("button", name="Save limits").click()
    expect(quotas.locator("form.editor")).to_have_count(0)
    row = quotas.locator("#table tbody tr")
    expect(row).to_contain_text("Shadow (not enforced)")
    assert broker.rows[APP].shadow
    broker.shadow_use[APP, PRODUCE] = ShadowUse(APP, PRODUCE, 37, 12_400, broker.now_ms)
    broker.version += 1
    expect(row.locator(".would")).to_have_text("would throttle 37×")
    expect(row.locator(".would")).to_have_attribute(
        "title", re.compile("^Would have throttled 37 requests, 12.4\\ss in total, the last")
    )
    quotas.get_by_role("button", name="Undo").click()
    expect(row).not_to_contain_text("Shadow (not enforced)")
    assert not broker.rows[APP].shadow and broker.rows[APP].value(PRODUCE) == 1_048_576


def test_a_limit_is_raised_until_a_time_and_the_raise_is_undone(
    quotas: Any, expect: Any, broker: FakeBroker
) -> None:
    quotas.get_by_label("Edit client id app").click()
    field(quotas, "Produce").fill("5 MB")
    quotas.get_by_label("Until", exact=True).first.check()
    expect(quotas.locator("form.editor")).to_contain_text("Enter until when the values apply.")
    expect(quotas.get_by_role("button", name="Save limits")).to_be_disabled()
    quotas.locator("#times-until").fill("2027-01-15T12:00")
    command = quotas.locator(".copyable pre")
    expect(command).to_contain_text(
        "weir quotas --console http://127.0.0.1:8080 set --client-id app "
        "producer_byte_rate=5000000 --until 2027-01-15T"
    )
    quotas.get_by_role("button", name="Save limits").click()
    expect(quotas.locator("form.editor")).to_have_count(0)
    row = quotas.locator("#table tbody tr")
    countdown = row.locator(".countdown")
    expect(countdown).to_contain_text("Produce 5 MB/s")
    expect(countdown).to_contain_text("ends in")
    expect(countdown.locator(".left")).to_have_text(re.compile("[0-9]+:[0-9]{2}"))
    title = str(countdown.get_attribute("title"))
    assert title.startswith("Produce 5 MB/s until Jan 15")
    assert "otherwise 1 MiB/s. Set by " in title
    expect(row.locator("td[data-limit=yes]")).to_contain_text("5 MB/s")
    assert broker.rows[APP].value(PRODUCE) == 1_048_576
    quotas.get_by_role("button", name="Undo").click()
    expect(countdown).to_have_count(0)
    expect(row.locator("td[data-limit=yes]")).to_contain_text("1 MiB/s")
    assert broker.temporaries == {}


def test_a_limit_of_every_week_is_edited_and_ended(quotas: Any, expect: Any, broker: FakeBroker) -> None:
    weekly = {"windows": ["Sat-Sun 09:00-17:00"], "zone": "Europe/Berlin"}
    broker.temporaries = {APP: {PRODUCE: (from_times(2e6, weekly), "ann")}}
    broker.version += 1
    countdown = quotas.locator(".countdown")
    expect(countdown).to_contain_text("Produce 2 MB/s")
    expect(countdown).to_have_attribute("title", re.compile("Sat-Sun 09:00-17:00 Europe/Berlin; otherwise"))
    expect(countdown).to_contain_text("begins in")
    quotas.get_by_label("Edit client id app").click()
    expect(quotas.get_by_label("Until", exact=True).first).to_be_checked()
    expect(field(quotas, "Produce")).to_have_value("2 MB")
    expect(quotas.locator("#times-windows")).to_have_value("Sat-Sun 09:00-17:00")
    quotas.locator("#times-windows").fill("Fri 00:00-24:00; Sat 10:00-10:00")
    expect(quotas.locator(".field-error")).to_contain_text("begins and ends at the same time")
    quotas.locator("#times-windows").fill("Fri 00:00-24:00; Sat 10:00-12:00")
    expect(quotas.locator(".copyable pre")).to_contain_text("--weekly 'Sat 10:00-12:00 Europe/Berlin'")
    quotas.get_by_role("button", name="Save limits").click()
    expect(countdown).to_contain_text("ends in")
    quotas.get_by_label("Edit client id app").click()
    field(quotas, "Produce").fill("")
    expect(quotas.locator(".copyable pre")).to_have_text(
        "weir quotas --console http://127.0.0.1:8080 remove --client-id app --temporary producer_byte_rate"
    )
    quotas.get_by_role("button", name="Save limits").click()
    expect(countdown).to_have_count(0)
    assert broker.rows[APP].value(PRODUCE) == 1_048_576


def test_a_rule_goes_into_shadow_by_itself_and_out_of_it(
    quotas: Any, expect: Any, broker: FakeBroker
) -> None:
    for shadow in (True, False):
        quotas.get_by_label("Edit client id app").click()
        expect(quotas.get_by_role("button", name="Save limits")).to_be_disabled()
        quotas.get_by_label("Shadow (not enforced)" if shadow else "Enforced", exact=True).check()
        expect(quotas.locator(".reach")).to_contain_text("2 connected clients match this rule")
        quotas.get_by_role("button", name="Save limits").click()
        expect(quotas.locator(".editor")).to_have_count(0)
        assert broker.rows[APP].shadow is shadow


def test_the_clients_without_a_limit_are_those_of_all_gateways(
    quotas: Any, expect: Any, broker: FakeBroker
) -> None:
    section = quotas.locator("#unlimited")
    broker.remote_shares.client_rows = [
        usage("bob", "other", 3e6, gateways=("g2-77aa",)),
        usage("bob", "far", 1e3, gateways=("g2-77aa", "g3-0000"), history=tuple),
    ]
    broker.usage_rows = [usage("bob", "other", 1e6)]
    broker.unlisted_client_count = 1_200
    broker.version += 1
    rows, note = section.locator("tbody tr"), section.locator(".elsewhere")
    expect(rows).to_have_count(2)
    for words in ("other", "4 MB/s", "gateway g2-77aa"):
        expect(rows.first).to_contain_text(words)
    expect(rows.last).to_contain_text("gateway g2-77aa, gateway g3-0000")
    expect(note).to_contain_text("clients of other gateways are not included: each gateway tells the 500")
    broker.unlisted_client_count, broker.without_report = 0, ["g3-0000"]
    broker.version += 1
    expect(note).to_have_text("Not included: gateway g3-0000, which has told nothing yet.")
    broker.remote_shares.client_rows, broker.without_report = [], []
    broker.version += 1
    expect(rows).to_have_count(1)
    expect(note).to_be_hidden()


def test_clients_without_a_limit_get_one_with_a_click(quotas: Any, expect: Any, broker: FakeBroker) -> None:
    section = quotas.locator("#unlimited")
    expect(section).to_be_hidden()
    broker.usage_rows = [
        usage("ANONYMOUS", "busy", 2e6, 0.5e6),
        usage("bob", "other", 1e3),
        usage("alice", "app", 9e6, limited_by=(PRODUCE,)),
    ]
    broker.version += 1
    rows = section.locator("tbody tr")
    expect(rows).to_have_count(2)
    for words in ("client id", "busy", "2 MB/s", "500 kB/s", "10/s"):
        expect(rows.first).to_contain_text(words)
    section.get_by_label("Set a limit for client id busy").click()
    expect(quotas.get_by_label("Name of the client id")).to_have_value("busy")
    expect(quotas.locator("form.editor")).to_contain_text("now 2 MB/s")
    field(quotas, "Produce").fill("1 MB")
    quotas.get_by_role("button", name="Add quota").last.click()
    expect(quotas.locator(".toast")).to_contain_text("Saved the limits of client id busy.")
    section.get_by_label("Set a limit for user bob, client id other").click()
    expect(quotas.get_by_label("Name of the user")).to_have_value("bob")

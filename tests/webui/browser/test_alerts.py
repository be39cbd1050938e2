"""The page of alerts: rules and destinations are made, tested and removed; what fires is shown."""

import re
from typing import Any

import pytest
from msgspec.structs import replace

from broker.controller.alerts import AlertCondition, AlertRule
from broker.controller.rows.alerts import AlertEvent, AlertRow, Attempt, Delivery
from tests.webui.browser.conftest import Watched, refused_buttons
from tests.webui.fakes import FakeBroker

LAG = AlertRule(AlertCondition.LAG, 1_000.0, for_ms=300_000)


@pytest.fixture
def alerts(page: Watched, broker: FakeBroker) -> Any:
    broker.add_destination("on-call", Authorization="Bearer s3cret")
    page.sign_in()
    return page.go("/alerts")


def row(page: Any, table: str, name: str) -> Any:
    return page.locator(f"#{table} tbody tr:not(.panel)", has_text=name)


def test_a_rule_is_made_changed_and_removed(alerts: Any, expect: Any, broker: FakeBroker) -> None:
    expect(alerts.locator("#table")).to_contain_text("No rule yet")
    alerts.keyboard.press("n")
    alerts.get_by_label("Name", exact=True).fill("reports")
    of_gateways = alerts.get_by_label("Condition", exact=True).locator("option", has_text="no gateway wrote")
    expect(of_gateways).to_have_count(0)
    alerts.get_by_label("Condition", exact=True).select_option("throttled")
    alerts.get_by_label("Fires above").fill("5 s")
    alerts.get_by_label("Pending period").fill("1 minute")
    alerts.get_by_label("on-call", exact=True).check()
    alerts.get_by_role("button", name="Save rule").click()
    expect(row(alerts, "table", "reports")).to_contain_text("a client is throttled longer than 5 s for 1 min")
    expect(row(alerts, "table", "reports")).to_contain_text("on-call")
    rule = broker.metadata.image.alert_rules["reports"].rule
    assert (rule.threshold, rule.for_ms, rule.destinations) == (5_000, 60_000, ("on-call",))
    alerts.get_by_label("Edit reports").click()
    expect(alerts.get_by_label("Fires above")).to_have_value("5 s")
    alerts.get_by_label("Fires above").fill("10 s")
    alerts.get_by_role("button", name="Save rule").click()
    expect(row(alerts, "table", "reports")).to_contain_text("longer than 10 s")
    alerts.get_by_role("button", name="Undo").click()
    expect(row(alerts, "table", "reports")).to_contain_text("longer than 5 s")
    alerts.get_by_label("Remove reports").click()
    alerts.get_by_role("button", name="Remove rule").click()
    expect(alerts.locator("#table")).to_contain_text("No rule yet")
    alerts.get_by_role("button", name="Undo").click()
    expect(row(alerts, "table", "reports")).to_be_visible()


def test_a_rule_for_an_idle_share_fires_below(alerts: Any, expect: Any, broker: FakeBroker) -> None:
    alerts.keyboard.press("n")
    alerts.get_by_label("Name", exact=True).fill("busy network")
    alerts.get_by_label("Condition", exact=True).select_option("network-idle")
    expect(alerts.get_by_label("Applies to")).to_be_hidden()
    alerts.get_by_label("Fires below").fill("20 %")
    alerts.get_by_label("Resolves at or above").fill("40")
    alerts.get_by_label("Notify again every").fill("1 h")
    alerts.get_by_role("button", name="Save rule").click()
    sentence = "the idle share of the network threads is below 20 %"
    expect(row(alerts, "table", "busy network")).to_contain_text(sentence)
    rule = broker.metadata.image.alert_rules["busy network"].rule
    assert (rule.fires_below, rule.threshold, rule.clear, rule.repeat_ms) == (True, 20, 40, 3_600_000)


def test_a_rule_for_throughput_fires_above_or_below(alerts: Any, expect: Any, broker: FakeBroker) -> None:
    alerts.keyboard.press("n")
    alerts.get_by_label("Name", exact=True).fill("nothing arrives")
    alerts.get_by_label("Condition", exact=True).select_option("bytes-in")
    alerts.get_by_label("Fires above").fill("10 kB/s")
    alerts.get_by_label("Fires", exact=True).select_option("below")
    expect(alerts.get_by_label("Fires below")).to_have_value("10 kB/s")
    alerts.get_by_role("button", name="Save rule").click()
    expect(row(alerts, "table", "nothing arrives")).to_contain_text("the broker receives is below 10 kB/s")
    rule = broker.metadata.image.alert_rules["nothing arrives"].rule
    assert (rule.below, rule.threshold) == (True, 10_000)
    alerts.get_by_label("Edit nothing arrives").click()
    expect(alerts.get_by_label("Fires below")).to_have_value("10000 B/s")


def test_bad_input_stands_beside_its_field_and_is_kept(alerts: Any, expect: Any, broker: FakeBroker) -> None:
    alerts.keyboard.press("n")
    save = alerts.get_by_role("button", name="Save rule")
    for label, typed, words in (
        ("Name", "", "Enter a name."),
        ("Fires above", "", "Enter a number"),
        ("Fires above", "-1", "Enter a number"),
        ("Fires above", "many", "Enter a number"),
        ("Fires above", "1e999", "Enter a number"),
        ("Fires above", "10,000", "10,000 may mean 10000 or 10"),
        ("Resolves at or below", "x", "Enter a number, such as 5."),
        ("Pending period", "soon", "Enter a duration"),
        ("Notify again every", "often", "Enter a duration"),
    ):
        field = alerts.get_by_label(label, exact=True)
        field.fill(typed)
        save.click()
        expect(alerts.get_by_role("alert")).to_contain_text(words)
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(field).to_have_value(typed)
        field.fill({"Name": "\u202ereports<b>", "Fires above": "10"}.get(label, ""))
    alerts.get_by_label("Name", exact=True).fill("reports<b>")
    alerts.get_by_label("Resolves at or below").fill("11")
    save.click()
    expect(alerts.get_by_role("alert")).to_contain_text("must be from 0 to the threshold")
    alerts.get_by_label("Resolves at or below").press("Escape")
    alerts.get_by_role("button", name="Keep editing").click()
    alerts.get_by_label("Resolves at or below").fill("9")
    save.click()
    expect(row(alerts, "table", "reports<b>")).to_be_visible()


def test_a_destination_is_made_and_its_secrets_are_kept(alerts: Any, expect: Any, broker: FakeBroker) -> None:
    alerts.get_by_role("button", name="Add a destination").click()
    alerts.get_by_label("Name", exact=True).fill("chat")
    alerts.get_by_label("URL").fill("http://10.0.0.1/hook")
    alerts.get_by_role("button", name="Add a header").click()
    alerts.get_by_label("Header name").fill("X-Token")
    alerts.get_by_label("Header value").fill("s3cret-too")
    alerts.get_by_role("button", name="Save destination").click()
    expect(alerts.get_by_role("alert")).to_contain_text("10.0.0.1 in alerts.destination.hosts")
    expect(alerts.get_by_label("URL")).to_be_focused()
    alerts.get_by_label("URL").fill("https://chat.example/T0/path-secret")
    alerts.get_by_role("button", name="Save destination").click()
    expect(row(alerts, "destinations", "chat")).to_contain_text("https://chat.example/…")
    expect(row(alerts, "destinations", "chat")).to_contain_text("headers: X-Token")
    assert "s3cret" not in alerts.content() and "path-secret" not in alerts.content()
    alerts.get_by_label("Edit chat").click()
    expect(alerts.get_by_label("Keep the headers X-Token")).to_be_checked()
    alerts.get_by_label("Kind").select_option("alertmanager")
    alerts.get_by_role("button", name="Save destination").click()
    expect(row(alerts, "destinations", "chat")).to_contain_text("Alertmanager")
    known = broker.metadata.image.alert_destinations["chat"].destination
    assert known is not None and known.headers == {"X-Token": "s3cret-too"}
    alerts.get_by_label("Remove chat").click()
    alerts.get_by_role("button", name="Remove destination").click()
    expect(row(alerts, "destinations", "chat")).to_have_count(0)


def test_a_mail_destination_is_made_and_keeps_its_password(
    alerts: Any, expect: Any, broker: FakeBroker
) -> None:
    alerts.get_by_role("button", name="Add a destination").click()
    alerts.get_by_label("Name", exact=True).fill("mail")
    alerts.get_by_label("Kind").select_option("email")
    expect(alerts.get_by_role("button", name="Add a header")).to_be_hidden()
    save = alerts.get_by_role("button", name="Save destination")
    steps = (
        ("Mail server", "smtp://mail.example.com:587", "Enter a mail server"),
        ("From", "weir@example.com", "Enter the address that mails come from"),
        ("To", "ops@example.com, b@example.com", "Enter the address of a recipient"),
    )
    for label, text, words in steps:
        save.click()
        expect(alerts.get_by_role("alert")).to_contain_text(words)
        field = alerts.get_by_label(label, exact=True)
        expect(field).to_be_focused()
        field.fill(text)
    alerts.get_by_label("User", exact=True).fill("weir")
    save.click()
    expect(alerts.get_by_role("alert")).to_contain_text("Give the password of the user")
    expect(alerts.get_by_label("Password", exact=True)).to_be_focused()
    alerts.get_by_label("Password", exact=True).fill("mail-s3cret")
    save.click()
    shown = row(alerts, "destinations", "mail")
    expect(shown).to_contain_text("ops@example.com, b@example.com")
    expect(shown).to_contain_text("by smtp://mail.example.com:587 as weir")
    assert "mail-s3cret" not in alerts.content()
    alerts.get_by_label("Edit mail").click()
    expect(alerts.get_by_label("Password", exact=True)).to_have_value("")
    alerts.get_by_label("To", exact=True).fill("c@example.com")
    save.click()
    expect(shown).to_contain_text("c@example.com")
    known = broker.metadata.image.alert_destinations["mail"].destination
    assert known is not None
    assert (known.secret, known.username, known.recipients) == ("mail-s3cret", "weir", ("c@example.com",))


def test_a_pagerduty_destination_needs_its_key_once(alerts: Any, expect: Any, broker: FakeBroker) -> None:
    alerts.get_by_role("button", name="Add a destination").click()
    alerts.get_by_label("Name", exact=True).fill("pager")
    alerts.get_by_label("Kind").select_option("pagerduty")
    save = alerts.get_by_role("button", name="Save destination")
    save.click()
    expect(alerts.get_by_role("alert")).to_have_text("Enter the integration key.")
    alerts.get_by_label("Integration key").fill("short")
    save.click()
    expect(alerts.get_by_role("alert")).to_contain_text("PagerDuty's have 32 letters and digits")
    expect(alerts.get_by_label("Integration key")).to_be_focused()
    alerts.get_by_label("Integration key").fill("k" * 32)
    save.click()
    expect(row(alerts, "destinations", "pager")).to_contain_text("https://events.pagerduty.com/")
    assert "k" * 32 not in alerts.content()
    alerts.get_by_label("Edit pager").click()
    alerts.get_by_label("URL", exact=True).fill("https://events.eu.pagerduty.com/v2/enqueue")
    save.click()
    expect(alerts.get_by_role("alert")).to_contain_text("Give the integration key again")
    alerts.get_by_label("Integration key").fill("e" * 32)
    save.click()
    expect(row(alerts, "destinations", "pager")).to_contain_text("https://events.eu.pagerduty.com/")


def test_a_destination_that_fails_says_when_it_is_tried_again(
    alerts: Any, expect: Any, broker: FakeBroker
) -> None:
    at_ms = int(alerts.evaluate("Date.now()")) + 3_600_000
    broker.alerts.sent["on-call"] = Delivery(2, 0, 0, 0, "451 try later", None, at_ms)
    shown = row(alerts, "destinations", "on-call")
    expect(shown).to_contain_text("451 try later")
    expect(shown).to_contain_text(re.compile(r"tries again in (59 min|1 h)"))


def test_a_destination_is_tested(alerts: Any, expect: Any, broker: FakeBroker) -> None:
    alerts.get_by_label("Test on-call").click()
    expect(alerts.locator(".toast")).to_contain_text("on-call accepted the test: 200 OK.")
    broker.alerts.answer = Attempt(False, 404, "404 Not Found")
    alerts.get_by_label("Test on-call").click()
    expect(alerts.locator(".toast")).to_contain_text("on-call did not accept the test: 404 Not Found.")
    assert broker.alerts.tested == ["on-call", "on-call"]


def test_what_fires_and_what_happened_is_shown(alerts: Any, expect: Any, broker: FakeBroker) -> None:
    labels = (("group", "orders\u202e"),)
    broker.add_rule("lagging", LAG)
    broker.alerts.counts["lagging"] = (1, 1, 0, 5_000.0)
    at_ms = broker.now_ms
    broker.alerts.rows = [
        AlertRow("lagging", "critical", "lag", labels, "firing", 5_000.0, 1_000.0, at_ms, at_ms)
    ]
    broker.alerts.events = [
        AlertEvent(1, at_ms, "firing", "lagging", "critical", labels, 5_000.0),
        AlertEvent(2, at_ms, "undelivered", destination="on-call", text="1 notification: 404"),
    ]
    broker.alerts.sent["on-call"] = Delivery(0, 3, 1, 0, "404 Not Found", at_ms)
    expect(alerts.locator("#active-count")).to_have_text("1 alert firing")
    expect(alerts.locator("#active tbody tr")).to_contain_text("5\u202f000")
    expect(row(alerts, "table", "lagging")).to_contain_text("1 firing")
    expect(row(alerts, "destinations", "on-call")).to_contain_text("404 Not Found")
    expect(alerts.locator("#history tbody tr")).to_have_count(2)
    expect(alerts.locator("#history tbody tr").first).to_contain_text("1 notification: 404")


def test_a_value_that_is_unknown_says_since_when(alerts: Any, expect: Any, broker: FakeBroker) -> None:
    broker.add_rule("lagging", LAG)
    labels, at_ms = (("group", "orders"),), broker.now_ms
    known = AlertRow("lagging", "critical", "lag", labels, "firing", 5_000.0, 1_000.0, at_ms, at_ms)
    broker.alerts.rows = [known]
    shown = alerts.locator("#active tbody tr")
    expect(shown).to_contain_text("5\u202f000")
    expect(shown).not_to_contain_text("unknown")
    broker.alerts.rows = [replace(known, unknown_since_at_ms=at_ms)]
    expect(shown).to_contain_text("unknown since")
    expect(shown).to_contain_text("5\u202f000")


def test_a_concurrent_change_of_a_rule_is_reported(alerts: Any, expect: Any, broker: FakeBroker) -> None:
    broker.add_rule("lagging", LAG)
    alerts.get_by_label("Edit lagging").click()
    broker.add_rule("lagging", AlertRule(AlertCondition.LAG, 7.0))
    alerts.get_by_label("Fires above").fill("10")
    alerts.get_by_role("button", name="Save rule").click()
    expect(alerts.locator(".conflict")).to_contain_text("the lag of a group exceeds 7 records")
    assert broker.metadata.image.alert_rules["lagging"].rule.threshold == 7
    alerts.get_by_role("button", name="Overwrite").click()
    expect(row(alerts, "table", "lagging")).to_contain_text("exceeds 10 records")


def test_the_labels_of_an_alert_are_not_cut(alerts: Any, expect: Any, broker: FakeBroker) -> None:
    labels = (("client_id", "greedy"), ("user", "ANONYMOUS"), ("quota_type", "produce"))
    at_ms = broker.now_ms
    broker.alerts.rows = [
        AlertRow("long", "warning", "throttled", labels, "firing", 993.0, 100.0, at_ms, at_ms)
    ]
    names = alerts.locator("#active .chip .name")
    expect(names).to_have_text(["greedy", "ANONYMOUS", "produce"])
    assert (
        names.evaluate_all("all => all.map(each => Math.max(0, each.scrollWidth - each.clientWidth))")
        == [0] * 3
    )


def test_a_long_silence_leaves_its_buttons_in_sight(alerts: Any, expect: Any, broker: FakeBroker) -> None:
    name, match = "a-reason-without-end-" * 3, "a-client-without-end-" * 12
    alerts.get_by_role("button", name="Add a silence").click()
    alerts.get_by_label("Reason").fill(name)
    alerts.get_by_label("About", exact=True).fill(match)
    alerts.get_by_role("button", name="Save silence").click()
    box = alerts.get_by_label(f"End {name}").bounding_box()
    assert box["x"] + box["width"] <= alerts.viewport_size["width"]
    expect(row(alerts, "silences", name)).to_contain_text(re.compile(r"in (1 h 0|59) min"))


def test_others_see_alerts_and_change_what_they_may(page: Watched, broker: FakeBroker) -> None:
    broker.add_destination("on-call")
    broker.add_rule("lagging", LAG)
    page.sign_in("viewer-token")
    opened = page.go("/alerts")
    row(opened, "table", "lagging").wait_for()
    refused_buttons(opened, "#add, #add-silence, #table .actions button", "editor", 4)
    refused_buttons(opened, "#add-destination, #destinations .actions button", "admin", 4)


def test_an_alert_is_silenced_and_the_silence_ends(alerts: Any, expect: Any, broker: FakeBroker) -> None:
    broker.add_rule("lagging", LAG)
    labels, at_ms = (("group", "orders*"),), broker.now_ms
    firing = AlertRow("lagging", "critical", "lag", labels, "firing", 5_000.0, 1_000.0, at_ms, at_ms)
    broker.alerts.rows = [firing]
    alerts.get_by_label("Silence lagging").click()
    expect(alerts.get_by_label("Rule", exact=True)).to_have_value("lagging")
    expect(alerts.get_by_label("About", exact=True)).to_have_value("orders[*]")
    save = alerts.get_by_role("button", name="Save silence")
    save.click()
    expect(alerts.get_by_role("alert")).to_have_text("Enter a reason.")
    alerts.get_by_label("Reason").fill("works")
    for typed, words in (
        ("", "Enter a duration"),
        ("soon", "Enter a duration"),
        ("31 d", "Enter a duration from 1 s to 30 days."),
        ("999 ms", "Enter a duration from 1 s to 30 days."),
    ):
        alerts.get_by_label("Lasts from now").fill(typed)
        save.click()
        expect(alerts.get_by_role("alert")).to_contain_text(words)
        expect(alerts.get_by_label("Lasts from now")).to_have_value(typed)
    alerts.get_by_label("Lasts from now").fill("2 h")
    save.click()
    expect(row(alerts, "silences", "works")).to_contain_text(re.compile(r"in (2 h 0|1 h 59) min"))
    silence = broker.metadata.image.alert_silences["works"].silence
    assert (silence.rule, silence.match) == ("lagging", "orders[*]")
    ends_at_ms = silence.ends_at_ms
    broker.alerts.rows = [replace(firing, silenced_until_ms=ends_at_ms)]
    broker.alerts.silences["works"] = 1
    expect(alerts.locator("#active tbody tr")).to_contain_text("silenced")
    alerts.get_by_label("End works").click()
    expect(alerts.locator("#silences")).to_contain_text("No silence")
    alerts.get_by_role("button", name="Undo").click()
    expect(row(alerts, "silences", "works")).to_be_visible()
    alerts.get_by_label("Edit works").click()
    expect(alerts.get_by_label("Lasts from now")).to_have_value(re.compile(r"^(2 h|1\d\d min)$"))
    alerts.get_by_label("About", exact=True).fill("orders*")
    save.click()  # what was not changed ends when it did
    expect(row(alerts, "silences", "works")).to_contain_text("orders*")
    kept = broker.metadata.image.alert_silences["works"].silence
    assert kept.match == "orders*" and abs(kept.ends_at_ms - ends_at_ms) < 30_000
    alerts.get_by_label("Edit works").click()
    alerts.get_by_label("Lasts from now").fill("1 h")
    alerts.get_by_label("Rule", exact=True).select_option("")
    save.click()
    expect(row(alerts, "silences", "works")).to_contain_text("all rules")

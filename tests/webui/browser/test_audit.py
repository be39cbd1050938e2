"""The trail on its page: who changed what, and the way back."""

import re
from typing import Any

import pytest

from broker.controller.commands import Actor, ChangeOrigin, Role
from broker.security.acl.acl import Operation
from tests.security.acl.acls import allow
from tests.webui.browser.conftest import Watched
from tests.webui.fakes import FakeBroker
from tests.webui.rows import acl_change, change, connection

ANN = Actor("ann", Role.EDITOR, "10.0.0.1", ChangeOrigin.REST)
APP = (("client-id", "app"),)


@pytest.fixture
def audit(page: Watched, broker: FakeBroker) -> Any:
    broker.version = 5
    broker.set(APP, {"producer_byte_rate": 2e6})
    broker.connection_rows = [connection("app")]
    broker.trail = [
        change(1, ANN, kind="topic", entity="orders", key="partitions", new="3", origin="wire"),
        change(2, ANN),
        change(3, ANN, old="1000000", new="2000000", actor="<b>bob</b>"),
    ]
    page.sign_in()
    return page.go("/audit")


def test_a_change_names_its_author_and_address_and_both_values(audit: Any, expect: Any) -> None:
    rows = audit.locator("tbody tr")
    expect(rows).to_have_count(3)
    for words in ("<b>bob</b>", "REST", "10.0.0.1", "client id", "app", "1 MB/s", "2 MB/s"):
        expect(rows.first).to_contain_text(words)
    expect(rows.nth(1)).to_contain_text("superseded")
    expect(rows.last).to_contain_text("Kafka protocol")


@pytest.mark.parametrize(
    ("kind", "key", "old", "new", "words"),
    [
        ("topic-config", "retention.bytes", "1073741824", "-1", ("1 GiB", "no limit")),
        ("topic-config", "retention.ms", "604800000", "90500", ("7 d", "90.5 s")),
        ("topic-config", "cleanup.policy", "", "compact", ("empty", "compact")),
        ("topic-config", "flush.messages", "9223372036854775807", "20000", ("no limit", "20\u202f000")),
        ("broker-config", "log.segment.bytes", None, "1000000", ("not set", "1 MB")),
        ("group-config", "share.record.lock.duration.ms", "30000", None, ("30 s", "removed")),
        ("client-metrics", "interval.ms", "300000", "60000", ("5 min", "1 min")),
    ],
)
def test_settings_have_units_and_the_value_itself_in_the_tooltip(
    page: Watched,
    expect: Any,
    broker: FakeBroker,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    key: str,
    old: str | None,
    new: str | None,
    words: tuple[str, str],
) -> None:
    monkeypatch.setattr(broker, "_final", lambda row: None)
    broker.trail = [change(1, ANN, kind=kind, entity="orders", key=key, old=old, new=new)]
    page.sign_in()
    opened = page.go("/audit")
    before, after = opened.locator("tbody .from-to > .was"), opened.locator("tbody .from-to > b")
    expect(before).to_have_text(words[0])
    expect(before).to_have_attribute("title", old or "")
    expect(after).to_have_text(words[1])
    if new is not None:
        expect(after).to_have_attribute("title", new)
    if old:
        opened.get_by_label("Undo change 1").click()
        expect(opened.locator("tr.panel")).to_contain_text(f"returns to {words[0]}")


def test_an_undo_says_first_what_it_does(audit: Any, expect: Any, broker: FakeBroker) -> None:
    audit.get_by_label("Undo change 3").click()
    panel = audit.locator("tr.panel")
    expect(panel).to_contain_text("returns to 1 MB/s")
    expect(panel).to_contain_text("1 connected client matches this rule")
    expect(panel.locator("pre")).to_contain_text("--add-config producer_byte_rate=1000000")
    assert broker.rows[APP].value("producer_byte_rate") == 2e6
    audit.get_by_role("button", name="Undo this change").click()
    expect(audit.locator("tbody tr")).to_have_count(4)
    expect(audit.locator("tbody tr").first).to_contain_text("root")
    assert broker.rows[APP].value("producer_byte_rate") == 1e6


def test_an_undo_that_came_too_late_is_reported(audit: Any, expect: Any, broker: FakeBroker) -> None:
    audit.get_by_label("Undo change 3").click()
    expect(audit.get_by_role("button", name="Undo this change")).to_be_enabled()
    broker.set(APP, {"producer_byte_rate": 9e6})
    audit.get_by_role("button", name="Undo this change").click()
    expect(audit.locator("tr.panel")).to_contain_text("The value has been changed since")
    assert broker.rows[APP].value("producer_byte_rate") == 9e6


def test_an_undo_of_an_acl_needs_the_secret_again(audit: Any, expect: Any, broker: FakeBroker) -> None:
    broker.trail.append(acl_change(4, ANN, allow(Operation.READ)))
    broker.version += 1
    audit.get_by_label("Undo change 4").click()
    panel, undo = audit.locator("tr.panel"), audit.get_by_role("button", name="Undo this change")
    secret = panel.get_by_label("Your token or password")
    expect(undo).to_be_enabled()
    expect(secret).to_be_focused()
    undo.click()
    expect(panel).to_contain_text("Enter your token or password.")
    secret.fill("wrong")
    undo.click()
    expect(panel).to_contain_text("Wrong secret")
    expect(undo).to_be_enabled()
    assert len(broker.trail) == 4
    secret.fill("admin-token")
    undo.click()
    expect(audit.locator("tbody tr:not(.panel)")).to_have_count(5)
    assert len(broker.trail) == 5


def test_a_change_made_elsewhere_appears_by_itself(audit: Any, expect: Any, broker: FakeBroker) -> None:
    broker.trail.append(change(4, ANN, key="consumer_byte_rate", new="5000000"))
    broker.version += 1
    expect(audit.locator("tbody tr").first).to_contain_text("5 MB/s")


def test_the_filters_are_kept_in_the_address_and_in_the_export(audit: Any, expect: Any) -> None:
    audit.get_by_label("Filter by kind").select_option("topic")
    expect(audit.locator("tbody tr")).to_have_count(1)
    audit.reload()
    expect(audit.locator("tbody tr")).to_have_count(1)
    expect(audit.locator("#export-csv")).to_have_attribute(
        "href", "/api/v1/audit:export?kind=topic&without_broker=true&format=csv"
    )
    with audit.expect_download() as download:
        audit.locator("#export-csv").click()
    assert download.value.suggested_filename == "weir-audit.csv"
    audit.locator("#filter").fill("nobody")
    expect(audit.locator("#table")).to_contain_text("No match")


def test_older_changes_are_a_click_away(page: Watched, expect: Any, broker: FakeBroker) -> None:
    broker.trail = [change(seq, ANN) for seq in range(1, 61)]
    page.sign_in("viewer-token")
    opened = page.go("/audit")
    expect(opened.locator("tbody tr")).to_have_count(50)
    opened.get_by_role("button", name="Older changes").click()
    expect(opened.locator("tbody tr")).to_have_count(60)
    expect(opened.get_by_role("button", name="Older changes")).to_be_hidden()


def test_the_oldest_come_first_where_that_is_wanted(page: Watched, expect: Any, broker: FakeBroker) -> None:
    broker.trail = [change(seq, ANN) for seq in range(1, 61)]
    page.sign_in("viewer-token")
    opened = page.go("/audit")
    opened.get_by_role("button", name="When").click()
    times = opened.locator("tbody tr td:first-child .two")
    expect(times.first).to_have_attribute("title", re.compile("change 1$"))
    opened.reload()
    expect(times.first).to_have_attribute("title", re.compile("change 1$"))
    expect(opened.locator("th[aria-sort]")).to_have_attribute("aria-sort", "ascending")
    opened.get_by_role("button", name="Newer changes").click()
    expect(times).to_have_count(60)
    broker.trail.append(change(61, ANN))
    broker.version += 1
    expect(times.last).to_have_attribute("title", re.compile("change 61$"))


def test_an_undo_needs_what_the_change_needs(
    page: Watched, expect: Any, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "_final", lambda row: None)
    broker.trail = [change(1, ANN, kind="broker-config", entity="1", key="num.io.threads"), change(2, ANN)]
    for token, refused in (("viewer-token", {1, 2}), ("editor-token", {1}), ("admin-token", set())):
        page.sign_in(token)
        opened = page.go("/audit")
        expect(opened.get_by_label("Undo change")).to_have_count(2)
        for number in (1, 2):
            button = opened.get_by_label(f"Undo change {number}")
            assert (button.get_attribute("aria-disabled") == "true") == (number in refused)


def test_the_changes_of_one_action_say_once_who_made_them(
    audit: Any, expect: Any, broker: FakeBroker
) -> None:
    broker.trail += [change(4, ANN, batch=4), change(5, ANN, batch=4, key="consumer_byte_rate")]
    broker.version += 1
    rows = audit.locator("tbody tr")
    expect(rows).to_have_count(5)
    expect(rows.first.locator("time")).to_be_visible()
    expect(rows.nth(1).locator("time")).to_be_hidden()
    expect(rows.nth(2).locator("time")).to_be_visible()


def test_a_change_of_an_acl_says_who_may_what(page: Watched, broker: FakeBroker, expect: Any) -> None:
    entity = '["TOPIC","PREFIXED","pay<b>","User:alice","*","WRITE"]'
    broker.trail = [
        change(1, ANN, kind="acl", entity=entity, key="ALLOW", new="true"),
        change(2, ANN, kind="acl", entity=entity, key="ALLOW", old="true", new=None),
    ]
    page.sign_in()
    rows = page.go("/audit").locator("tbody tr")
    expect(rows).to_have_count(2)
    for words in ("User:alice WRITE on TOPIC PREFIXED pay<b> from *", "ALLOW", "removed"):
        expect(rows.first).to_contain_text(words)


def test_what_was_read_is_a_log_of_its_own(audit: Any, expect: Any, broker: FakeBroker) -> None:
    broker.trail.append(change(4, ANN, kind="records", entity="orders", key="read", new="12 records"))
    broker.version += 1
    rows = audit.locator("tbody tr")
    expect(rows).to_have_count(3)
    audit.locator("#log").select_option("reads")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("12 records")
    expect(audit).to_have_url(re.compile(r"log=reads"))
    audit.locator("#log").select_option("")
    expect(rows).to_have_count(3)

"""The page of broker settings: found, read, changed with a preview, undone; secrets stay secret."""

from sys import float_info
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

THREADS = "num.io.threads"
SECRET = "ssl.key.password"


@pytest.fixture
def stocked(broker: FakeBroker) -> FakeBroker:
    broker.configs |= {
        THREADS: "8",
        "log.retention.ms": "604800000",
        "auto.create.topics.enable": "true",
        "num.partitions": "1",
        SECRET: "hush",
    }
    return broker


@pytest.fixture
def settings(page: Watched, stocked: FakeBroker) -> Any:
    page.sign_in()
    return page.go("/settings")


def alter(broker: FakeBroker, key: str, value: str) -> None:
    """Another administrator does."""
    resource = ConfigResource(ResourceType.BROKER, "1")
    alteration = ConfigAlteration(resource, (ConfigOp(key, OpType.SET, value),))
    actor = Actor("somebody", Role.ADMIN, "10.0.0.9", ChangeOrigin.REST)
    assert broker._configure(alteration, actor, False).ok


def row(page: Any, name: str) -> Any:
    return page.locator("#table tbody tr:not(.panel)", has_text=name)


def test_settings_are_searched_and_read(settings: Any, expect: Any, stocked: FakeBroker) -> None:
    every = len(stocked.configs)
    expect(settings.locator("#count")).to_have_text(f"{every} settings")
    settings.keyboard.press("/")
    settings.keyboard.type("retention log")
    expect(settings.locator("#count")).to_have_text(f"1 of {every} settings")
    expect(row(settings, "log.retention.ms").locator(".setting-value")).to_have_text("7 d")
    expect(row(settings, "log.retention.ms").get_by_title("log.retention.ms=604800000")).to_be_visible()
    settings.locator("#filter").fill("")
    settings.locator("#shape").select_option("restart")
    expect(row(settings, "num.partitions")).to_contain_text("needs a restart")
    expect(row(settings, THREADS)).to_have_count(0)
    settings.get_by_role("button", name="num.partitions").click()
    panel = settings.locator("tr.panel")
    expect(panel).to_contain_text("a whole number from 1 to")
    expect(panel.get_by_role("button", name="Save")).to_have_count(0)
    settings.locator("#filter").fill("no such setting")
    settings.locator("#shape").select_option("")
    settings.get_by_role("button", name="num.partitions").click()
    settings.get_by_role("button", name="Show all settings").click()
    expect(settings.locator("#count")).to_have_text(f"{every} settings")


def test_the_largest_number_is_shown_as_no_limit(page: Watched, expect: Any, stocked: FakeBroker) -> None:
    bytes_key, count_key, small = (
        "broker.quota.produce.bytes",
        "cluster.quota.topic.count",
        "message.max.bytes",
    )
    stocked.configs |= {bytes_key: repr(float_info.max), count_key: str(2**63 - 1), small: str(2**31 - 1)}
    page.sign_in()
    settings = page.go("/settings")
    for key, text in ((bytes_key, "no limit"), (count_key, "no limit"), (small, "2.15 GB")):
        expect(row(settings, key).locator(".setting-value")).to_have_text(text)
    settings.get_by_role("button", name=bytes_key).click()
    expect(settings.locator("tr.panel")).to_contain_text("a number from 1 on")
    expect(settings.locator("tr.panel .note").first).to_contain_text("is no limit")


def test_a_setting_is_changed_after_a_preview_and_restored(
    settings: Any, expect: Any, stocked: FakeBroker
) -> None:
    settings.get_by_role("button", name=THREADS).click()
    field = settings.get_by_label("New value")
    expect(field).to_have_value("8")
    expect(settings.get_by_role("button", name="Save")).to_be_disabled()
    field.fill("12")
    expect(settings.locator(".reach")).to_contain_text("8 becomes 12, at once")
    expect(settings.locator(".copyable pre")).to_contain_text(f"--add-config '{THREADS}=12'")
    assert stocked.configs[THREADS] == "8"
    settings.get_by_role("button", name="Save").click()
    expect(row(settings, THREADS)).to_contain_text("12")
    expect(row(settings, THREADS)).to_contain_text("this broker, while it ran")
    settings.get_by_role("button", name="Undo").click()
    expect(settings.locator(".toast")).to_contain_text(f"Restored {THREADS}.")
    expect(row(settings, THREADS)).to_contain_text("default")
    assert THREADS not in stocked.configs


def test_a_duration_is_typed_with_its_unit(settings: Any, expect: Any, stocked: FakeBroker) -> None:
    settings.get_by_role("button", name="log.retention.ms").click()
    field = settings.get_by_label("New value")
    note = settings.locator("tr.panel .note").first
    field.fill("10,000")
    expect(note).to_have_text("10,000 may mean 10000 or 10; write 10000 or 10.")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(settings.get_by_role("button", name="Save", exact=True)).to_be_disabled()
    field.fill("1.5 h")
    expect(note).to_have_text("5\u202f400\u202f000 ms; 1.5 h")
    expect(settings.locator(".copyable pre")).to_contain_text("--add-config 'log.retention.ms=5400000'")
    settings.get_by_role("button", name="Save", exact=True).click()
    expect(row(settings, "log.retention.ms").locator(".setting-value")).to_have_text("1.5 h")
    assert stocked.configs["log.retention.ms"] == "5400000"


def test_a_value_that_is_not_allowed_is_reported_and_kept(
    settings: Any, expect: Any, stocked: FakeBroker
) -> None:
    settings.get_by_role("button", name=THREADS).click()
    field = settings.get_by_label("New value")
    field.fill("Konsume")
    expect(settings.get_by_role("alert")).to_contain_text("There is no Konsume")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(settings.locator(".copyable")).to_have_count(0)
    settings.get_by_role("button", name="Save").click()
    expect(field).to_have_value("Konsume")
    assert stocked.configs[THREADS] == "8"
    field.press("Escape")
    settings.get_by_role("button", name="Discard").click()
    expect(settings.get_by_role("button", name=THREADS)).to_be_focused()


def test_a_concurrent_change_is_shown_and_the_input_stays(
    settings: Any, expect: Any, stocked: FakeBroker
) -> None:
    settings.get_by_role("button", name=THREADS).click()
    settings.get_by_label("New value").fill("12")
    alter(stocked, THREADS, "10")
    expect(settings.get_by_role("alert")).to_contain_text("changed in the meantime, to 10")
    expect(settings.get_by_label("New value")).to_have_value("12")
    settings.get_by_role("button", name="Save").click()
    expect(row(settings, THREADS)).to_contain_text("12")


def test_a_switch_is_chosen_and_its_value_removed(settings: Any, expect: Any, stocked: FakeBroker) -> None:
    alter(stocked, THREADS, "10")
    settings.get_by_role("button", name=THREADS).click()
    settings.get_by_role("button", name="Remove this value").click()
    expect(settings.locator(".toast")).to_contain_text(f"Saved {THREADS}.")
    settings.get_by_role("button", name="Undo").click()
    expect(row(settings, THREADS)).to_contain_text("10")


def test_secrets_are_never_shown(settings: Any, expect: Any, stocked: FakeBroker) -> None:
    expect(row(settings, SECRET)).to_contain_text("not set")
    settings.get_by_role("button", name=SECRET).click()
    expect(settings.locator("tr.panel")).to_be_visible()
    assert "hush" not in settings.content()


def test_others_read_settings_and_change_none(page: Watched, expect: Any, stocked: FakeBroker) -> None:
    page.sign_in("viewer-token")
    opened = page.go("/settings")
    opened.get_by_role("button", name=THREADS).click()
    expect(opened.get_by_role("button", name="Save")).to_have_attribute("aria-disabled", "true")
    opened.get_by_label("New value").fill("12")
    opened.get_by_label("New value").press("Enter")
    expect(opened.get_by_role("alert")).to_contain_text("requires the role admin")
    assert stocked.configs[THREADS] == "8"

"""The page of SCRAM users: created with a password that is shown to nobody later, replaced, deleted."""

from typing import Any

import pytest

from broker.controller.rows.client_endpoint import ClientEndpoint
from tests.webui.browser.conftest import Watched, refused_buttons
from tests.webui.fakes import FakeBroker

PROOF = "Your token or password"


@pytest.fixture
def scram(page: Watched) -> Any:
    page.sign_in()
    return page.go("/scram-users")


def row(page: Any, user: str) -> Any:
    return page.locator("#table tbody tr:not(.panel)", has_text=user)


def test_a_user_is_created_and_deleted(scram: Any, expect: Any, broker: FakeBroker) -> None:
    expect(scram.locator("#table")).to_contain_text("No SCRAM user yet")
    scram.keyboard.press("n")
    scram.get_by_label("User", exact=True).fill("orders")
    scram.get_by_label("Mechanism", exact=True).last.select_option("SCRAM-SHA-512")
    scram.get_by_role("button", name="Generate").click()
    generated = scram.locator(".copyable pre").inner_text()
    expect(scram.get_by_label("Password", exact=True)).to_have_value(generated)
    scram.get_by_label(PROOF).fill("admin-token")
    scram.get_by_role("button", name="Create user").click()
    expect(row(scram, "orders")).to_contain_text("SCRAM-SHA-512")
    expect(row(scram, "orders")).to_contain_text("8\u202f192")
    assert generated not in scram.content()
    scram.get_by_label("Delete orders for SCRAM-SHA-512").click()
    scram.get_by_label(PROOF).fill("admin-token")
    scram.get_by_role("button", name="Delete credential").click()
    expect(scram.locator("#table")).to_contain_text("No SCRAM user yet")
    assert broker.metadata.image.scram == {}


def test_bad_input_is_named_and_nothing_typed_is_lost(scram: Any, expect: Any, broker: FakeBroker) -> None:
    scram.keyboard.press("n")
    create = scram.get_by_role("button", name="Create user")
    for label, typed, words in (
        ("User", "", "Enter a user."),
        ("Password", "", "Enter a password."),
        ("Iterations", "4095", "from 4\u202f096 to 16\u202f384"),
        ("Iterations", "16385", "from 4\u202f096 to 16\u202f384"),
        ("Iterations", "many", "from 4\u202f096 to 16\u202f384"),
        ("Iterations", "-1", "from 4\u202f096 to 16\u202f384"),
    ):
        scram.get_by_label(label, exact=True).fill(typed)
        create.click()
        expect(scram.get_by_role("alert")).to_contain_text(words)
        expect(scram.get_by_label(label, exact=True)).to_be_focused()
        if label != "Iterations":
            scram.get_by_label(label, exact=True).fill("\u202eorders <b>")
    scram.get_by_label("Iterations", exact=True).fill("4096")
    create.click()
    expect(scram.get_by_role("alert")).to_contain_text("Enter your token or password.")
    scram.get_by_label(PROOF).fill("wrong")
    create.click()
    expect(scram.get_by_role("alert")).to_contain_text("Wrong secret")
    scram.get_by_label(PROOF).press("Escape")
    scram.get_by_role("button", name="Keep editing").click()
    scram.get_by_label(PROOF).fill("admin-token")
    create.click()
    expect(row(scram, "orders <b>")).to_be_visible()


PLAIN, ENCRYPTED = "SASL_PLAINTEXT", "SASL_SSL"


@pytest.mark.parametrize(
    ("endpoints", "first", "hints"),
    [
        ([("PLAINTEXT", ())], "256", ("No listener takes SASL now", "No listener takes SASL now")),
        ([("PLAINTEXT", ()), (PLAIN, ("PLAIN",))], "256", ("takes SCRAM-SHA-256 now", "takes SCRAM-SHA-512")),
        ([(ENCRYPTED, ("PLAIN", "SCRAM-SHA-512"))], "512", ("takes SCRAM-SHA-256 now", "")),
        ([(PLAIN, ("SCRAM-SHA-256",)), (ENCRYPTED, ("SCRAM-SHA-512",))], "256", ("", "")),
    ],
)
def test_a_user_whom_no_listener_takes_is_hinted_at(
    page: Watched,
    expect: Any,
    broker: FakeBroker,
    endpoints: list[tuple[str, tuple[str, ...]]],
    first: str,
    hints: tuple[str, str],
) -> None:
    broker.endpoints = tuple(ClientEndpoint("b:1", *each) for each in endpoints)
    page.sign_in()
    opened = page.go("/scram-users")
    opened.keyboard.press("n")
    choice = opened.locator("form.editor").get_by_label("Mechanism", exact=True)
    expect(choice).to_have_value(f"SCRAM-SHA-{first}")
    for size, words in zip(("256", "512"), hints, strict=True):
        choice.select_option(f"SCRAM-SHA-{size}")
        hint = opened.locator("form.editor p.warn")
        if words:
            expect(hint).to_contain_text(words)
        else:
            expect(hint).to_be_hidden()


def test_both_sides_of_a_concurrent_change_are_reported(scram: Any, expect: Any, broker: FakeBroker) -> None:
    broker.add_scram("orders")
    scram.get_by_label("Replace the password of orders for SCRAM-SHA-256").click()
    broker.add_scram("orders")
    scram.get_by_label("Password", exact=True).fill("mine")
    scram.get_by_label(PROOF).fill("admin-token")
    before = broker.metadata.image.version
    scram.get_by_role("button", name="Replace password").click()
    expect(scram.locator(".conflict")).to_contain_text("ann set this password")
    assert broker.metadata.image.version == before
    scram.get_by_role("button", name="Replace it anyway").click()
    expect(scram.locator("#toasts")).to_contain_text("Set the password of orders")
    assert broker.metadata.image.version > before


def test_others_see_users_and_change_none(page: Watched, broker: FakeBroker) -> None:
    broker.add_scram("orders")
    page.sign_in("editor-token")
    opened = page.go("/scram-users")
    row(opened, "orders").wait_for()
    refused_buttons(opened, "#add, .actions button", "admin", 3)

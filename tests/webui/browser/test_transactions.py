"""The page of transactions: who has one open, what it holds back, and an abort after a preview."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.coordinator.transaction.state import TransactionClient, TransactionState
from tests.webui.browser.conftest import Watched, refused_buttons
from tests.webui.log_world import LoggedBroker, LogWorld

STRANGE = "<b>a/b</b>"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LogWorld]:
    world = LogWorld(tmp_path)
    world.topic("orders", 2)
    world.transact("idle")
    for name in ("payments", STRANGE):
        client = TransactionClient("User:ann", "app-1", "10.0.0.7")
        world.transact(name, ("orders", 0), ("orders", 1), client=client)
    yield world
    world.close()


@pytest.fixture
def broker(world: LogWorld) -> LoggedBroker:
    return LoggedBroker(world)


def row(page: Any, name: str) -> Any:
    return page.locator("#table tbody tr:not(.panel)", has_text=name)


def test_an_open_transaction_is_shown_and_aborted(page: Watched, expect: Any, world: LogWorld) -> None:
    page.sign_in()
    opened = page.go("/transactions")
    expect(row(opened, "payments")).to_contain_text("Ongoing")
    expect(row(opened, "payments")).to_contain_text("User:ann")
    expect(row(opened, "payments")).to_contain_text("2 held back")
    expect(row(opened, "idle")).to_contain_text("not known")
    expect(row(opened, "idle")).to_contain_text("none yet")
    opened.get_by_role("button", name="payments", exact=True).click()
    partitions = opened.get_by_role("region", name="Partitions of the transaction")
    expect(partitions.locator("tbody tr")).to_have_count(2)
    expect(partitions).to_contain_text("2 records held back")
    opened.get_by_label("Abort the transaction of payments").click()
    expect(opened.get_by_role("button", name="Cancel")).to_be_focused()
    expect(opened.locator(".reach")).to_contain_text("Aborts in 2 partitions")
    expect(opened.locator(".copyable pre")).to_contain_text("forceTerminateTransaction")
    opened.get_by_role("button", name="Abort transaction", exact=True).click()
    expect(opened.locator(".toast")).to_contain_text("Aborted the transaction of payments.")
    transaction = world.transactions.coordinator.get("payments")
    assert transaction is not None and transaction.data.state is TransactionState.PREPARE_ABORT
    expect(row(opened, "payments")).to_contain_text("PrepareAbort")


def test_a_filter_and_the_keyboard_lead_to_an_abort_that_is_cancelled(
    page: Watched, expect: Any, world: LogWorld
) -> None:
    page.sign_in()
    opened = page.go("/transactions")
    opened.get_by_label("Filter transactions").select_option("open")
    expect(opened.locator("#table tbody tr")).to_have_count(2)
    opened.get_by_label(f"Abort the transaction of {STRANGE}").focus()
    opened.keyboard.press("Enter")
    expect(opened.locator(".reach")).to_contain_text("Aborts in 2 partitions")
    opened.keyboard.press("Escape")
    expect(opened.locator(".editor")).to_have_count(0)
    transaction = world.transactions.coordinator.get(STRANGE)
    assert transaction is not None and transaction.data.state is TransactionState.ONGOING


def test_a_producer_that_began_anew_is_not_fenced(page: Watched, expect: Any, world: LogWorld) -> None:
    page.sign_in()
    opened = page.go("/transactions")
    opened.get_by_label("Abort the transaction of payments").click()
    expect(opened.locator(".reach")).to_contain_text("Aborts in 2 partitions")
    transaction = world.transactions.coordinator.get("payments")
    assert transaction is not None
    world.transactions.abort(transaction, world.now())
    for _ in range(2):
        world.transactions.run(world.now())
    world.transact("payments", ("orders", 0))
    opened.get_by_role("button", name="Abort transaction", exact=True).click()
    expect(opened.locator(".editor").get_by_role("alert")).to_contain_text("The producer is now")
    assert transaction.data.state is TransactionState.ONGOING


def test_others_see_transactions_and_abort_none(page: Watched) -> None:
    page.sign_in("editor-token")
    opened = page.go("/transactions")
    row(opened, "payments").wait_for()
    refused_buttons(opened, ".actions button", "admin", 2)

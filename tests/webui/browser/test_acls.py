"""The page of ACLs: created, found, asked about and deleted; and what it says without an authorizer."""

import re
from typing import Any

import pytest
from msgspec.structs import replace

from broker.common.slices import Steps
from broker.security.acl.acl import Operation, PatternType
from broker.views.acls import AclDecision, AclViews
from tests.controller.world import World
from tests.security.acl.acls import allow, deny
from tests.webui.browser.conftest import ServedConsole, Watched, refused_buttons, watched
from tests.webui.fakes import FakeBroker

PROOF = "Your token or password"


@pytest.fixture
def acls(page: Watched) -> Any:
    page.sign_in()
    return page.go("/acls")


def test_an_acl_is_created_asked_about_and_deleted(acls: Any, expect: Any, broker: FakeBroker) -> None:
    expect(acls.locator("#table")).to_contain_text("No ACL yet")
    ask = acls.get_by_role("button", name="Check")
    acls.locator("#asked-principal").fill("alice")
    acls.locator("#asked-name").fill("orders.eu")
    ask.click()
    expect(acls.locator("#verdict")).to_have_text("DeniedNo ACL allows it.")

    acls.locator("#add").click()
    editor = acls.locator(".editor")
    create = editor.get_by_role("button", name="Create ACL")
    create.click()
    expect(editor.get_by_role("alert")).to_contain_text("Enter a principal")
    expect(editor.get_by_label("Principal")).to_be_focused()
    editor.get_by_label("Principal").fill("User:")
    create.click()
    expect(editor.get_by_role("alert")).to_contain_text("Enter a principal")
    editor.get_by_label("Principal").fill("alice")
    create.click()
    expect(editor.get_by_role("alert")).to_contain_text("Enter a name")
    editor.get_by_label("Name", exact=True).fill("orders.")
    editor.get_by_label("Pattern").select_option("PREFIXED")
    create.click()
    expect(editor.get_by_role("alert")).to_contain_text(PROOF.lower())
    editor.get_by_label(PROOF).fill("wrong")
    create.click()
    expect(editor.get_by_role("alert")).to_contain_text("Wrong secret")
    assert broker.metadata.image.acls == {}
    editor.get_by_label(PROOF).fill("admin-token")
    create.click()
    row = acls.locator("#table tbody tr:not(.panel)")
    expect(row).to_contain_text("TOPIC names that begin with orders.")
    assert set(broker.metadata.image.acls) == {allow(Operation.READ, "orders.", pattern=PatternType.PREFIXED)}

    ask.click()
    expect(acls.locator("#verdict")).to_contain_text("Allowedby ALLOW User:alice READ on TOPIC names")
    acls.locator("#asked-type").select_option("CLUSTER")
    expect(acls.locator("#verdict")).to_be_empty()
    expect(acls.locator("#asked-name")).to_have_value("kafka-cluster")

    row.get_by_label(re.compile("Delete ALLOW User:alice")).click()
    acls.get_by_label(PROOF).fill("admin-token")
    acls.get_by_role("button", name="Delete ACL").click()
    expect(acls.locator("#table")).to_contain_text("No ACL yet")
    assert broker.metadata.image.acls == {}


def test_what_a_gateway_cannot_know_stands_beside_the_answer(
    acls: Any, expect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = AclViews.decide

    def unsure(self: AclViews, *question: Any) -> Steps[AclDecision | None]:
        found = yield from known(self, *question)
        assert found is not None
        return replace(found, unknown=("super.users", "allow.everyone.if.no.acl.found"))

    monkeypatch.setattr(AclViews, "decide", unsure)
    acls.locator("#asked-principal").fill("User:alice")
    acls.locator("#asked-name").fill("orders")
    acls.get_by_role("button", name="Check").click()
    expect(acls.locator("#verdict")).to_contain_text(
        "Unless the principal is one of super.users, or allow.everyone.if.no.acl.found is true: "
        "the cluster does not tell."
    )


def test_acls_are_filtered(acls: Any, expect: Any, broker: FakeBroker) -> None:
    broker.add_acl(allow(Operation.READ), deny(Operation.ALL, "<b>\u202ex", principal="User:bob"))
    rows = acls.locator("#table tbody tr")
    expect(rows).to_have_count(2)
    acls.locator("#shape").select_option("deny")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("User:bob")
    acls.locator("#shape").select_option("")
    expect(rows).to_have_count(2)
    acls.locator("#filter").fill("alice")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("User:alice")


def test_others_see_acls_and_change_none(page: Watched, broker: FakeBroker) -> None:
    broker.add_acl(allow(Operation.READ))
    page.sign_in("editor-token")
    opened = page.go("/acls")
    opened.locator("#table tbody tr").wait_for()
    refused_buttons(opened, "#add, .actions button", "admin", 2)


def test_without_an_authorizer_the_page_says_so(browser: Any, expect: Any) -> None:
    with ServedConsole(FakeBroker(metadata=World())) as served, watched(browser, served) as opened:
        opened.sign_in()
        page = opened.go("/acls")
        expect(page.locator("#off")).to_contain_text("super.users=User:admin")
        expect(page.locator("#on")).to_be_hidden()

"""No page breaks a rule of accessibility that a machine can check: axe finds nothing, dark or light, wide or
narrow, whether there is nothing to show, much, something being edited wrongly, or an error.

A page is loaded once for each state.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from broker.controller.alerts import AlertCondition, AlertRule
from broker.controller.rows.streams_groups import StatusRow
from broker.security.acl.acl import Operation
from tests.security.acl.acls import allow, deny
from tests.webui.browser.conftest import DESK, PHONE, ServedConsole, Watched, watched
from tests.webui.browser.test_pages import PATHS
from tests.webui.fakes import FakeBroker
from tests.webui.rows import NOW_MS, streams_group, transaction, word_count
from tests.webui.simulation import Simulation
from webui.pages import KINDS

axe_base: Any = pytest.importorskip("axe_playwright_python.base", reason="no axe")
Look = tuple[Any, str, Any]
EVERYTHING = {"resultTypes": ["violations"]}
COLOURS = EVERYTHING | {"runOnly": {"type": "rule", "values": ["color-contrast"]}}
LOOKS = [
    (DESK, "light", EVERYTHING),
    (DESK, "dark", COLOURS),
    (PHONE, "dark", EVERYTHING),
    (PHONE, "light", COLOURS),
]
"""What does not depend on colours is the same in both of them."""

each_look = pytest.mark.parametrize(
    "looks",
    [
        pytest.param(LOOKS[::2], id="light-desk-dark-phone"),
        pytest.param(LOOKS[1::2], id="dark-desk-light-phone", marks=pytest.mark.slow),
    ],
)

EDITED = "Edit Produce"

OPENED = {
    "/quotas": ["Select user analytics", "Remove limits…"],
    "/broker-quotas": [EDITED],
    "/ip-quotas": ["Limit an address"],
    "/client-metrics": ["orders-1"],
    "/audit": ["Undo"],
    "/topics": ["Select orders", "Delete…"],
    "/topics/orders": ["Produce a record"],
    "/topics/orders?tab=partitions": ["Add partitions"],
    "/topics/orders?tab=config": ["Delete topic"],
    "/groups/reporting": ["Delete group"],
    "/groups/reporting?tab=offsets": ["Delete the offsets of"],
    "/transactions": ["Abort the transaction of payments"],
    "/access": ["New token", "Password of"],
    "/scram-users": ["Replace the password of orders"],
    "/delegation-tokens": ["of User:orders now", "Expire token"],
    "/acls": ["Delete ALLOW User:alice READ on TOPIC orders"],
    "/settings": ["num.io.threads"],
    "/alerts": ["Edit reports fall behind", "Edit on-call"],
    "/connections": ["Close the connection of billing"],
    "/explain": ["billing"],
}
"""What is clicked open before a full page is looked at, one after the other."""

MISTAKES: dict[str, Callable[[Any], None]] = {
    "/topics": lambda page: page.get_by_label("Partitions", exact=True).fill("ten"),
    "/quotas": lambda page: page.locator(".limits input").first.fill("ten"),
    "/broker-quotas": lambda page: page.locator(".editor input").fill("ten"),
    "/ip-quotas": lambda page: page.locator(".editor input").last.fill("ten"),
    "/client-metrics": lambda page: page.get_by_label("Interval", exact=True).fill("ten"),
    "/access": lambda page: page.locator(".editor button.primary").click(),
    "/scram-users": lambda page: page.locator(".editor button.primary").click(),
    "/acls": lambda page: page.locator(".editor button.primary").click(),
    "/alerts": lambda page: page.locator(".editor button.primary").click(),
}
"""What is typed wrongly into a new rule, subscription or token."""


THINGS = tuple(
    f"{kind.listed}/{name}{'' if tab.path == '?' else tab.path}"
    for kind, name in zip(KINDS, ("orders", "reporting", "user=analytics"), strict=True)
    for tab in kind.tabs
)
"""The pages of a topic, a group and a quota."""


def fill(broker: FakeBroker) -> None:
    simulation = Simulation(broker)
    for _ in range(40):
        simulation.step(250)
    broker.configs |= {"num.io.threads": "8", "log.retention.ms": "604800000"}
    broker.add_scram("orders")
    broker.add_delegation_token("User:orders", "User:scheduler", requester="User:ops")
    broker.transaction_rows += [transaction("payments"), transaction("refunds", "CompleteAbort")]
    broker.add_acl(allow(Operation.READ), deny(Operation.ALL, "*", host="10.0.0.7"))
    broker.add_destination("on-call", Authorization="Bearer s3cret")
    broker.add_rule("reports fall behind", AlertRule(AlertCondition.LAG, 1e5, destinations=("on-call",)))
    client = broker.telemetry.join("orders-1")
    for number in range(3):
        broker.telemetry.say(client, NOW_MS + 1_000 * number, queue=float(number))


def violations(page: Any, path: str, looks: Sequence[Look]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    page.evaluate(axe_base.AXE_SCRIPT)
    for size, scheme, options in looks:
        page.set_viewport_size(size)
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        answer = page.evaluate("options => axe.run(options)", options)
        assert answer["passes"], path
        for each in answer["violations"]:
            nodes = [node["html"][:160] for node in each["nodes"][:3]]
            found[f"{path} {scheme} {size['width']} {each['id']}"] = nodes
    return found


def looked_at(
    browser: Any,
    served: ServedConsole,
    paths: Iterable[str],
    open_it: Callable[[Watched, str], object],
    looks: Sequence[Look],
) -> None:
    found: dict[str, list[str]] = {}
    with watched(browser, served) as opened:
        opened.sign_in()
        for path in paths:
            opened.page.set_viewport_size(DESK)
            open_it(opened, path)
            opened.page.wait_for_timeout(200)
            found |= violations(opened.page, path, looks)
        opened.troubles.clear()
    assert found == {}


def test_axe_finds_nothing_on_empty_pages(browser: Any, served: ServedConsole) -> None:
    missing = ("/topics/nothing", "/groups/nothing")
    looked_at(browser, served, (*PATHS, *missing), lambda opened, path: opened.go(path), LOOKS[::2])


@each_look
def test_axe_finds_nothing_on_full_pages_with_something_open(
    browser: Any, served: ServedConsole, broker: FakeBroker, looks: Sequence[Look]
) -> None:
    fill(broker)

    def opening(opened: Watched, path: str) -> None:
        page = opened.go(path)
        for name in OPENED.get(path, ()):
            page.get_by_label(name).or_(page.get_by_role("button", name=name)).first.click()

    looked_at(browser, served, (*PATHS, *THINGS), opening, looks)


@each_look
def test_axe_finds_nothing_on_streams_groups(
    browser: Any, served: ServedConsole, broker: FakeBroker, looks: Sequence[Look]
) -> None:
    missing = StatusRow("MISSING_SOURCE_TOPICS", "Source topics orders are missing.")
    broker.group_rows = [
        streams_group("full", "east", "west", topology=word_count()),
        streams_group("not-ready", topology=word_count(), status=missing),
        streams_group("empty"),
    ]

    def opening(opened: Watched, path: str) -> None:
        opened.go(path).locator("#body").get_by_text("Streams group, protocol streams").wait_for()

    paths = [f"/groups/{each.group.group_id}" for each in broker.group_rows]
    looked_at(browser, served, paths, opening, looks)


@each_look
def test_axe_finds_nothing_beside_a_mistake(
    browser: Any, served: ServedConsole, broker: FakeBroker, looks: Sequence[Look]
) -> None:
    fill(broker)

    def mistaken(opened: Watched, path: str) -> None:
        page = opened.go(path)
        page.locator(f"#add, button[aria-label='{EDITED}']").first.click()
        MISTAKES[path](page)
        page.locator(".note[data-kind=bad], .field-error:not(:empty)").first.wait_for()

    looked_at(browser, served, MISTAKES, mistaken, looks)


@each_look
def test_axe_finds_nothing_where_the_broker_does_not_answer(
    browser: Any, served: ServedConsole, looks: Sequence[Look]
) -> None:
    def unanswered(opened: Watched, path: str) -> None:
        opened.page.route("**/api/v1/**", lambda route: route.abort())
        opened.page.goto(opened.console.pages + path)
        opened.page.get_by_text("Loading failed").wait_for()

    looked_at(browser, served, ("/", "/audit", "/access", "/explain?user=alice"), unanswered, looks)


def test_axe_finds_nothing_where_one_signs_in(browser: Any, served: ServedConsole) -> None:
    with watched(browser, served) as opened:
        opened.page.goto(served.pages + "/")
        opened.page.get_by_role("button", name="Log in").wait_for()
        assert violations(opened.page, "sign-in", LOOKS) == {}

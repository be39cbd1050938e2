"""No page breaks a rule of accessibility that a machine can check: axe finds nothing, dark or light, empty or
full, wide or narrow.
"""

from typing import Any

import pytest

from tests.webui.browser.conftest import DESK, PHONE, ServedConsole, watched
from tests.webui.browser.test_pages import PATHS
from tests.webui.fakes import FakeBroker
from tests.webui.simulation import Simulation

axe_module: Any = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe")

OPENED = {
    "/quotas": "Add quota",
    "/ip-quotas": "Limit an address",
    "/audit": "Undo",
    "/topics": "orders",
    "/groups": "reporting",
    "/access": "New token",
    "/connections": "Close the connection of billing",
}
"""What is clicked open before a full page is looked at."""


@pytest.mark.parametrize("full", [False, True], ids=["empty", "full"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(
    browser: Any, served: ServedConsole, broker: FakeBroker, scheme: str, full: bool
) -> None:
    if full:
        simulation = Simulation(broker)
        for _ in range(40):
            simulation.step(250)
    found = {}
    size = DESK if scheme == "light" else PHONE
    with watched(browser, served, color_scheme=scheme, viewport=size, reduced_motion="reduce") as opened:
        opened.sign_in()
        for path in PATHS:
            page = opened.go(path)
            if full and path in OPENED:
                page.get_by_role("button", name=OPENED[path]).first.click()
            page.wait_for_timeout(300)
            answer = axe_module.Axe().run(page).response
            assert answer["passes"], path
            violations = answer["violations"]
            for each in violations:
                nodes = [node["html"][:160] for node in each["nodes"][:3]]
                found[f"{path} {each['id']}"] = nodes
    assert found == {}

"""Nothing moves on a live page while the demo runs: the browser's own measure of layout shifts stays at 0 for
a minute. tests/webui/browser/test_steady.py has the shorter one, with invented values.

Not among the pages is Throttled now, where figures still move by some pixels within their cells.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.broker_process import TOKEN, BrokerProcess, within
from tests.support.chromium import find_chromium

sync_api = pytest.importorskip("playwright.sync_api", reason="no driver: pip install playwright")

CHROMIUM: Final = find_chromium()

pytestmark = [
    pytest.mark.endtoend,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing: apt-get install chromium"),
]

WATCHED_MS: Final = 60_000
SETTLED_MS: Final = 8_000
PATHS: Final = (
    "/",
    "/quotas",
    "/broker-quotas",
    "/ip-quotas",
    "/connections",
    "/client-metrics",
    "/topics",
    "/groups",
    "/alerts",
    "/doctor",
    "/requests",
    "/tasks",
)
SHIFTS: Final = """() => {
    window.shifts = [];
    new PerformanceObserver((list) => {
        for (const { sources } of list.getEntries())
            window.shifts.push(sources.map(({ node }) => (node?.outerHTML ?? node?.data ?? "").slice(0, 90)));
    }).observe({ type: "layout-shift" });
}"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Every page, open at the same time at the console of a broker with limited tenants."""
    directory: Path = tmp_path_factory.mktemp("steady")
    with BrokerProcess(directory) as broker:
        addresses = [f"--bootstrap={broker.plain}", f"--console={broker.console}"]
        with subprocess.Popen(
            [sys.executable, "-m", "demo", "--running", *addresses, "--free=4", "--seconds=600"],
            env=os.environ | {"WEIR_ADMIN_TOKEN": TOKEN},
            stdout=subprocess.DEVNULL,
        ) as demo:
            try:
                for client_id in ("greedy", "patient"):
                    within(60, partial(broker.throttled, client_id), f"{client_id} is throttled", every=0.1)
                with sync_api.sync_playwright() as playwright:
                    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
                    yield dict(_opened(browser, broker))
                    browser.close()
            finally:
                demo.terminate()
                demo.wait(60)


def _opened(browser: Any, broker: BrokerProcess) -> Iterator[tuple[str, Any]]:
    """Each page has a context of its own: a context opens six connections, and each page keeps one."""
    port = str(broker.console).rpartition(":")[2]
    own = f"http://weir-{port}.localhost:{port}"
    first = browser.new_context().new_page()
    first.goto(own)
    first.get_by_label("Token").fill(TOKEN)
    first.keyboard.press("Enter")
    first.locator("#live[data-state=live]").wait_for()
    session = first.context.storage_state()
    for path in PATHS:
        size = {"width": 1440, "height": 900}
        page = browser.new_context(viewport=size, storage_state=session).new_page()
        page.set_default_timeout(120_000)
        page.goto(own + path)
        page.locator("#live[data-state=live]").wait_for()
        yield path, page


def test_nothing_moves_for_a_minute(pages: dict[str, Any]) -> None:
    last = list(pages.values())[-1]
    last.wait_for_timeout(SETTLED_MS)
    for page in pages.values():
        page.evaluate(SHIFTS)
    last.wait_for_timeout(WATCHED_MS)
    found = {path: page.evaluate("() => window.shifts") for path, page in pages.items()}
    assert "\n".join(f"{path}: {shifts}" for path, shifts in found.items() if shifts) == ""

"""Nothing moves on a live page while the demo runs: the browser's own measure of layout shifts stays at 0 for
a minute. tests/webui/browser/test_steady.py has the shorter one, with invented values.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer

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
TOPIC: Final = "/topics/weir-demo-orders"
GROUP: Final = "/groups/reports"
RULE: Final = "/quotas/client-id=greedy"
PATHS: Final = {
    "load": (
        "/",
        "/throttled",
        "/explain?client_id=greedy",
        "/quotas",
        RULE,
        f"{RULE}?tab=clients",
        f"{RULE}?tab=throttles",
        f"{RULE}?tab=changes",
        "/broker-quotas",
        "/ip-quotas",
        "/connections",
        "/client-metrics",
        "/requests",
        "/doctor",
        "/alerts",
        "/tasks",
    ),
    "things": (
        "/topics",
        TOPIC,
        f"{TOPIC}?tab=partitions",
        f"{TOPIC}?tab=consumers",
        f"{TOPIC}?tab=config",
        "/groups",
        GROUP,
        f"{GROUP}?tab=offsets",
        f"{GROUP}?tab=reset",
        "/transactions",
        "/settings",
        "/audit",
        "/access",
        "/insights",
    ),
}
SHIFTS: Final = """() => {
    window.shifts = [];
    const place = ({ x, y, width, height }) => [x, y, width, height].map(Math.round);
    const moved = ({ node, previousRect, currentRect }) => {
        const element = (node?.outerHTML ?? node?.parentNode?.outerHTML ?? "gone").slice(0, 200);
        return `${element} ${place(previousRect)} to ${place(currentRect)}`;
    };
    new PerformanceObserver((list) => {
        for (const { sources } of list.getEntries()) window.shifts.push(sources.map(moved));
    }).observe({ type: "layout-shift" });
}"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with limited tenants, alerts, an open transaction, and a limit that ends in an hour."""
    directory: Path = tmp_path_factory.mktemp("steady")
    with BrokerProcess(directory) as broker:
        addresses = [f"--bootstrap={broker.plain}", f"--console={broker.console}"]
        with subprocess.Popen(
            [sys.executable, "-m", "demo", "--running", *addresses, "--free=4", "--seconds=900"],
            env=os.environ | {"WEIR_ADMIN_TOKEN": TOKEN},
            stdout=subprocess.DEVNULL,
        ) as demo:
            try:
                for client_id in ("greedy", "patient"):
                    within(60, partial(broker.throttled, client_id), f"{client_id} is throttled", every=0.1)
                alert = {"condition": "throttled", "threshold": 100, "for_ms": 0}
                broker.ask("PUT", "/api/v1/alert-rules/long-throttles", alert)
                limit = {"key": "consumer_byte_rate", "value": 900_000, "until": _in_an_hour()}
                entry = {"entity": {"client-id": "patient"}, "ops": [limit]}
                broker.ask("PATCH", "/api/v1/client-quotas", {"entries": [entry]})
                _begin_transaction(broker)
                yield broker
            finally:
                demo.terminate()
                demo.wait(60)


def _begin_transaction(broker: BrokerProcess) -> None:
    """It stays open: nobody ends it within its ten minutes."""
    settings = {"bootstrap.servers": broker.plain, "transactional.id": "bookings"}
    producer = Producer({**settings, "transaction.timeout.ms": 600_000})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("weir-demo-orders", b"a booking")
    producer.flush(60)


def _in_an_hour() -> str:
    return (datetime.now(UTC) + timedelta(hours=1)).isoformat().replace("+00:00", "Z")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def _opened(browser: Any, broker: BrokerProcess, paths: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Open every page at the same time. Each has a context of its own: a context opens six connections, and
    each page keeps one.
    """
    port = str(broker.console).rpartition(":")[2]
    own = f"http://weir-{port}.localhost:{port}"
    first = browser.new_context().new_page()
    first.goto(own)
    first.get_by_label("Token").fill(TOKEN)
    first.keyboard.press("Enter")
    first.locator("#live[data-state=live]").wait_for()
    session = first.context.storage_state()
    first.context.close()
    for path in paths:
        size = {"width": 1440, "height": 900}
        page = browser.new_context(viewport=size, storage_state=session).new_page()
        page.set_default_timeout(120_000)
        page.goto(own + path)
        page.locator("#live[data-state=live]").wait_for()
        yield path, page


@pytest.mark.parametrize("paths", PATHS.values(), ids=PATHS)
def test_nothing_moves_for_a_minute(browser: Any, broker: BrokerProcess, paths: Sequence[str]) -> None:
    pages = dict(_opened(browser, broker, paths))
    last = pages[paths[-1]]
    last.wait_for_timeout(SETTLED_MS)
    for page in pages.values():
        page.evaluate(SHIFTS)
    last.wait_for_timeout(WATCHED_MS)
    found = {path: page.evaluate("() => window.shifts") for path, page in pages.items()}
    for page in pages.values():
        page.context.close()
    moved = [f"{path}: {shift}" for path, shifts in found.items() for shift in shifts]
    assert not moved, "\n".join(moved)

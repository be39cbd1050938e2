"""A real Chromium in front of a console on a made-up broker.

Skips, saying why, where there is no Chromium or no driver for it.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from tests.support.chromium import find_chromium
from tests.webui.fakes import FakeBroker
from tests.webui.served import ServedConsole

sync_api = pytest.importorskip("playwright.sync_api", reason="no driver: pip install playwright")

CHROMIUM: Final = find_chromium()
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Fewer processes take less processor time, and pages that are shown one after the other need no more.
    "--renderer-process-limit=1",
    "--in-process-gpu",
]
PATIENCE_MS = 60_000
"""How long a page may take for what it shows at once on a machine that does nothing else."""

JSON: Final = {"Content-Type": "application/json"}
DESK = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/browser/" in item.path.as_posix():
            item.add_marker(pytest.mark.browser)
            if CHROMIUM is None:
                item.add_marker(pytest.mark.skip(reason="Chromium is missing: apt-get install chromium"))


@dataclass
class Watched:
    """A page, and everything in it that went wrong: failed scripts, refused content, dialogs."""

    page: Any
    console: ServedConsole
    troubles: list[str] = field(default_factory=list)

    def go(self, path: str) -> Any:
        """Returns when the page's scripts run: a key pressed before has no effect."""
        self.page.goto(self.console.pages + path)
        if self.page.locator("#live").count():
            self.page.locator("#live[data-state=live]").wait_for()
        return self.page

    def sign_in(self, token: str = "admin-token") -> None:
        """Logs in by the form's request, which is a page less to load."""
        request = Request(f"{self.console.address}/login", json.dumps({"token": token}).encode(), JSON)
        with urlopen(request, timeout=PATIENCE_MS / 1_000) as answer:
            name, _, value = answer.headers["Set-Cookie"].partition(";")[0].partition("=")
        cookie = {"name": name, "value": value, "domain": urlsplit(self.console.pages).hostname, "path": "/"}
        self.page.context.add_cookies([cookie | {"httpOnly": True, "sameSite": "Strict"}])


def account_menu(page: Any) -> Any:
    """Open the menu of account, theme and density, which a later page has closed again. Return the page."""
    page.locator("#account > summary").click()
    return page


def refused_buttons(page: Any, selector: str, role: str, count: int) -> None:
    """They stand there, say why they do nothing, and do nothing."""
    buttons = page.locator(selector)
    sync_api.expect(buttons).to_have_count(count)
    for button in buttons.all():
        sync_api.expect(button).to_have_attribute("aria-disabled", "true")
        sync_api.expect(button).to_have_attribute("title", re.compile(f"needs the role {role}; you are"))
        button.click(force=True)
    sync_api.expect(page.locator(".editor")).to_have_count(0)


Opened = Callable[..., Watched]


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """One for all files of this folder, and no longer: meanwhile asyncio.run refuses to run."""
    sync_api.expect.set_options(timeout=PATIENCE_MS)
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def served(broker: FakeBroker) -> Iterator[ServedConsole]:
    with ServedConsole(broker) as served:
        yield served


@contextmanager
def watched(browser: Any, served: ServedConsole, **options: Any) -> Iterator[Watched]:
    """Fails at the end where anything went wrong on the page."""
    context = browser.new_context(**{"viewport": DESK} | options)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    watched = Watched(page, served)

    def hear(message: Any) -> None:
        # A refused request is the test's own doing; everything else that is written in red is not.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            watched.troubles.append(message.text)

    page.on("console", hear)
    page.on("pageerror", lambda error: watched.troubles.append(str(error)))

    def answer(dialog: Any) -> None:
        # A test that goes to another page leaves what it typed.
        if dialog.type == "beforeunload":
            dialog.accept()
            return
        watched.troubles.append(f"dialog {dialog.message}")
        dialog.dismiss()

    page.on("dialog", answer)
    try:
        yield watched
        assert watched.troubles == []
    finally:
        context.close()


@pytest.fixture
def page(browser: Any, served: ServedConsole) -> Iterator[Watched]:
    with watched(browser, served) as opened:
        yield opened


@pytest.fixture
def expect() -> Any:
    return sync_api.expect

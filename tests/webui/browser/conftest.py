"""A real Chromium in front of a console on a made-up broker.

Skips, saying why, where there is no Chromium or no driver for it.
"""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import trio

from tests.webui.fakes import FakeBroker, FakeSettings
from webui.serving import serve_console

sync_api = pytest.importorskip("playwright.sync_api", reason="no driver: pip install playwright")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DESK = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/browser/" in item.path.as_posix():
            item.add_marker(pytest.mark.browser)
            if CHROMIUM is None:
                item.add_marker(pytest.mark.skip(reason="Chromium is missing: apt-get install chromium"))


class ServedConsole:
    """A console on a loopback port, in a thread of its own. The test changes the broker from outside."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.address = ""
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: trio.run(self._serve))

    def __enter__(self) -> "ServedConsole":
        self._thread.start()
        assert self._started.wait(20)
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        if self._thread.is_alive():
            trio.from_thread.run_sync(self._stop.set, trio_token=self._token)
        self._thread.join(20)

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._stop = trio.Event()
        async with trio.open_nursery() as nursery:
            serve = partial(serve_console, self.broker.backend(), FakeSettings(), shutdown=self._stop)
            host, port = await nursery.start(serve)
            self.address = f"http://{host}:{port}"
            self._started.set()


@dataclass
class Watched:
    """A page, and everything in it that went wrong: failed scripts, refused content, dialogs."""

    page: Any
    console: ServedConsole
    troubles: list[str] = field(default_factory=list)

    def go(self, path: str) -> Any:
        """Returns when the page's scripts run: a key pressed before has no effect."""
        self.page.goto(self.console.address + path)
        if self.page.locator("#live").count():
            sync_api.expect(self.page.locator("#live")).to_have_attribute("data-state", "live")
        return self.page

    def sign_in(self, token: str = "admin-token") -> Any:
        return self.go(f"/?token={token}")


Opened = Callable[..., Watched]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
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
    context.set_default_timeout(8_000)
    page = context.new_page()
    watched = Watched(page, served)

    def hear(message: Any) -> None:
        # A refused request is the test's own doing; everything else that is written in red is not.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            watched.troubles.append(message.text)

    page.on("console", hear)
    page.on("pageerror", lambda error: watched.troubles.append(str(error)))
    page.on("dialog", lambda dialog: (watched.troubles.append(f"dialog {dialog.message}"), dialog.dismiss()))
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

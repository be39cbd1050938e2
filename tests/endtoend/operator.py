"""An operator at the console, in Chromium: what they type and click, and what they see.

Used by the tests that are marked `browser`. Holds to what is on the page; asks no API.
"""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.chromium import find_chromium

SHOWN_WITHIN_MS: Final = 60_000
PICKED: Final = {"user": "User", "client-id": "Client id"}
NAMED: Final = {"user": "Name of the user", "client-id": "Name of the client id"}
UNITS: Final = {"B/s": 1, "kB/s": 1e3, "MB/s": 1e6}

Entity = Mapping[str, str | None]


@dataclass(frozen=True)
class SeenThrottle:
    """A row of Throttled now as it reads: rates in bytes per second, `left_ms` None once it says released."""

    rule: str
    observed: float
    bound: float
    delay_ms: int
    left_ms: int | None
    times: int


class Operator:
    """Two windows side by side: the quotas to edit, and who is throttled."""

    def __init__(self, context: Any, broker: BrokerProcess) -> None:
        self._complaints: list[str] = []
        self._quotas = self._window(context, broker.link)
        self._quotas.get_by_role("link", name="Quotas", exact=True).click()
        self._held = self._window(context, f"http://{broker.console}/throttled")

    def sees_nobody_throttled(self) -> None:
        """Fails if the page does not come to say so."""
        self._held.get_by_role("heading", name="No client is throttled").wait_for(timeout=SHOWN_WITHIN_MS)

    def adds_quota(self, entity: Entity, produce: str) -> float:
        """Adds a limit on producing, as typed; the time of day of the last click."""
        page = self._quotas
        page.get_by_role("button", name="Add quota").first.click()
        form = page.locator("form.editor")
        for kind, label in PICKED.items():
            named = isinstance(entity.get(kind), str)
            choice = "name" if named else "default" if kind in entity else "any"
            form.get_by_label(label, exact=True).select_option(choice)
            if named:
                form.get_by_label(NAMED[kind]).fill(entity[kind])
        form.get_by_label("Produce per second").fill(produce)
        form.get_by_text("connected client").first.wait_for(timeout=SHOWN_WITHIN_MS)
        return self._save(form, "Add quota")

    def edits_quota(self, words: str, produce: str) -> float:
        """Changes the limit of the rule that the page names so."""
        self._quotas.get_by_role("button", name=f"Edit {words}").click()
        form = self._quotas.locator("form.editor")
        form.get_by_label("Produce per second").fill(produce)
        return self._save(form, "Save limits")

    def removes_quota(self, words: str) -> float:
        self._quotas.get_by_role("button", name=f"Remove {words}").click()
        panel = self._quotas.locator("div.editor")
        panel.get_by_text("Equivalent command").wait_for(timeout=SHOWN_WITHIN_MS)
        return self._save(panel, "Remove limits")

    def sees_throttled(self, client_id: str) -> SeenThrottle:
        """The row of a client; waits for it."""
        row = self._held.get_by_role("row").filter(has_text=client_id)
        row.wait_for(timeout=SHOWN_WITHIN_MS)
        # One look at the whole row: the page goes on counting.
        shown, rest = row.evaluate(
            "(tr) => [Object.fromEntries([...tr.cells].map((cell) => [cell.dataset.label, cell.innerText])),"
            " [...tr.cells].find((cell) => cell.dataset.label === 'Throttle').title]"
        )
        rates = re.findall(r"[\d.\s\u202f]+[kM]?B/s", shown["Rate against limit"])
        return SeenThrottle(
            rule=" ".join(shown["Rule that matched"].split()),
            observed=_rate(rates[0]),
            bound=_rate(rates[1]),
            delay_ms=_milliseconds(shown["Throttle"]),
            left_ms=None if "released" in rest else _left(rest),
            times=_number(shown["Times"]),
        )

    def sees_no_rule(self, words: str) -> None:
        """Fails if the rule does not leave the table."""
        button = self._quotas.get_by_role("button", name=f"Edit {words}")
        button.wait_for(state="detached", timeout=SHOWN_WITHIN_MS)

    def complaints(self) -> list[str]:
        """What the browser wrote to its console: errors, and what the page's policy forbade."""
        return self._complaints

    def _window(self, context: Any, address: str) -> Any:
        page = context.new_page()
        page.on("pageerror", lambda error: self._complaints.append(str(error)))
        page.on("console", self._noted)
        page.goto(address)
        page.get_by_text("Live", exact=True).wait_for(timeout=SHOWN_WITHIN_MS)
        return page

    def _noted(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self._complaints.append(message.text)

    def _save(self, form: Any, name: str) -> float:
        form.get_by_role("button", name=name).click()
        clicked = time.time()
        form.wait_for(state="detached", timeout=SHOWN_WITHIN_MS)
        return clicked


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser. Skips where there is none, or nothing to drive it with."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright drives Chromium, and is not here"
    )
    path = find_chromium()
    if path is None:
        pytest.skip("there is no Chromium here")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def _rate(text: str) -> float:
    number, unit = text.strip().rsplit(None, 1)
    return float(re.sub(r"\s", "", number)) * UNITS[unit]


def _number(text: str) -> int:
    return int(re.sub(r"\D", "", text.splitlines()[0]))


def _left(text: str) -> int:
    """Return the rest of a throttle, which the page counts down: 8 000 ms, of which 340 ms are left."""
    return int(re.sub(r"\D", "", re.findall(r"of which (.+) are left", text)[0]))


def _milliseconds(text: str) -> int:
    """Return a time as the page rounds it: 340 ms, 6.7 s, 67 s, 4 min."""
    number, unit = re.fullmatch(r"([\d.]+)\s*(ms|s|min)", text.splitlines()[0].strip()).groups()
    return round(float(number) * {"ms": 1, "s": 1_000, "min": 60_000}[unit])

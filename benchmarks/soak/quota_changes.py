"""Quotas of the soak's clients that change at random, and whether the broker has what it acknowledged."""

import json
import random
import threading
import urllib.error
import urllib.request
from typing import Any, Final

import trio

from benchmarks.soak.stage import Stage
from benchmarks.soak.topics import GROUPS, IDEMPOTENT

EVERY_S: Final = 5.0
CLIENTS: Final = (*IDEMPOTENT, "transactions", "copier", *GROUPS)
RANGES: Final = {
    "producer_byte_rate": (10_000, 1_000_000),
    "consumer_byte_rate": (100_000, 10_000_000),
    "request_percentage": (2, 200),
}
PATH: Final = "/api/v1/client-quotas"

Key = tuple[str, str]
"""A client id and the name of a quota."""


class QuotaChanges:
    """Sets, changes and removes quotas, and knows what the broker must have."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._chance = random.Random(f"{stage.seed} quotas")
        self._expected: dict[Key, set[float | None]] = {}
        """The acknowledged value; after a change without an answer also the value that it would have."""

        self.count = 0
        self._lock = threading.Lock()
        """One change or check at a time."""

    async def change(self) -> None:
        """Make a change every few seconds, until it is cancelled."""
        while True:
            await trio.sleep(EVERY_S)
            name = self._chance.choice(list(RANGES))
            low, high = RANGES[name]
            value = (
                None if self._chance.random() < 0.4 else round(low * (high / low) ** self._chance.random())
            )
            key = self._chance.choice(CLIENTS), name
            await trio.to_thread.run_sync(self._set, key, value)

    def remove_all(self) -> None:
        """Lift every limit. Blocks; raises OSError while the broker does not take it."""
        with self._lock:
            for key in self._expected:
                self._patch(key, None)
                self._expected[key] = {None}

    def _set(self, key: Key, value: float | None) -> None:
        with self._lock:
            before = self._expected.get(key, {None})
            self._expected[key] = before | {value}
            try:
                self._patch(key, value)
            except urllib.error.HTTPError as error:
                # A change that is refused was not made.
                self._expected[key] = before
                with error:
                    self._stage.report("quotas", f"a change was refused: {error.code} {_detail(error)}")
            except OSError as error:
                self._stage.report("quotas", f"a change has no answer: {error}")
            else:
                self._expected[key] = {value}
                self.count += 1

    def _patch(self, key: Key, value: float | None) -> None:
        client, name = key
        op: dict[str, Any] = {"key": name, "remove": True} if value is None else {"key": name, "value": value}
        self._ask("PATCH", {"entries": [{"entity": {"client-id": client}, "ops": [op]}]})

    def _ask(self, method: str, body: Any = None, query: str = "") -> Any:
        headers = {"Authorization": f"Bearer {self._stage.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        address = f"http://127.0.0.1:{self._stage.port + 1}{PATH}{query}"
        request = urllib.request.Request(address, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def check(self) -> list[str]:
        """Compare with the broker. Blocks."""
        with self._lock:
            found = self._found()
            return [
                f"quota {name} of {client} is {found.get((client, name))}, expected {_words(values)}"
                for (client, name), values in sorted(self._expected.items())
                if found.get((client, name)) not in values
            ]

    def _found(self) -> dict[Key, float]:
        found: dict[Key, float] = {}
        query = "?limit=500"
        while query:
            page = self._ask("GET", query=query)
            for item in page["items"]:
                entity = item["entity"]
                if set(entity) == {"client-id"}:
                    limits = item["limits"].items()
                    found |= {(entity["client-id"], name): limit["value"] for name, limit in limits}
            query = f"?limit=500&cursor={page['next']}" if page.get("next") else ""
        return found


def _words(values: set[float | None]) -> str:
    return " or ".join(sorted(map(str, values)))


def _detail(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read()).get("detail", ""))
    except ValueError:
        return ""

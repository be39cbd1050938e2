"""What a Kafka client waits while somebody sends the console the most expensive requests that there are.

The clock is the wall's, so this is the best of three tries: it shows that nothing holds the thread for long.
How long a piece may be is held in the thread's own time by tests/webui/test_longest_piece.py.
"""

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import trio

from broker.protocol.messages.api_versions import ApiVersionsRequest
from tests.support.broker_process import TOKEN, BrokerProcess
from tests.support.wire import connect

pytestmark = pytest.mark.endtoend

WORST_MS: Final = 25.0
MEDIAN_MS: Final = 10.0
TRIES: Final = 5
THREADS: Final = 6
MEGABYTE: Final = b"[" + b"1," * 524_286 + b"1]"


class Waits(NamedTuple):
    median_ms: float
    worst_ms: float


class Attacker:
    """Asks the console over a connection of its own each time, as a stranger or with the token."""

    def __init__(self, broker: BrokerProcess, token: str = "") -> None:
        self._host, _, self._port = broker.console.partition(":")
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    def ask(self, method: str, path: str, body: bytes | None = None) -> int:
        connection = http.client.HTTPConnection(self._host, int(self._port), timeout=60)
        try:
            connection.request(method, path, body, self._headers)
            answer = connection.getresponse()
            answer.read()
            return answer.status
        except (BrokenPipeError, ConnectionResetError):
            return 0  # it was refused before it was sent
        finally:
            connection.close()


async def waits(port: int, attack: Any, threads: int) -> Waits:
    """Of an innocent client that asks for ApiVersions all the time, while `attack` runs in threads."""
    found: list[float] = []
    innocent = await connect(port)

    async def ask() -> None:
        while True:
            before = time.perf_counter()
            await innocent.ask(ApiVersionsRequest(), 0)
            found.append((time.perf_counter() - before) * 1000)
            await trio.sleep(0.001)

    async with innocent.stream, trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.sleep(0.2)
        found.clear()
        async with trio.open_nursery() as attackers:
            for _ in range(threads):
                attackers.start_soon(trio.to_thread.run_sync, attack)
        nursery.cancel_scope.cancel()
    found.sort()
    return Waits(found[len(found) // 2], found[-1])


async def best_of(port: int, attack: Any, threads: int = 1) -> Waits:
    best = Waits(float("inf"), float("inf"))
    for _ in range(TRIES):
        found = await waits(port, attack, threads)
        print(f"median {found.median_ms:.2f} ms, worst {found.worst_ms:.1f} ms")
        best = Waits(min(best.median_ms, found.median_ms), min(best.worst_ms, found.worst_ms))
        if best.worst_ms < WORST_MS and best.median_ms < MEDIAN_MS:
            break
    return best


@contextmanager
def console(directory: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(directory, "events.topics=") as broker:
        yield broker


async def test_strangers_who_sign_in_with_a_megabyte(tmp_path: Path) -> None:
    with console(tmp_path) as broker:
        stranger = Attacker(broker)

        def attack() -> None:
            for _ in range(20):
                assert stranger.ask("POST", "/login", MEGABYTE) in (0, 413, 429)

        port = int(broker.plain.rpartition(":")[2])
        found = await best_of(port, attack, THREADS)
    assert found.median_ms < MEDIAN_MS and found.worst_ms < WORST_MS


def rules(count: int, value: int) -> bytes:
    listed = [{"entity": {"user": f"u{at}"}, "limits": {"producer_byte_rate": value}} for at in range(count)]
    return json.dumps({"quotas": listed}).encode()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/api/v1/client-quotas:import?dry_run=true", rules(5_000, 1)),
        ("POST", "/api/v1/client-quotas:import?dry_run=true", MEGABYTE),
        ("GET", "/api/v1/client-quotas:export", None),
        ("GET", "/api/v1/client-quotas:resolve?client-id=nobody", None),
        ("GET", "/api/v1/ip-quotas", None),
        ("GET", "/api/v1/doctor", None),
        ("GET", "/metrics", None),
        ("GET", "/api/v1/audit:export", None),
    ],
    ids=["import", "invalid import", "export", "explain", "addresses", "doctor", "metrics", "audit"],
)
async def test_who_has_a_token_asks_for_the_most(
    tmp_path: Path, method: str, path: str, body: bytes | None
) -> None:
    with console(tmp_path) as broker:
        holder = Attacker(broker, TOKEN)
        assert holder.ask("POST", "/api/v1/client-quotas:import", rules(5_000, 2)) == 200

        def attack() -> None:
            for _ in range(3):
                assert holder.ask(method, path, body) in (0, 200, 400)

        port = int(broker.plain.rpartition(":")[2])
        found = await best_of(port, attack)
    assert found.median_ms < MEDIAN_MS and found.worst_ms < WORST_MS

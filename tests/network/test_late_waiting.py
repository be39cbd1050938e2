"""A request that begins to wait when the drain has begun is answered, and does not hold up the stop."""

from types import SimpleNamespace
from typing import Any

import pytest
import trio

from broker.server.server import RELEASE_EVERY_S, Server

TIMEOUT_MS = 3_000


class LateServer:
    """A server in which an operation begins to wait `late_s` after the drain has begun."""

    finish_requests: Any = Server.finish_requests
    _release_all_delayed: Any = Server._release_all_delayed

    def __init__(self, late_s: float) -> None:
        self.config = SimpleNamespace(broker=SimpleNamespace(drain_timeout_ms=TIMEOUT_MS))
        self.socket_server = self
        self._late_s = late_s
        self._waiting: trio.Event | None = None

    def release_delayed(self) -> None:
        if self._waiting is not None:
            self._waiting.set()

    async def drain(self) -> None:
        await trio.sleep(self._late_s)
        self._waiting = trio.Event()
        await self._waiting.wait()


@pytest.mark.parametrize(
    ("late_s", "ends_s"),
    [(0.001, RELEASE_EVERY_S), (0.049, RELEASE_EVERY_S), (0.051, 2 * RELEASE_EVERY_S), (0.99, 1.0)],
)
async def test_what_waits_late_is_released_within_fifty_milliseconds(
    autojump_clock, late_s: float, ends_s: float, caplog: pytest.LogCaptureFixture
) -> None:
    server: Any = LateServer(late_s)
    began = trio.current_time()
    await server.finish_requests()
    assert trio.current_time() - began == pytest.approx(ends_s, abs=1e-6)
    assert not caplog.records


async def test_a_drain_that_does_not_end_times_out(autojump_clock, caplog: pytest.LogCaptureFixture) -> None:
    server: Any = LateServer(TIMEOUT_MS)
    began = trio.current_time()
    await server.finish_requests()
    assert trio.current_time() - began == TIMEOUT_MS / 1_000
    assert [each.getMessage() for each in caplog.records] == ["the drain timed out with requests in progress"]

"""Slow clients, as slowhttptest simulates them: two hundred that send headers or body a byte at a time.

Each is disconnected in time while others are served. test_http_server.py has a client that does not read its
response. The time limits are shortened, so that this takes seconds; a test below checks their real values.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from tests.webui.fakes import FakeBroker, console_config
from tests.webui.raw_http import Served, served
from webui import fair_queue
from webui.console import Console
from webui.http import app, http_server

SLOW = 200
DRIP_S = 0.25
LIMIT_S = 1.0
ENDS_WITHIN_S = 60.0
"""Unloaded it takes two seconds; without a limit it takes for ever."""

Attack = Callable[[trio.SocketStream], Awaitable[None]]


@asynccontextmanager
async def hasty(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    made = http_server.hypercorn_config

    def config() -> Any:
        config = made()
        config.keep_alive_timeout = LIMIT_S
        return config

    monkeypatch.setattr(http_server, "hypercorn_config", config)
    monkeypatch.setattr(app, "BODY_TIMEOUT_S", LIMIT_S)
    monkeypatch.setattr(fair_queue, "FLOOD_WAIT_S", LIMIT_S)
    async with served(broker) as server:
        yield server


async def drip(stream: trio.SocketStream, head: bytes) -> None:
    """Send a byte at a time until the console disconnects."""
    await stream.send_all(head)
    while True:
        await stream.send_all(b"a")
        await trio.sleep(DRIP_S)


async def slow_headers(stream: trio.SocketStream) -> None:
    await drip(stream, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")


async def slow_body(stream: trio.SocketStream) -> None:
    head = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    await drip(stream, head + b"Content-Length: 4000\r\n\r\n")


@pytest.mark.slow
@pytest.mark.parametrize("attack", [slow_headers, slow_body])
async def test_two_hundred_slow_clients_delay_no_other_and_are_disconnected(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, attack: Attack
) -> None:
    ended: list[float] = []
    all_ended = trio.Event()

    async def slow(server: Served) -> None:
        stream = await server.open()
        try:
            await attack(stream)
        except trio.BrokenResourceError:
            ended.append(trio.current_time())
            if len(ended) == SLOW:
                all_ended.set()
        finally:
            await trio.aclose_forcefully(stream)

    async with hasty(broker, monkeypatch) as server, trio.open_nursery() as nursery:
        for _ in range(SLOW):
            nursery.start_soon(slow, server)
        await trio.sleep(LIMIT_S / 2)
        with trio.fail_after(ENDS_WITHIN_S):
            stream = await server.ask("/healthz", b"Connection: close\r\n")
            assert b"".join([chunk async for chunk in stream]).endswith(b"ok\n")
            await stream.aclose()
        with trio.fail_after(ENDS_WITHIN_S):
            await all_ended.wait()
    assert broker.applied == []


def test_the_limits_are_those_configured(console: Console) -> None:
    config = http_server.hypercorn_config()
    of_app = app.build_app(console).config
    assert (of_app["BODY_TIMEOUT"], of_app["RESPONSE_TIMEOUT"]) == (10, 30)
    assert (config.keep_alive_timeout, http_server.STALLED_AFTER_S, app.BODY_TIMEOUT_S) == (5.0, 10.0, 10)
    assert console_config().max_connections_per_ip > SLOW

"""The console on a socket, spoken to byte by byte. Used by the tests beside it that need no browser."""

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import trio

from tests.support.machine_speed import WITHIN_S
from tests.webui.fakes import FakeBroker, console_config
from webui.http import http_server
from webui.serving import serve_console


@dataclass
class Served:
    host: str
    port: int
    shutdown: trio.Event
    ended: trio.Event

    async def open(self, source: str | None = None) -> trio.SocketStream:
        """`source`: the address that it comes from."""
        return await trio.open_tcp_stream(self.host, self.port, local_address=source)

    async def ask(self, path: str, headers: bytes = b"", source: str | None = None) -> trio.SocketStream:
        stream = await self.open(source)
        await stream.send_all(b"GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n" % (path.encode(), headers))
        return stream


@asynccontextmanager
async def served(
    broker: FakeBroker, *, tls: Callable[[], ssl.SSLContext] | None = None, **settings: Any
) -> AsyncIterator[Served]:
    shutdown, ended = trio.Event(), trio.Event()

    async def run(task_status: trio.TaskStatus[tuple[str, int]]) -> None:
        console = console_config(ssl_keystore_location="" if tls is None else "console.pem", **settings)
        await serve_console(broker.backend(), console, shutdown=shutdown, tls=tls, task_status=task_status)
        ended.set()

    async with trio.open_nursery() as nursery:
        host, port = await nursery.start(run)
        yield Served(host, port, shutdown, ended)
        shutdown.set()
        with trio.fail_after(http_server.GRACE_S + WITHIN_S):
            await ended.wait()


async def rest_of(stream: trio.SocketStream) -> bytes:
    """Everything up to EOF, which must come by itself."""
    received = bytearray()
    async with stream:
        with trio.fail_after(10):
            async for chunk in stream:
                received += chunk
    return bytes(received)


async def until(stream: trio.SocketStream, words: bytes) -> bytes:
    received = bytearray()
    with trio.fail_after(10):
        while words not in received:
            chunk = await stream.receive_some()
            assert chunk, bytes(received)
            received += chunk
    return bytes(received)

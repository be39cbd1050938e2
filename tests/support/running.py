"""A whole broker in the test's own nursery, on a port of its own, without a console unless asked for."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import trio

from broker.config.load import load
from broker.network.clock import TrioClock
from broker.network.socket_server import SocketServer
from broker.server.app import Started, run_server
from broker.server.broker import BrokerServer
from tests.support.machine_speed import WITHIN_S
from tests.support.punctual import Punctuality
from tests.support.wire import CLIENT_ID, OPENED, WireClient, connect, connect_tls

DRAIN_MS: Final = round(2_000 * WITHIN_S)
"""A broker that waits for this has not drained within WITHIN_S."""


@dataclass
class RunningBroker:
    server: BrokerServer
    started: Started
    stop: trio.Event
    clients: list[WireClient] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.started.bootstrap[0].rpartition(":")[2])

    async def connect(self, client_id: str | None = CLIENT_ID) -> WireClient:
        client = await connect(self.port, client_id)
        self.clients.append(client)
        return client

    async def connect_tls(self, context: ssl.SSLContext, client_id: str | None = CLIENT_ID) -> WireClient:
        client = await connect_tls(self.port, context, client_id)
        self.clients.append(client)
        return client


async def leave(server: SocketServer, port: int = 0) -> None:
    """Closes the connections of the test to a server that stops, and those to `port`: it waits for clients
    that have just used theirs.
    """
    ours = {(channel.address, channel.port) for channel in server.channels()}
    for stream in OPENED:
        with suppress(OSError):
            if stream.socket.getsockname()[:2] in ours or stream.socket.getpeername()[1] == port:
                await trio.aclose_forcefully(stream)


@asynccontextmanager
async def running_broker(directory: Path, *overrides: str) -> AsyncIterator[RunningBroker]:
    """Stops by its own drain when the block is left. Writes no events unless they are asked for.

    Raises AssertionError if a reaper would have slept past a deadline.
    """
    settings = [
        "listeners=PLAINTEXT://127.0.0.1:0",
        f"log.dirs={directory}",
        "console.listener=",
        "events.topics=",
        f"shutdown.drain.timeout.ms={DRAIN_MS}",
        *overrides,
    ]
    server = BrokerServer(load(None, settings, {}), TrioClock())
    stop = trio.Event()
    punctuality = Punctuality(server)
    try:
        async with trio.open_nursery() as nursery:
            started: Started = await nursery.start(run_server, server, stop)
            try:
                running = RunningBroker(server, started, stop)
                trio.lowlevel.add_instrument(punctuality)
                yield running
                assert not punctuality.late
            finally:
                for client in running.clients:
                    await trio.aclose_forcefully(client.stream)
                await leave(server.socket_server)
                stop.set()
    finally:
        server.close()

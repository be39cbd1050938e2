"""A whole gateway in the test's own nursery, in front of any upstream, without a console unless asked for."""

import os
import random
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trio

from broker.config.load import load
from broker.network.clock import TrioClock
from broker.server.app import Started, run_server
from broker.server.gateway import GatewayServer
from tests.support.processes import NUMBER
from tests.support.running import leave
from tests.support.wire import CLIENT_ID, WireClient, connect

CLUSTER_KEY = "the key of all gateways of the tests".replace(" ", "-")


@dataclass
class RunningGateway:
    server: GatewayServer
    started: Started
    stop: trio.Event
    first_port: int
    clients: list[WireClient] = field(default_factory=list)

    @property
    def port(self) -> int:
        """The bootstrap port."""
        return int(self.started.bootstrap[0].rpartition(":")[2])

    async def connect(self, client_id: str | None = CLIENT_ID, port: int = 0) -> WireClient:
        client = await connect(port or self.port, client_id)
        self.clients.append(client)
        return client

    def channels(self) -> list[object]:
        return list(self.server.socket_server.channels())


def free_ports(count: int) -> int:
    """The first of `count` free ports in a row, below those that the system gives to
    outgoing connections. Tests that run side by side have ranges of their own.
    """
    worker = int(os.environ.get(NUMBER, "0"))
    lowest = 10_000 + worker % 2 * 5_000
    while True:
        first = random.randrange(lowest, lowest + 5_000 - count)
        taken: list[socket.socket] = []
        try:
            for port in range(first, first + count):
                taken.append(socket.create_server(("127.0.0.1", port)))
        except OSError:
            continue
        finally:
            for each in taken:
                each.close()
        return first


@asynccontextmanager
async def running_gateway(
    directory: Path, upstream_port: int, *overrides: str, finds_cluster: bool = True
) -> AsyncIterator[RunningGateway]:
    """Stops by its own drain when the block is left. Writes no events unless they are asked for. With
    `finds_cluster`, waits until the upstream cluster has answered."""
    first = free_ports(8)
    settings = [
        "listeners=PLAINTEXT://127.0.0.1:0",
        f"log.dirs={directory}",
        "console.listener=",
        "events.topics=",
        f"upstream.bootstrap.servers=127.0.0.1:{upstream_port}",
        f"gateway.port.range={first}-{first + 7}",
        f"gateway.cluster.keys={CLUSTER_KEY}",
        *overrides,
    ]
    server = GatewayServer(load(None, settings, {}), TrioClock())
    stop = trio.Event()
    try:
        async with trio.open_nursery() as nursery:
            started: Started = await nursery.start(run_server, server, stop)
            try:
                if finds_cluster:
                    await server.cluster.found.wait()
                running = RunningGateway(server, started, stop, first)
                yield running
            finally:
                for client in running.clients:
                    await trio.aclose_forcefully(client.stream)
                await leave(server.socket_server)
                stop.set()
    finally:
        server.close()

"""From bound ports to accepted connections: a port that cannot be bound, and an authorizer that is late."""

import os
import socket
from pathlib import Path

import pytest
import trio

from broker.common.errors import ConfigError
from broker.config.load import load
from broker.network.clock import TrioClock
from broker.protocol.messages.metadata import MetadataRequest
from broker.server.app import run_broker
from broker.server.broker import BrokerServer
from broker.server.gateway import GatewayServer
from broker.server.server import Server
from tests.support.machine_speed import WITHIN_S
from tests.support.wire import WireClient, connect

ONE = "PLAINTEXT://127.0.0.1:0"
BOTH = f"{ONE},OTHER://127.0.0.1:0"
MAP = "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT"


async def advertised_port(client: WireClient) -> int:
    answer = await client.ask(MetadataRequest([]), 9)
    return int(answer.brokers[0].port)


async def test_a_start_names_the_listener_whose_port_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        overrides = [f"listeners={ONE},SASL_PLAINTEXT://127.0.0.1:{port}", f"log.dirs={tmp_path}"]
        with pytest.raises(ConfigError, match=f"SASL_PLAINTEXT://127.0.0.1:{port}.*already in use"):
            BrokerServer(load(None, overrides, {}), TrioClock())


def open_below(folder: Path) -> list[str]:
    """Return the files in a folder that this process has open."""
    files = map(os.path.realpath, Path("/proc/self/fd").iterdir())
    return [each for each in files if each.startswith(str(folder))]


@pytest.mark.parametrize("server", [BrokerServer, GatewayServer])
async def test_a_start_that_fails_leaves_no_file_open(tmp_path: Path, server: type[Server]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        overrides = [f"listeners=PLAINTEXT://127.0.0.1:{port}", f"log.dirs={tmp_path}"]
        if server is GatewayServer:
            overrides.append("upstream.bootstrap.servers=127.0.0.1:9")
        with pytest.raises(ConfigError, match="already in use") as caught:
            server(load(None, overrides, {}), TrioClock())
    assert caught.tb is not None  # it keeps what the server has opened
    assert open_below(tmp_path) == []


async def test_a_listener_accepts_once_its_authorizer_is_ready_and_keeps_its_port_until_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A late authorizer delays only its own listener."""
    late = trio.Event()

    async def ready(listener: str) -> None:
        if listener == "OTHER":
            await late.wait()

    settings = [f"listeners={BOTH}", f"listener.security.protocol.map={MAP}", "console.listener="]
    server = BrokerServer(load(None, [*settings, f"log.dirs={tmp_path}"], {}), TrioClock())
    async with trio.open_nursery() as nursery:
        server.socket_server.start_handlers(nursery)
        server.socket_server.start_processors(nursery)
        server.socket_server.start_acceptors(nursery, ready)
        addresses = {each.name: each.acceptor.address[1] for each in server.socket_server.listeners}
        early = await connect(addresses["PLAINTEXT"])
        assert await advertised_port(early) == addresses["PLAINTEXT"]
        waiting = await connect(addresses["OTHER"])  # the port is bound
        await waiting.send(MetadataRequest([]), 9)
        with trio.move_on_after(0.05) as waited:
            await server.socket_server.wait_started()
        assert waited.cancelled_caught
        late.set()
        _, answer = await waiting.receive(3, 9)
        assert answer.brokers[0].port == addresses["OTHER"]
        await server.socket_server.wait_started()
        nursery.cancel_scope.cancel()
    server.close()


async def test_an_authorizer_that_fails_stops_the_broker(tmp_path: Path) -> None:
    async def broken(_listener: str) -> None:
        raise ConfigError("authorizer", "x", "one that loads")

    server = BrokerServer(
        load(None, [f"listeners={ONE}", f"log.dirs={tmp_path}", "console.listener="], {}), TrioClock()
    )

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            server.socket_server.start_processors(nursery)
            server.socket_server.start_acceptors(nursery, broken)

    with pytest.raises(BaseExceptionGroup) as caught:
        await run()
    assert caught.group_contains(ConfigError)
    server.close()


async def test_a_stop_does_not_wait_for_an_authorizer_that_is_never_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first SIGTERM had no effect."""

    async def never(_server: BrokerServer, _listener: str) -> None:
        waiting.set()
        await trio.sleep_forever()

    waiting, stop = trio.Event(), trio.Event()
    monkeypatch.setattr(BrokerServer, "may_accept", never)
    configuration = load(None, [f"listeners={ONE}", f"log.dirs={tmp_path}", "console.listener="], {})
    with trio.fail_after(WITHIN_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_broker, configuration, stop)
            await waiting.wait()
            stop.set()

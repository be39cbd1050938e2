"""The hand-off of accepted connections: processors in turn, waiting if all queues are full, without loss."""

import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from broker.common.errors import FatalExitError
from broker.config.load import load
from broker.network.acceptor.acceptor import SAME_MACHINE_SEND_BUFFER, SYSTEM_CHOICE, SocketOptions
from broker.network.clock import TrioClock
from broker.network.processor import NEW_CONNECTIONS, Accepted
from broker.server.broker import BrokerServer
from tests.support.connections import LOOPBACK, settle
from tests.support.hostile import is_served
from tests.support.machine_speed import WITHIN_S
from tests.support.running import running_broker
from tests.support.wire import WireClient, connect


@pytest.fixture
async def server(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[BrokerServer]:
    """Yield a server whose two processors do not run."""
    settings = [
        f"listeners=PLAINTEXT://{LOOPBACK}:0",
        f"log.dirs={tmp_path}",
        "console.listener=",
        "num.network.threads=2",
    ]
    server = BrokerServer(load(None, settings, {}), TrioClock())
    yield server
    server.socket_server.listeners[0].acceptor.close()
    server.close()


def queued(server: BrokerServer) -> list[int]:
    (listener,) = server.socket_server.listeners
    return [each.new_connections.statistics().current_buffer_used for each in listener.processors]


async def clients_of(server: BrokerServer, count: int) -> list[WireClient]:
    (listener,) = server.socket_server.listeners
    clients = [await connect(listener.acceptor.address[1]) for _ in range(count)]
    await settle()
    return clients


async def test_connections_go_round_until_every_queue_is_full_and_wait_then_none_is_dropped(
    server: BrokerServer, mock_clock: MockClock
) -> None:
    gate = server.socket_server.listeners[0].acceptor.gate
    async with trio.open_nursery() as nursery:
        server.socket_server.start_acceptors(nursery)
        clients = await clients_of(server, 6)
        assert queued(server) == [3, 3]
        clients += await clients_of(server, 2 * NEW_CONNECTIONS - 6)
        assert queued(server) == [NEW_CONNECTIONS, NEW_CONNECTIONS]
        mock_clock.jump(1)
        assert gate.blocked.total_ns() == 0, "two full queues do not block the acceptor yet"

        clients += await clients_of(server, 10)
        mock_clock.jump(3)
        assert gate.blocked.total_ns() == 3_000_000_000
        assert server.connections.total == 2 * NEW_CONNECTIONS + 1

        server.socket_server.start_handlers(nursery)
        server.socket_server.start_processors(nursery)
        assert [await is_served(client) for client in clients] == [True] * len(clients)
        assert server.connections.total == len(clients)
        mock_clock.jump(5)
        assert gate.blocked.total_ns() == 3_000_000_000
        nursery.cancel_scope.cancel()


async def test_a_stop_in_the_middle_of_a_hand_off_closes_what_no_processor_has(
    server: BrokerServer, mock_clock: MockClock
) -> None:
    async with trio.open_nursery() as nursery:
        server.socket_server.start_acceptors(nursery)
        clients = await clients_of(server, 2 * NEW_CONNECTIONS + 3)
        nursery.cancel_scope.cancel()
    for processor in server.socket_server.processors():
        processor.close()
    assert [await client.is_closed() for client in clients] == [True] * len(clients)
    assert (server.connections.total, server.connections.counts) == (0, {})


async def test_the_share_of_blocked_time_is_of_the_last_minute(
    server: BrokerServer, mock_clock: MockClock
) -> None:
    """Two windows of 30 s, of which one at least is taken as whole."""
    blocked = server.socket_server.listeners[0].acceptor.gate.blocked
    assert blocked.share() == 0
    with blocked:
        mock_clock.jump(15)
        assert blocked.share() == pytest.approx(1 / 3), "a wait that is on is part of it"
        mock_clock.jump(45)
    assert blocked.share() == pytest.approx(1.0, abs=0.01)
    mock_clock.jump(120)
    assert blocked.share() == 0
    assert blocked.total_ns() == 60_000_000_000


async def test_a_connection_that_cannot_be_configured_is_closed_and_given_back(
    server: BrokerServer, mock_clock: MockClock
) -> None:
    acceptor = server.socket_server.listeners[0].acceptor
    broken = socket.socket()
    accepted = Accepted(broken, (LOOPBACK, 40_000))
    assert await acceptor.gate.admits(accepted)
    assert server.connections.total == 1
    broken.close()
    await acceptor._serve(accepted)
    assert server.connections.total == 0
    assert queued(server) == [0, 0]


async def test_an_accepted_socket_has_the_options_of_its_keys(tmp_path: Path) -> None:
    """The kernel doubles a buffer's size for its own use."""
    async with running_broker(
        tmp_path, "socket.send.buffer.bytes=65536", "socket.receive.buffer.bytes=32768"
    ) as broker:
        await is_served(await broker.connect())
        (channel,) = broker.server.socket_server.channels()
        sock = channel.sock
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 2 * 65_536
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 2 * 32_768
        assert not sock.getblocking()


@pytest.mark.parametrize(
    ("configured", "own", "peer", "expected"),
    [
        (-1, "192.0.2.1", "192.0.2.1", SAME_MACHINE_SEND_BUFFER),
        (-1, "::ffff:192.0.2.1", "192.0.2.1", SAME_MACHINE_SEND_BUFFER),
        (-1, "2001:DB8::1", "2001:db8::1", SAME_MACHINE_SEND_BUFFER),
        (-1, "192.0.2.1", "192.0.2.2", SYSTEM_CHOICE),
        (-1, "2001:db8::1", "2001:db8::2", SYSTEM_CHOICE),
        (102_400, "192.0.2.1", "192.0.2.1", 102_400),
        (102_400, "192.0.2.1", "192.0.2.2", 102_400),
    ],
)
def test_the_system_chooses_the_send_buffer_of_connections_from_other_machines(
    configured: int, own: str, peer: str, expected: int
) -> None:
    assert SocketOptions(configured, SYSTEM_CHOICE, 1).send_buffer_between(own, peer) == expected


async def test_a_connection_within_the_machine_has_a_small_send_buffer(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await is_served(await broker.connect())
        (channel,) = broker.server.socket_server.channels()
        size = channel.sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        assert size == 2 * SAME_MACHINE_SEND_BUFFER


async def test_a_listening_socket_that_is_gone_stops_the_broker(tmp_path: Path) -> None:
    """The kernel keeps reporting the socket as readable, and every accept fails with EINVAL."""
    with pytest.RaisesGroup(pytest.RaisesExc(FatalExitError), flatten_subgroups=True, allow_unwrapped=True):
        async with running_broker(tmp_path) as running:
            (listener,) = running.server.socket_server.listeners
            listener.acceptor._socket.shutdown(socket.SHUT_RDWR)
            with trio.fail_after(WITHIN_S):
                await trio.sleep_forever()

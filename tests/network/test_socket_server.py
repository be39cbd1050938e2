"""The parts of Kafka's SocketServerTest about one connection's bytes.
tests/network/connection/test_connection_ids.py has those about connection ids.
"""

import socket
import struct
from contextlib import ExitStack
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from broker.config.load import load
from broker.network.clock import TrioClock
from broker.protocol.api_key import ApiKey
from broker.server.broker import BrokerServer
from tests.network.test_pipelining import encoded, stored
from tests.support.connections import LOOPBACK, settle
from tests.support.hostile import HEADER_V1, framed, is_closed_soon, is_served
from tests.support.produce import batch_of, create_topic, produce_request
from tests.support.running import running_broker
from tests.support.wire import connect

SMALLEST = HEADER_V1.size
"""API key, version, correlation id and the length of the client id: the rest of an ApiVersions request of
version 0 is the client id.
"""


@pytest.mark.parametrize(("size", "served"), [(99, True), (100, True), (101, False)])
async def test_a_request_of_the_largest_size_is_served_and_one_byte_more_ends_the_connection(
    tmp_path: Path, size: int, served: bool
) -> None:
    async with running_broker(tmp_path, "socket.request.max.bytes=100") as broker:
        client = await broker.connect()
        request = HEADER_V1.pack(ApiKey.API_VERSIONS, 0, 1, size - SMALLEST) + b"c" * (size - SMALLEST)
        assert len(request) == size
        await client.stream.send_all(framed(request))
        if served:
            assert (await client.receive(ApiKey.API_VERSIONS, 0))[1].error_code == 0
        else:
            assert await is_closed_soon(client)
        assert await is_served(await broker.connect("polite"))


@pytest.mark.parametrize("mode", ["kafka", "automq"])
async def test_ten_requests_before_a_close_are_all_delivered(
    tmp_path: Path, mock_clock: MockClock, mode: str
) -> None:
    """With acks=0, as in Kafka's test, so that no response is written."""
    async with running_broker(tmp_path, f"socket.server.mode={mode}") as broker:
        polite = await broker.connect()
        assert (await polite.ask(create_topic(), 5)).topics[0].error_code == 0
        leaver = await broker.connect()
        ten = b"".join(encoded(produce_request(batch_of(b"x"), acks=0), 9, at) for at in range(10))
        await leaver.stream.send_all(ten)
        await leaver.stream.aclose()
        await settle()
        assert stored(broker) == 10
        assert broker.server.connections.total == 1


def backlog(listening: socket.socket) -> tuple[int, int]:
    """How many connections wait to be accepted, and how many may: tcpi_unacked and tcpi_sacked, which the
    kernel tells of a listening socket.
    """
    info = listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 32)
    waiting, most = struct.unpack_from("2I", info, 24)
    return waiting, most


async def test_with_the_acceptor_stopped_128_connect_and_are_served_when_it_starts(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    settings = [
        f"listeners=PLAINTEXT://{LOOPBACK}:0",
        f"log.dirs={tmp_path}",
        "console.listener=",
        "socket.listen.backlog.size=128",
    ]
    server = BrokerServer(load(None, settings, {}), TrioClock())
    (listener,) = server.socket_server.listeners
    host, port = listener.acceptor.address
    with ExitStack() as stack:
        for _ in range(128):
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            with pytest.raises(BlockingIOError):
                sock.connect((host, port))
            await trio.lowlevel.wait_writable(sock)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
        assert backlog(listener.acceptor._socket) == (128, 128)
        assert server.connections.total == 0
        async with trio.open_nursery() as nursery:
            server.socket_server.start_handlers(nursery)
            server.socket_server.start_processors(nursery)
            server.socket_server.start_acceptors(nursery)
            await settle()
            assert server.connections.total == 128
            assert len(list(server.socket_server.channels())) == 128
            late = await connect(port)
            assert await is_served(late)
            await late.stream.aclose()
            nursery.cancel_scope.cancel()
    server.close()

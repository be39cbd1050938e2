"""A whole broker behind TLS whose kernel takes only a little at a time: handshakes and responses leave whole,
and write interest exists exactly as long as ciphertext waits.
"""

import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.network.connection.send import HandshakeSend
from broker.network.connection.tls_socket import TlsSocket
from broker.network.selector import READ, WRITE
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.network.test_live_listeners import ports
from tests.support.certificates import certificates
from tests.support.hostile import is_served
from tests.support.machine_speed import WITHIN_S
from tests.support.produce import batch_of, create_topic, produce_request
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient, connect_tls


class Stingy:
    """A socket that takes `most` bytes at a time, and every other time nothing. `most` 0: never any."""

    most = 700

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._turn = 0

    def send(self, data: memoryview) -> int:
        self._turn += 1
        if self._turn % 2 or not Stingy.most:
            raise BlockingIOError
        return self._sock.send(data[: Stingy.most])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


class StingyTls(TlsSocket):
    __slots__ = ()

    def __init__(self, sock: Any, *rest: Any) -> None:
        super().__init__(Stingy(sock), *rest)  # type: ignore[arg-type]


@pytest.fixture(params=["kafka", "automq"])
async def broker(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RunningBroker]:
    monkeypatch.setattr("broker.network.handshakes.TlsSocket", StingyTls)
    monkeypatch.setattr(Stingy, "most", 700)
    settings = [
        "listeners=PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        f"ssl.keystore.location={certificates().server.store}",
        "wire.role=admin",
        f"socket.server.mode={request.param}",
    ]
    async with running_broker(tmp_path, *settings) as running:
        yield running


async def tls_client(broker: RunningBroker) -> WireClient:
    client = await connect_tls(ports(broker)["SSL"], certificates().client_context())
    broker.clients.append(client)
    return client


async def test_everything_leaves_whole(broker: RunningBroker) -> None:
    with trio.fail_after(WITHIN_S):
        client = await tls_client(broker)
        assert (await client.ask(create_topic(), 5)).topics[0].error_code == 0
        values = [bytes([number]) * 90_000 for number in range(5)]
        for value in values:
            await client.ask(produce_request(batch_of(value)), 9)
        partition = FetchPartition(0, partition_max_bytes=1 << 30)
        topics = [FetchTopic("events", partitions=[partition])]
        wanted = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 30, topics=topics)
        for _ in range(2):
            await client.send(wanted, 11)
        for _ in range(2):
            _, answer = await client.receive(1, 11)
            records = bytes(answer.responses[0].partitions[0].records)
            assert all(value in records for value in values)
        (channel,) = [each for each in broker.server.socket_server.channels() if each.listener == "SSL"]
        assert (channel.send, channel.interest) == (None, READ)


async def test_a_handshake_that_is_blocked_wants_to_write_and_nothing_else(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stingy, "most", 0)
    async with trio.open_nursery() as nursery:
        found: list[WireClient] = []

        async def come() -> None:
            found.append(await tls_client(broker))

        nursery.start_soon(come)
        for _ in range(10_000):  # the processor never rests, as this kernel says that it would take more
            await trio.lowlevel.checkpoint()
            if any(isinstance(each.send, HandshakeSend) for each in broker.server.socket_server.channels()):
                break
        (channel,) = broker.server.socket_server.channels()
        assert channel.interest == WRITE
        assert not channel.authenticated
        monkeypatch.setattr(Stingy, "most", 700)
    assert await is_served(found[0])
    assert (channel.send, channel.interest, channel.authenticated) == (None, READ, True)

"""A drain ends connections in each state, on Trio's mock clock."""

from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from broker.gateway.channel import UpstreamState
from broker.network.connection.tls_socket import TlsSocket
from broker.quotas.entity import Entity
from broker.server import gateway as gateway_server
from tests.gateway.draining.test_drain import TIMEOUT_S, begin, finished, jump, two_gateways, warnings
from tests.gateway.test_drain import end_of, ends
from tests.support.certificates import certificates, tls_settings
from tests.support.hostile import until
from tests.support.produce import PRODUCE_VERSION, batch_of, produce_request, produce_request_of
from tests.support.running import running_broker
from tests.support.running_gateway import RunningGateway, free_ports, running_gateway
from tests.support.wire import WireClient

__all__ = ["warnings"]

HALF_S = 0.5
THROTTLE_S = 2.0
GREEDY = "greedy"


@pytest.mark.parametrize("sent", [b"", b"\0\0", b"\0\0\0\x64" + bytes(20)])
@pytest.mark.parametrize("is_encrypted", [False, True])
async def test_a_connection_that_sends_no_request(
    sent: bytes, is_encrypted: bool, tmp_path: Path, mock_clock: MockClock, warnings: Callable[[], list[str]]
) -> None:
    """Or no whole one; and on a TLS listener, nothing of a handshake."""
    settings = tls_settings() if is_encrypted else ()
    data = b"\x16\x03\x01\x00\xff\x01"[: len(sent)] if is_encrypted else sent
    async with two_gateways(tmp_path, *settings, others=settings) as (_, gateway, _):
        async with await trio.open_tcp_stream("127.0.0.1", gateway.port) as stream:
            if data:
                await stream.send_all(data)
            await until(lambda: len(gateway.channels()) == 1)
            await begin(gateway)
            await jump(mock_clock, HALF_S + 0.001)
            with trio.fail_after(5):
                assert await stream.receive_some(1) == b""
        await finished(gateway)
        assert not warnings()


async def test_a_connection_whose_upstream_connection_opens(
    tmp_path: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch, warnings: Callable[[], list[str]]
) -> None:
    async with two_gateways(tmp_path) as (_, gateway, _):
        connect, opens = gateway_server.open_connection, trio.Event()

        async def open_late(*args: object, **options: object) -> object:
            await opens.wait()
            return await connect(*args, **options)

        monkeypatch.setattr(gateway_server, "open_connection", open_late)
        client = await gateway.connect()
        await client.send(produce_request(batch_of(b"x"), acks=1), PRODUCE_VERSION)
        await until(
            lambda: [each.upstream_state for each in gateway.channels()] == [UpstreamState.CONNECTING]
        )
        await begin(gateway)
        await jump(mock_clock, HALF_S + 0.001)
        await ends(client)
        opens.set()
        await finished(gateway)
        await jump(mock_clock, TIMEOUT_S)
        assert not warnings()


async def muted(gateway: RunningGateway) -> WireClient:
    """A client that has been told to wait for THROTTLE_S."""
    gateway.server.quotas.apply(Entity(client_id=GREEDY), "producer_byte_rate", 1_000)
    client = await gateway.connect(GREEDY)
    answer = await client.ask(produce_request_of(10_000 + int(1_000 * THROTTLE_S), GREEDY), PRODUCE_VERSION)
    assert answer.throttle_time_ms == THROTTLE_S * 1_000
    return client


async def test_what_a_throttled_client_has_sent_is_answered(tmp_path: Path, mock_clock: MockClock) -> None:
    """A producer without retries would lose it."""
    async with two_gateways(tmp_path) as (broker, gateway, _):
        client = await muted(gateway)
        for _ in range(2):
            await client.send(produce_request(batch_of(b"x"), acks=1), PRODUCE_VERSION)
        await begin(gateway)
        await jump(mock_clock, THROTTLE_S - 0.001)
        assert len(gateway.channels()) == 1 and end_of(broker) == 1
        gateway.server.quotas.apply(Entity(client_id=GREEDY), "producer_byte_rate", 1_000_000)
        await jump(mock_clock, 0.001)
        for _ in range(2):
            await client.receive(0, PRODUCE_VERSION)
        await ends(client)
        await finished(gateway)
        assert end_of(broker) == 3


async def test_a_throttled_client_that_has_sent_nothing_is_let_go_at_its_turn(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with two_gateways(tmp_path) as (_, gateway, _):
        client = await muted(gateway)
        await begin(gateway)
        await ends(client)
        assert trio.current_time() == 0


async def test_a_throttled_client_that_has_sent_more_is_let_go_after_the_timeout(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with two_gateways(tmp_path, "gateway.drain.timeout.ms=1000") as (broker, gateway, _):
        client = await muted(gateway)
        await client.send(produce_request(batch_of(b"x"), acks=1), PRODUCE_VERSION)
        await begin(gateway)
        await jump(mock_clock, 1)
        await jump(mock_clock, HALF_S - 0.001)
        assert len(gateway.channels()) == 1
        await jump(mock_clock, 0.001)
        await ends(client)
        assert end_of(broker) == 1


class Held(trio.abc.Stream):
    """Keeps in `kept` what is to be sent while that is set."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.kept: bytearray | None = None

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        if self.kept is None:
            await self.stream.send_all(data)
        else:
            self.kept += data

    async def wait_send_all_might_not_block(self) -> None:
        await self.stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self.stream.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self.stream.aclose()


@pytest.mark.parametrize("after_s", [HALF_S - 0.001, HALF_S])
async def test_a_request_of_which_a_part_of_its_tls_record_has_arrived(
    after_s: float, tmp_path: Path, mock_clock: MockClock
) -> None:
    """It is answered if the rest arrives within half a second."""
    async with two_gateways(tmp_path, *tls_settings(), others=tls_settings()) as (broker, gateway, _):
        held = Held(await trio.open_tcp_stream("127.0.0.1", gateway.port))
        async with held:
            tls = trio.SSLStream(held, certificates().client_context(), server_hostname="localhost")
            client = WireClient(tls, GREEDY)
            await client.ask(produce_request(batch_of(b"first"), acks=1), PRODUCE_VERSION)
            held.kept = bytearray()
            await client.send(produce_request(batch_of(b"second"), acks=1), PRODUCE_VERSION)
            await held.stream.send_all(held.kept[:50])
            (channel,) = gateway.server.socket_server.channels()
            assert isinstance(channel.sock, TlsSocket)
            await until(lambda: channel.sock.is_within_record)
            await begin(gateway)
            await jump(mock_clock, after_s)
            if after_s < HALF_S:
                await held.stream.send_all(held.kept[50:])
                await client.receive(0, PRODUCE_VERSION)
            while await held.stream.receive_some(1 << 16):  # close_notify, unless it came with the response
                pass
        await finished(gateway)
        assert end_of(broker) == (2 if after_s < HALF_S else 1)


async def test_a_gateway_that_names_itself_has_no_other_one(tmp_path: Path, mock_clock: MockClock) -> None:
    """All gateways may have the same list."""
    first = free_ports(8)
    async with (
        running_broker(tmp_path / "broker") as broker,
        running_gateway(
            tmp_path / "gateway",
            broker.port,
            f"gateway.port.range={first}-{first + 7}",
            f"gateway.drain.to=127.0.0.1:{first}-{first + 7}",
        ) as gateway,
    ):
        for _ in range(3):
            await gateway.connect()
        await until(lambda: len(gateway.channels()) == 3)
        (node,) = gateway.server.cluster.nodes
        await gateway.connect(port=first + node)
        gateway.server.leaving.begin()
        await finished(gateway)
        assert gateway.server.leaving.row().to == ()
        assert trio.current_time() == 0

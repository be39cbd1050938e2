"""A drain ends connections in each state, on Trio's mock clock."""

from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from broker.gateway.channel import UpstreamState
from broker.server import gateway as gateway_server
from tests.gateway.draining.test_drain import TIMEOUT_S, begin, finished, jump, two_gateways, warnings
from tests.gateway.test_drain import ends
from tests.support.certificates import tls_settings
from tests.support.hostile import until
from tests.support.produce import PRODUCE_VERSION, batch_of, produce_request
from tests.support.running import running_broker
from tests.support.running_gateway import free_ports, running_gateway

__all__ = ["warnings"]

HALF_S = 0.5


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

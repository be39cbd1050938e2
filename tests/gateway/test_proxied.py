"""`proxy.protocol` at a gateway: a balancer before its bootstrap port and before the ports of the nodes."""

from pathlib import Path

import pytest
import trio

from broker.common.proxy_protocol import HeaderRefusal
from broker.gateway.channel import GatewayChannel
from broker.quotas.connections import PER_IP, PROXY_HEADER
from tests.gateway.test_forwarding import both, fetch
from tests.support.hostile import is_closed_soon, is_served
from tests.support.produce import PRODUCE_VERSION, batch_of, produce_request
from tests.support.proxy_protocol import CLIENT, local, v1, v2
from tests.support.running_gateway import RunningGateway
from tests.support.wire import OPENED, WireClient

LOOPBACK = "127.0.0.1"
REQUIRED = ("proxy.protocol=require", f"proxy.protocol.trusted.addresses={LOOPBACK}")


async def through(gateway: RunningGateway, header: bytes, port: int, source: str = LOOPBACK) -> WireClient:
    stream = await trio.open_tcp_stream(LOOPBACK, port, local_address=source)
    OPENED.append(stream)
    client = WireClient(stream, "tester")
    gateway.clients.append(client)
    await stream.send_all(header)
    return client


@pytest.mark.parametrize("header", [v1(), v2()], ids=["v1", "v2"])
@pytest.mark.parametrize("is_node", [False, True])
async def test_a_client_behind_a_balancer_is_forwarded(tmp_path: Path, header: bytes, is_node: bool) -> None:
    async with both(tmp_path, *REQUIRED) as (broker, gateway):
        port = gateway.first_port + broker.server.config.broker.node_id if is_node else gateway.port
        client = await through(gateway, header, port)
        answer = await client.ask(produce_request(batch_of(b"value")), PRODUCE_VERSION)
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert (await client.ask(fetch(0), 12)).responses[0].partitions[0].high_watermark == 1
        (channel,) = gateway.channels()
        assert isinstance(channel, GatewayChannel)
        assert (channel.address, channel.port, channel.proxy) == (*CLIENT, LOOPBACK)
        assert (channel.node_id is not None) is is_node, "the port that the balancer connects to decides"


@pytest.mark.parametrize("is_node", [False, True])
async def test_both_kinds_of_ports_require_a_header_and_share_their_limits(
    tmp_path: Path, is_node: bool
) -> None:
    async with both(tmp_path, *REQUIRED, "max.connections.per.ip=1") as (broker, gateway):
        node = gateway.first_port + broker.server.config.broker.node_id
        first, second = (node, gateway.port) if is_node else (gateway.port, node)
        (listener,) = gateway.server.socket_server.listeners
        rejected = listener.acceptor.gate.quota.rejected
        assert await is_served(await through(gateway, v2(), first))
        assert await is_closed_soon(await through(gateway, v2(), second))
        assert await is_served(await through(gateway, local(), second))
        assert rejected == {PER_IP: 1}
        assert await is_closed_soon(await through(gateway, b"\0\0\0\x14", second))
        assert await is_closed_soon(await through(gateway, b"", second, "127.0.0.2"))
        reasons = (HeaderRefusal.MISSING, HeaderRefusal.UNTRUSTED)
        assert rejected == {PER_IP: 1, **{f"{PROXY_HEADER}.{each}": 1 for each in reasons}}

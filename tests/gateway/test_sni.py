"""One TLS port for all nodes: the client names the node in its handshake."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from broker.config.sections import GatewayConfig, NetworkConfig
from broker.config.sections.gateway import SNI_PATTERN
from broker.gateway.node_ports import NodePorts
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.metadata import MetadataRequest
from tests.support.certificates import certificates
from tests.support.fake_upstream import FakeCluster, fake_cluster
from tests.support.proxy_protocol import CLIENT, v1, v2
from tests.support.running_gateway import RunningGateway, running_gateway
from tests.support.wire import OPENED, WireClient

PATTERN = "broker-$(nodeId).kafka.example"


@asynccontextmanager
async def serving(tmp_path: Path, *overrides: str) -> AsyncIterator[tuple[FakeCluster, RunningGateway]]:
    settings = [
        "listeners=SSL://127.0.0.1:0",
        f"ssl.keystore.location={certificates().server.store}",
        f"gateway.sni.pattern={PATTERN}",
        "gateway.port.range=",
        *overrides,
    ]
    async with (
        fake_cluster(3) as cluster,
        running_gateway(tmp_path, cluster.live[0].port, *settings) as gateway,
    ):
        yield cluster, gateway


async def connect(gateway: RunningGateway, name: str | None, header: bytes = b"") -> WireClient:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    stream = await trio.open_tcp_stream("127.0.0.1", gateway.port)
    OPENED.append(stream)
    await stream.send_all(header)
    tls = trio.SSLStream(stream, context, server_hostname=name, https_compatible=True)
    await tls.do_handshake()
    return WireClient(tls, "suite")


@pytest.mark.parametrize(
    ("name", "node_id"),
    [("broker-1.kafka.example", 1), ("BROKER-2.Kafka.Example", 2), ("kafka.example", None)],
)
async def test_a_client_reaches_the_node_that_it_names(
    tmp_path: Path, name: str, node_id: int | None
) -> None:
    async with serving(tmp_path) as (_cluster, gateway):
        client = await connect(gateway, name)
        metadata = await client.ask(MetadataRequest([]), 9)
        assert metadata.controller_id == node_id or node_id is None
        expected = [(each, f"broker-{each}.kafka.example", gateway.port) for each in range(3)]
        assert [(each.node_id, each.host, each.port) for each in metadata.brokers] == expected
        (channel,) = gateway.server.socket_server.channels()
        assert channel.node_id == node_id


@pytest.mark.parametrize("header", [v1(), v2()], ids=["v1", "v2"])
async def test_a_client_behind_a_balancer_names_its_node(tmp_path: Path, header: bytes) -> None:
    balancer = ("proxy.protocol=require", "proxy.protocol.trusted.addresses=127.0.0.1")
    async with serving(tmp_path, *balancer) as (_, gateway):
        client = await connect(gateway, "broker-2.kafka.example", header)
        assert (await client.ask(MetadataRequest([]), 9)).controller_id == 2
        (channel,) = gateway.server.socket_server.channels()
        assert (channel.node_id, channel.address, channel.proxy) == (2, CLIENT[0], "127.0.0.1")


async def test_a_client_without_a_name_bootstraps(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, gateway):
        client = await connect(gateway, None)
        assert (await client.ask(ApiVersionsRequest("suite", "1"), 4)).error_code == 0


async def test_a_node_that_does_not_exist_closes_the_connection(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, gateway):
        client = await connect(gateway, "broker-7.kafka.example")
        await client.send(ApiVersionsRequest("suite", "1"), 4)
        assert await client.is_closed()


@pytest.mark.parametrize(
    ("name", "node_id"),
    [
        ("broker-0.kafka.example", 0),
        ("broker-999999999.kafka.example", 999_999_999),
        ("broker-1000000000.kafka.example", None),
        ("broker-.kafka.example", None),
        ("broker-x.kafka.example", None),
        ("broker-1.kafka.example.org", None),
        ("broker-\u0661.kafka.example", None),
        ("broker-.kafka.exampl", None),
        ("", None),
    ],
)
def test_names(name: str, node_id: int | None) -> None:
    config = GatewayConfig(sni_pattern=PATTERN)
    ports = NodePorts(config, NetworkConfig(), None, lambda: (), lambda: None)  # type: ignore[arg-type]
    assert ports.node_of_name("SSL", name) == node_id


@pytest.mark.parametrize("name", ["", "anything", "broker-1.kafka.example"])
def test_without_a_pattern_no_name_is_a_nodes(name: str) -> None:
    ports = NodePorts(GatewayConfig(), NetworkConfig(), None, lambda: (), lambda: None)  # type: ignore[arg-type]
    assert ports.node_of_name("SSL", name) is None


@pytest.mark.parametrize(
    ("text", "is_allowed"),
    [
        ("", True),
        (PATTERN, True),
        ("$(nodeId)", True),
        ("b$(nodeId)x.example", True),
        ("broker.example", False),
        ("$(nodeId).$(nodeId).example", False),
        ("broker-$(nodeId)..example", False),
        ("bro ker-$(nodeId).example", False),
        ("a" * 63 + ".$(nodeId)", True),
        ("a" * 64 + ".$(nodeId)", False),
        (".".join(["a" * 60] * 3) + ".aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.$(nodeId)", True),
        (".".join(["a" * 60] * 4) + ".$(nodeId)", False),
    ],
)
def test_patterns(text: str, is_allowed: bool) -> None:
    if is_allowed:
        assert SNI_PATTERN.read(text) == text
    else:
        with pytest.raises(ValueError):
            SNI_PATTERN.read(text)

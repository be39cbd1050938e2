"""The upstream cluster as the console of a gateway shows it: exact rows, with fake brokers behind it."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from msgspec.structs import replace
from trio.testing import MockClock

from broker.config.listeners import Address
from broker.controller.rows.upstream import NodeAddress, UpstreamCondition, UpstreamNodeRow, UpstreamRow
from broker.gateway.channel import GatewayChannel
from broker.gateway.upstream_views import NodeTraffic, is_loopback
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.metadata import MetadataRequest
from broker.protocol.messages.produce import ProduceResponse
from tests.support.fake_upstream import CLUSTER_ID, FakeCluster, fake_cluster
from tests.support.running_gateway import RunningGateway, running_gateway
from tests.support.view_rows import connection_rows
from tests.support.wire import WireClient


@asynccontextmanager
async def serving(
    tmp_path: Path, nodes: int, *overrides: str
) -> AsyncIterator[tuple[FakeCluster, RunningGateway]]:
    async with (
        fake_cluster(nodes) as cluster,
        running_gateway(tmp_path, cluster.live[0].port, *overrides) as gateway,
    ):
        yield cluster, gateway


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - nothing announces these conditions
        await trio.sleep(0.01)


def node_row(gateway: RunningGateway, node_id: int) -> UpstreamNodeRow:
    row = gateway.server.views.upstream.row()
    assert row is not None
    return next(node for node in row.nodes if node.node_id == node_id)


def is_connected(gateway: RunningGateway, count: int) -> bool:
    summary = gateway.server.upstream_views.summary()
    return summary.connected == count


async def test_a_cluster_of_two_nodes(tmp_path: Path) -> None:
    async with serving(tmp_path, 2) as (cluster, gateway):
        await until(lambda: is_connected(gateway, 2))
        await until(lambda: gateway.server.node_ports.is_open("PLAINTEXT", 1))
        row = gateway.server.views.upstream.row()
        assert row is not None
        state = gateway.server.cluster.state
        found = replace(row, nodes=(), turn_ms=None)
        assert (found.cluster_id, found.expected_id, found.condition) == (CLUSTER_ID, CLUSTER_ID, "connected")
        assert (found.since_at_ms, found.error, found.controller_id) == (
            state.since_ms,
            "",
            gateway.server.cluster.controller_id,
        )
        assert found.bootstrap_servers == (f"127.0.0.1:{cluster.live[0].port}",)
        assert (found.latencies, found.unwritten) == ((), ())
        states = gateway.server.cluster.node_states
        assert row.nodes == tuple(
            UpstreamNodeRow(
                node_id=node.node_id,
                address=f"127.0.0.1:{node.port}",
                rack="",
                condition=UpstreamCondition.CONNECTED,
                since_at_ms=states[node.node_id].since_ms,
                error="",
                latency_ms=states[node.node_id].latency_ms,
                connections=0,
                bytes_in=0,
                bytes_out=0,
                bytes_in_per_s=0.0,
                bytes_out_per_s=0.0,
                addresses=(
                    NodeAddress("PLAINTEXT", f"127.0.0.1:{gateway.first_port + node.node_id}", is_open=True),
                ),
            )
            for node in cluster.live
        )
        views = gateway.server.views
        assert views.is_gateway
        assert (list(views.shares.gateways()), list(views.shares.shares())) == ([], [])
        overview = gateway.server.views.overview()
        assert overview.upstream == gateway.server.upstream_views.summary()
        assert overview.upstream is not None and overview.upstream.nodes == 2


async def test_connections_and_bytes_of_each_node_stay_when_connections_close(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with serving(tmp_path, 2) as (_cluster, gateway):
        mock_clock.autojump_threshold = 0.05
        await until(lambda: gateway.server.node_ports.is_open("PLAINTEXT", 1))
        direct = await gateway.connect(port=gateway.first_port + 1)
        await direct.ask(ApiVersionsRequest("a", "1"), 3)
        bootstrap = await gateway.connect()
        await bootstrap.ask(MetadataRequest([], False), 9)
        rows = {row.connection_id: row for row in connection_rows(gateway.server.views)}
        assert sorted(row.upstream for row in rows.values()) == sorted(
            row.address for row in (node_row(gateway, row_node(each)) for each in rows.values())
        )
        by_node = [node_row(gateway, node_id) for node_id in (0, 1)]
        assert sum(row.connections for row in by_node) == 2
        assert by_node[1].connections >= 1 and by_node[1].bytes_in > 0 and by_node[1].bytes_out > 0
        assert sum(row.bytes_in for row in by_node) == sum(row.bytes_in for row in rows.values())
        assert sum(row.bytes_out for row in by_node) == sum(row.bytes_out for row in rows.values())
        await trio.aclose_forcefully(direct.stream)
        await trio.aclose_forcefully(bootstrap.stream)
        await until(lambda: not gateway.channels())
        after = [node_row(gateway, node_id) for node_id in (0, 1)]
        assert [row.connections for row in after] == [0, 0]
        assert [(row.bytes_in, row.bytes_out) for row in after] == [
            (row.bytes_in, row.bytes_out) for row in by_node
        ]


async def test_bytes_by_racks_are_those_of_the_connections(tmp_path: Path, mock_clock: MockClock) -> None:
    """Also of connections that have closed, and of a node that has left."""
    racks = "gateway.client.racks=127.0.0.1:a,127.0.0.2:b"
    async with serving(tmp_path, 2, racks) as (cluster, gateway):
        cluster.live[0].rack = "a"
        gateway.server.cluster.refresh()
        mock_clock.autojump_threshold = 0.05
        await until(lambda: gateway.server.node_ports.is_open("PLAINTEXT", 1))
        await until(lambda: gateway.server.cluster.nodes[0].rack == "a")
        clients = []
        for source, node_id in (("127.0.0.1", 0), ("127.0.0.1", 1), ("127.0.0.2", 0), ("127.0.0.3", 0)):
            stream = await trio.open_tcp_stream(
                "127.0.0.1", gateway.first_port + node_id, local_address=source
            )
            client = WireClient(stream, "suite")
            clients.append(client)
            for _ in range(len(clients)):
                await client.ask(ApiVersionsRequest("a", "1"), 3)

        def row() -> UpstreamRow:
            found = gateway.server.views.upstream
            assert found is not None
            return found.row()

        found = row()
        transferred = {
            (channel.rack.name if channel.rack else "", "a" if channel.node_id == 0 else ""): (
                1,
                channel.bytes_in,
                channel.bytes_out,
            )
            for channel in gateway.server.socket_server.channels()
            if isinstance(channel, GatewayChannel)
        }
        assert sorted(transferred) == [("", "a"), ("a", ""), ("a", "a"), ("b", "a")]
        shown = {(each.client_rack, each.node_rack): each for each in found.racks}
        assert list(shown) == sorted(transferred)
        for racks_of, totals in transferred.items():
            each = shown[racks_of]
            assert (each.connections, each.bytes_in, each.bytes_out) == totals
        assert sum(each.bytes_out for each in found.racks) == sum(node.bytes_out for node in found.nodes)
        await trio.sleep(30)
        before = {(each.client_rack, each.node_rack): each for each in row().racks}
        cluster.live.pop(0)
        gateway.server.cluster.refresh()
        await until(lambda: 0 not in gateway.server.cluster.nodes)
        for client in clients:
            await trio.aclose_forcefully(client.stream)
        await until(lambda: not gateway.channels())
        stopped = {"connections": 0, "bytes_in_per_s": 0.0, "bytes_out_per_s": 0.0}
        after = {(each.client_rack, each.node_rack): replace(each, **stopped) for each in row().racks}
        assert after == {racks_of: replace(each, **stopped) for racks_of, each in before.items()}
        assert [each.connections for each in row().racks] == [0] * 4


def row_node(row: Any) -> int:
    assert row.upstream_node is not None
    return int(row.upstream_node)


async def test_bytes_per_second_are_of_the_last_window(tmp_path: Path, mock_clock: MockClock) -> None:
    async with serving(tmp_path, 1) as (_cluster, gateway):
        mock_clock.autojump_threshold = 0.05
        await until(lambda: gateway.server.node_ports.is_open("PLAINTEXT", 0))
        node_row(gateway, 0)
        began = trio.current_time()
        client = await gateway.connect(port=gateway.first_port)
        await client.ask(ApiVersionsRequest("a", "1"), 3)
        sent, received = node_row(gateway, 0).bytes_in, node_row(gateway, 0).bytes_out
        assert sent > 0 and received > 0
        await trio.sleep_until(began + 4)
        row = node_row(gateway, 0)
        passed = trio.current_time() - began
        assert row.bytes_in_per_s == pytest.approx(sent / passed, rel=0.05)
        assert row.bytes_out_per_s == pytest.approx(received / passed, rel=0.05)


async def test_latencies_are_of_forwarded_requests_only(tmp_path: Path) -> None:
    async with serving(tmp_path, 1) as (cluster, gateway):
        cluster.live[0].answers[ApiKey.PRODUCE] = lambda _request: ProduceResponse([])
        client = await gateway.connect()
        await client.ask(ApiVersionsRequest("a", "1"), 3)
        await client.ask(MetadataRequest([], False), 9)
        row = gateway.server.views.upstream.row()
        assert row is not None
        assert [(each.api, each.requests, each.waits) for each in row.latencies] == [
            ("ApiVersions", 1, False),
            ("Metadata", 1, False),
        ]
        assert all(0 < each.p50_ms <= each.p99_ms < 5_000 for each in row.latencies)
        assert row.turn_ms is not None and row.turn_ms > 0


async def test_a_node_beyond_the_range_has_no_address(tmp_path: Path) -> None:
    async with fake_cluster(1) as cluster:
        await cluster.add(8)
        async with running_gateway(tmp_path, cluster.live[0].port) as gateway:
            await until(lambda: gateway.server.node_ports.is_open("PLAINTEXT", 0))
            assert node_row(gateway, 8).addresses == (NodeAddress("PLAINTEXT", "", is_open=False),)
            (within,) = node_row(gateway, 0).addresses
            assert within.is_open


async def test_a_node_that_dies_says_why(tmp_path: Path) -> None:
    async with serving(tmp_path, 2) as (cluster, gateway):
        await until(lambda: is_connected(gateway, 2))
        cluster.live[1].stop()
        await until(lambda: is_connected(gateway, 1))
        row = node_row(gateway, 1)
        assert row.condition is UpstreamCondition.UNREACHABLE
        assert f"127.0.0.1:{cluster.live[1].port}" in row.error
        assert gateway.server.upstream_views.summary().condition is UpstreamCondition.CONNECTED


async def test_a_cluster_that_never_answers(tmp_path: Path) -> None:
    async with fake_cluster(1) as cluster:
        cluster.live[0].stop()
        async with running_gateway(tmp_path, cluster.live[0].port, finds_cluster=False) as gateway:
            await until(lambda: gateway.server.upstream_views.summary().condition.is_failing)
            row = gateway.server.views.upstream.row()
            assert row is not None
            assert (row.cluster_id, row.expected_id, row.nodes, row.controller_id) == ("", "", (), -1)
            assert row.condition is UpstreamCondition.UNREACHABLE
            assert f"127.0.0.1:{cluster.live[0].port}" in row.error


# Advertised addresses


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("128.0.0.1", False),
        ("10.0.0.7", False),
        ("localhost.example", False),
        ("kafka.example", False),
    ],
)
def test_loopback_addresses(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


class Peer:
    """A connection as far as `NodeTraffic` looks at it."""

    def __init__(self, address: str, listener: str = "PLAINTEXT") -> None:
        self.address = address
        self.listener = listener
        self.node_id = None
        self.upstream_address = None


class Nodes:
    """A cluster with one node."""

    def __init__(self) -> None:
        self.nodes = {3: Address("10.0.0.3", 9092)}


async def test_a_client_that_cannot_use_the_advertised_address_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    advertised = {"PLAINTEXT": "localhost", "OUTSIDE": ""}
    traffic = NodeTraffic(Nodes(), advertised.__getitem__)  # type: ignore[arg-type] # only its nodes are read
    with caplog.at_level(logging.INFO):
        traffic.opened(Peer("127.0.0.1"))
        assert caplog.messages == [] and not traffic.remote_connections
        traffic.opened(Peer("10.0.0.7", "OUTSIDE"))
        assert caplog.messages == []
        for _ in range(2):
            traffic.opened(Peer("10.0.0.7"))
    assert caplog.messages == ["clients of other machines cannot use the advertised address"]
    (record,) = caplog.records
    found = {name: getattr(record, name) for name in ("listener", "advertised", "client")}
    assert found == {"listener": "PLAINTEXT", "advertised": "localhost", "client": "10.0.0.7"}
    assert traffic.remote_connections == {"PLAINTEXT": 2, "OUTSIDE": 1}


async def test_listeners_that_advertise_a_loopback_address_are_listed(tmp_path: Path) -> None:
    async with serving(tmp_path, 1) as (_cluster, gateway):
        row = gateway.server.views.upstream.row()
        assert row is not None
        assert [(each.listener, each.address, each.remote_connections) for each in row.loopback] == [
            ("PLAINTEXT", "127.0.0.1", 0)
        ]
    outside = "advertised.listeners=PLAINTEXT://gateway.example:9092"
    async with serving(tmp_path / "outside", 1, outside) as (_cluster, gateway):
        row = gateway.server.views.upstream.row()
        assert row is not None and row.loopback == ()
        assert node_row(gateway, 0).addresses[0].address == f"gateway.example:{gateway.first_port}"

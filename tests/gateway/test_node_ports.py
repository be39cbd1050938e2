"""The ports of upstream nodes: one that is taken is logged once until it is free."""

import socket
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from broker.config.listeners import Address
from broker.controller.rows.upstream import UpstreamCondition
from broker.gateway import node_ports
from broker.gateway.node_ports import NodePorts
from broker.network.supervisor import open_supervisor
from broker.protocol.messages.metadata import MetadataRequest
from tests.gateway.test_renewals import alter
from tests.support.fake_upstream import FakeCluster, fake_cluster
from tests.support.machine_speed import WITHIN_S
from tests.support.running_gateway import RunningGateway, free_ports, running_gateway

TAKEN = "cannot open the port of an upstream node"
LISTENER = "PLAINTEXT"


async def until_open(ports: NodePorts, node_id: int, *, is_open: bool = True) -> None:
    while ports.is_open(LISTENER, node_id) is not is_open:  # noqa: ASYNC110 - nothing announces it
        await trio.sleep(0.01)


async def changed(cluster: FakeCluster, gateway: RunningGateway, node_id: int) -> None:
    """Let a node join or leave, so that the ports are looked at."""
    ports = gateway.server.node_ports
    live = next((each for each in cluster.live if each.node_id == node_id), None)
    if live is None:
        await cluster.add(node_id)
    else:
        cluster.live.remove(live)
    gateway.server.cluster.refresh()
    await until_open(ports, node_id, is_open=live is None)


async def take(port: int) -> socket.socket:
    """Listen at a port when it is free: its socket closes shortly after the port is no longer open."""
    while True:
        try:
            return socket.create_server(("127.0.0.1", port))
        except OSError:
            await trio.sleep(0.01)


async def test_a_taken_port_is_logged_once_until_it_is_free(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        fake_cluster(1) as cluster,
        running_gateway(tmp_path, cluster.live[0].port, "upstream.metadata.max.age.ms=100") as gateway,
    ):
        ports = gateway.server.node_ports
        await until_open(ports, 0)

        def warnings() -> int:
            return sum(TAKEN in each.getMessage() for each in caplog.records)

        client = await gateway.connect()

        async def nodes() -> set[int]:
            return {each.node_id for each in (await client.ask(MetadataRequest([]), 9)).brokers}

        with trio.fail_after(WITHIN_S):
            with await take(gateway.first_port + 1):
                await cluster.add(1)
                for _ in range(2):
                    await changed(cluster, gateway, 2)
                    assert not ports.is_open(LISTENER, 1) and warnings() == 1
                    assert 1 not in await nodes()
            await changed(cluster, gateway, 2)
            assert ports.is_open(LISTENER, 1) and warnings() == 1
            assert await nodes() == {0, 1, 2}
            # It leaves, and its port is taken again: another time.
            await changed(cluster, gateway, 1)
            with await take(gateway.first_port + 1):
                await cluster.add(1)
                await changed(cluster, gateway, 2)
                assert not ports.is_open(LISTENER, 1) and warnings() == 2


async def test_a_node_that_a_response_names_first_is_looked_for_at_once(tmp_path: Path) -> None:
    """A node that comes back leads partitions again before the gateway asks for the nodes the next time: its
    port refused clients for seconds.
    """
    never = "upstream.metadata.max.age.ms=86400000"
    async with (
        fake_cluster(1) as cluster,
        running_gateway(tmp_path, cluster.live[0].port, never) as gateway,
    ):
        ports = gateway.server.node_ports
        with trio.fail_after(WITHIN_S):
            await until_open(ports, 0)
            client = await gateway.connect()
            while gateway.server.cluster.node_states[0].condition is not UpstreamCondition.CONNECTED:  # noqa: ASYNC110 - nothing announces it
                await trio.sleep(0.01)
            await cluster.add(1)
            await wait_all_tasks_blocked()
            assert not ports.is_open(LISTENER, 1)
            await client.ask(MetadataRequest([]), 9)
            await until_open(ports, 1)


async def test_a_listener_at_the_port_of_a_node_is_refused(tmp_path: Path) -> None:
    setting = "listener.name.more.gateway.port.range="
    async with (
        fake_cluster(1) as cluster,
        running_gateway(tmp_path, cluster.live[0].port, setting) as gateway,
    ):
        first = gateway.first_port
        for port, is_free in ((first + 1, False), (first + 7, False), (first + 8, True)):
            settings = {
                "listeners": f"PLAINTEXT://127.0.0.1:0,MORE://127.0.0.1:{port}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,MORE:PLAINTEXT",
            }
            outcome = await alter(gateway.server, settings)
            assert outcome.ok is is_free
            assert is_free or f"the port of the listener MORE, {port}" in str(outcome.message)


async def test_addresses_are_remembered_until_something_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most MAX_ADVERTISED, because upstream brokers can name nodes that do not exist."""
    most = 4
    monkeypatch.setattr(node_ports, "MAX_ADVERTISED", most)
    async with fake_cluster(1) as cluster, running_gateway(tmp_path, cluster.live[0].port) as gateway:
        ports = gateway.server.node_ports
        await until_open(ports, 0)
        ports.update()
        for node_id in range(most + 1):
            first = ports.advertised(LISTENER, node_id)
            assert first is not None and first.port == gateway.first_port + node_id
            assert (ports.advertised(LISTENER, node_id) is first) is (node_id < most)
        assert ports.advertised("OTHER", 0) is None
        first = ports.advertised(LISTENER, 0)
        version = ports.version
        ports.update()
        assert ports.version > version
        assert ports.advertised(LISTENER, 0) is not first


async def test_in_a_drain_ports_stay_open_whose_nodes_have_another_address(tmp_path: Path) -> None:
    async with (
        fake_cluster(3) as cluster,
        running_gateway(tmp_path, cluster.live[0].port, "upstream.metadata.max.age.ms=100") as gateway,
    ):
        ports = gateway.server.node_ports
        with trio.fail_after(WITHIN_S):
            for node_id in range(3):
                await until_open(ports, node_id)
            addresses = {0: Address("other.example", 9_092), 1: ports.planned(LISTENER, 1), 2: None}
            ports.lead_away(lambda _listener, node_id: addresses.get(node_id))
            assert ports.lead_somewhere
            await until_open(ports, 2, is_open=False)
            assert ports.is_open(LISTENER, 0) and not ports.is_open(LISTENER, 1)
            # A node that is new has no clients that know its address here.
            addresses[3] = Address("other.example", 9_093)
            await cluster.add(3)
            gateway.server.cluster.refresh()
            while 3 not in gateway.server.cluster.nodes:  # noqa: ASYNC110 - nothing announces it
                await trio.sleep(0.01)
            await wait_all_tasks_blocked()
            assert ports.is_open(LISTENER, 0) and not ports.is_open(LISTENER, 3)
            addresses[0] = None
            ports.update()
            assert not ports.lead_somewhere
            await until_open(ports, 0, is_open=False)


async def test_a_listener_with_a_new_address_serves_the_ports_of_its_nodes(tmp_path: Path) -> None:
    """The ports kept the processors of the listener before, which serve no new connection."""
    async with fake_cluster(1) as cluster, running_gateway(tmp_path, cluster.live[0].port) as gateway:
        ports = gateway.server.node_ports
        with trio.fail_after(WITHIN_S):
            await until_open(ports, 0)
            moved = free_ports(1)
            assert (await alter(gateway.server, {"listeners": f"PLAINTEXT://127.0.0.1:{moved}"})).ok
            for port in (moved, gateway.first_port):
                client = await gateway.connect(port=port)
                assert (await client.ask(MetadataRequest([]), 9)).brokers


async def test_a_node_that_comes_back_at_once_has_its_port(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The port was still open when it was opened again, and so was none until the nodes changed."""
    async with fake_cluster(2) as cluster, running_gateway(tmp_path, cluster.live[0].port) as gateway:
        ports = gateway.server.node_ports
        with trio.fail_after(WITHIN_S):
            for node_id in range(2):
                await until_open(ports, node_id)
            nodes = ports._nodes
            async with open_supervisor() as tasks:
                for present in (lambda: [0], nodes):
                    ports._nodes = present
                    ports._open_and_close(tasks)
                assert ports.is_open(LISTENER, 1) and TAKEN not in caplog.text
                client = await gateway.connect(port=gateway.first_port + 1)
                assert (await client.ask(MetadataRequest([]), 9)).brokers
                tasks.cancel_scope.cancel()

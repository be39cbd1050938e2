"""A host name of the upstream cluster whose address changes while the gateway runs: in its own /etc/hosts, so
that the system's resolver tells it the change.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support import kafka_tools
from tests.support.acknowledged_load import PARTITIONS, AcknowledgedLoad
from tests.support.broker_process import within
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_cluster import KafkaCluster
from tests.support.own_hosts import needs_own_hosts, under_hosts
from tests.support.real_clients import CLIENTS, Target, create
from tests.support.relay import Relay

NAME: Final = "kafka.test"
HOSTS: Final = ("127.0.0.2", "127.0.0.3")
SETTINGS: Final = ("upstream.metadata.max.age.ms=500", "upstream.socket.connection.setup.timeout.ms=2000")

pytestmark = [*kafka_tools.pytestmark, needs_own_hosts]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KafkaCluster]:
    """A node that advertises a name, with a relay's port."""
    made = KafkaCluster(tmp_path, 1)
    (node,) = made.nodes.values()
    port = node.ports["relay"]
    lines = node.properties.read_text()
    assert f"RELAYED://127.0.0.1:{port}" in lines
    node.properties.write_text(lines.replace(f"RELAYED://127.0.0.1:{port}", f"RELAYED://{NAME}:{port}"))
    with made:
        yield made


@pytest.fixture
def relays(cluster: KafkaCluster) -> Iterator[tuple[Relay, Relay]]:
    """At the first address and, not yet listening, at the second one."""
    ports = cluster.nodes[1].ports
    first, second = (Relay(ports["relay"], ports["RELAYED"], host) for host in HOSTS)
    with first:
        yield first, second
        second.__exit__(None, None, None)


@pytest.fixture
def move(tmp_path: Path) -> Callable[[str | None], None]:
    """Give the name an address, or none."""
    hosts = tmp_path / "hosts"

    def write(address: str | None) -> None:
        # In place: the gateway has this very file.
        hosts.write_text("127.0.0.1 localhost\n" + (f"{address} {NAME}\n" if address else ""))

    write(HOSTS[0])
    return write


@pytest.fixture
def gateway(
    cluster: KafkaCluster, relays: tuple[Relay, Relay], move: object, tmp_path: Path
) -> Iterator[GatewayProcess]:
    directory = tmp_path / "gateway"
    directory.mkdir()
    bootstrap = f"{NAME}:{relays[0].port}"
    under = under_hosts(tmp_path / "hosts")
    with GatewayProcess(directory, bootstrap, *SETTINGS, nodes=1, under=under) as running:
        yield running


def node_of(gateway: GatewayProcess) -> dict[str, Any]:
    (found,) = gateway.ask("GET", "/api/v1/upstream")["nodes"]
    assert found["address"].startswith(NAME)
    return dict(found)


def test_a_name_that_changes_its_address_loses_nothing(
    cluster: KafkaCluster,
    relays: tuple[Relay, Relay],
    gateway: GatewayProcess,
    move: Callable[[str | None], None],
) -> None:
    first, second = relays
    create(Target(cluster.bootstrap()), "moved", PARTITIONS, 1)
    with AcknowledgedLoad(gateway.bootstrap, "moved") as load:
        load.wait_for_more()
        # While the old address works, the connections to it stay; new ones have the new address.
        second.listen()
        move(HOSTS[1])
        assert CLIENTS[0].produce(Target(gateway.bootstrap), "moved", [b"new"], partition=0)
        assert second.accepted > 0
        load.wait_for_more()
        first.refuse()
        load.wait_for_more()
        print(f"longest gap at the move: {load.longest_gap_s:.2f} s")
        # Between two addresses, the name has none.
        move(None)
        second.refuse()
        within(10, lambda: node_of(gateway)["condition"] == "unreachable", "it is unreachable")
        assert NAME in node_of(gateway)["error"]
        move(HOSTS[0])
        first.listen()
        within(10, lambda: node_of(gateway)["condition"] == "connected", "it is connected again")
        load.wait_for_more()
    load.check(cluster.bootstrap())
    lines = gateway.log_lines
    lost = [line for line in lines if "cannot reach an upstream node" in line]
    assert any(NAME in line for line in lost), lines
    assert [line for line in lines if "an upstream node is back" in line]

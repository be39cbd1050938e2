"""Real clients on one TLS port for all nodes of a real cluster: they name the node in their handshakes, and
check the gateway's certificate for its name.
"""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support import kafka_tools
from tests.support.certificates import certificates
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_cluster import KafkaCluster
from tests.support.own_hosts import needs_own_hosts, under_hosts
from tests.support.real_clients import CLIENTS, Client

pytestmark = [*kafka_tools.pytestmark, needs_own_hosts]

PATTERN: Final = "broker-$(nodeId).kafka.example"
NAMES: Final = ("gateway.kafka.example", *(f"broker-{node_id}.kafka.example" for node_id in (1, 2, 3)))
PARTITIONS: Final = 6
"""Two for each node to lead: a connection to another node than the leader gets NOT_LEADER_OR_FOLLOWER."""


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_client_reaches_every_node_by_its_name(
    cluster: KafkaCluster, tmp_path: Path, client: Client
) -> None:
    known = certificates()
    server = known.authority.sign(f"wildcard-{client.name}", "/CN=gateway", names=["*.kafka.example"])
    hosts = tmp_path / "hosts"
    hosts.write_text("".join(f"127.0.0.1 {name}\n" for name in ("localhost", *NAMES)))
    gateway = GatewayProcess(
        tmp_path,
        cluster.bootstrap(),
        "gateway.port.range=",
        f"gateway.sni.pattern={PATTERN}",
        f"ssl.keystore.location={server.store}",
        listener="SSL",
        nodes=0,
    )
    port = gateway.bootstrap.rpartition(":")[2]
    with gateway:
        asked = [client.name, f"{NAMES[0]}:{port}", "SSL", str(known.authority.certificate)]
        done = subprocess.run(
            [
                *under_hosts(hosts),
                sys.executable,
                "-m",
                "tests.support.round_trip",
                *asked,
                f"named-{client.name}",
                str(PARTITIONS),
            ],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr + "\n".join(gateway.log_lines[-20:])
        nodes = gateway.ask("GET", "/api/v1/upstream")["nodes"]
        assert {node["node_id"] for node in nodes if node["bytes_in"] > 0} == {1, 2, 3}, nodes

"""Real balancers in front of a gateway, at its bootstrap port and at the ports of its nodes. Upstream is a
broker of ours: this is about what is before the gateway.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from tests.endtoend.test_balancers import TIMEOUT, VALUES
from tests.support.balancers import HOST, SERVER, SOURCE, WAYS, balancer
from tests.support.broker_process import BrokerProcess
from tests.support.certificates import certificates
from tests.support.gateway_process import GatewayProcess

pytestmark = pytest.mark.endtoend


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a broker."""
    with BrokerProcess(tmp_path_factory.mktemp("upstream")) as running:
        yield running.plain


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
@pytest.mark.parametrize("way", WAYS)
def test_clients_of_a_gateway_have_their_own_address(
    tmp_path: Path, upstream: str, way: str, protocol: str
) -> None:
    known = certificates()
    gateway = GatewayProcess(
        tmp_path,
        upstream,
        f"ssl.keystore.location={known.server.store}",
        "ssl.client.auth=none",
        "proxy.protocol=require",
        f"proxy.protocol.trusted.addresses={SOURCE}",
        listener=protocol,
        nodes=1,
    )
    gateway.settings += (f"advertised.listeners={protocol}://{HOST}:{gateway.bootstrap.rpartition(':')[2]}",)
    addresses = [gateway.bootstrap, *gateway.addresses.values()]
    ports = [int(each.rpartition(":")[2]) for each in addresses]
    with gateway, balancer(tmp_path / "balancer", way, ports):
        producer = Producer(
            {
                "bootstrap.servers": f"{HOST}:{ports[0]}",
                "client.id": "behind",
                "security.protocol": protocol,
                "ssl.ca.location": str(known.authority.certificate),
                "ssl.endpoint.identification.algorithm": "none",
            }
        )
        failures: list[KafkaError] = []
        for value in VALUES:
            producer.produce("first", value, on_delivery=lambda error, _: error and failures.append(error))
        assert producer.flush(TIMEOUT) == 0 and failures == []
        rows = gateway.ask("GET", "/api/v1/connections?search=behind")["items"]
        assert {(row["address"], row["proxy"]) for row in rows} == {(SERVER, SOURCE)}
        assert any(row["upstream_node"] == 1 for row in rows)

"""Real balancers in front of a broker and its console: HAProxy with both versions of the PROXY protocol,
nginx, unmodified clients with TLS and without, and HAProxy as an HTTP proxy.
"""

import json
import urllib.request
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from tests.support.balancers import HOST, SERVER, SOURCE, WAYS, balancer
from tests.support.broker_process import TOKEN, BrokerProcess, ask_console
from tests.support.certificates import certificates
from tests.support.running_gateway import free_ports

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas in a way that is going
    from kafka import KafkaConsumer, KafkaProducer

pytestmark = [
    pytest.mark.endtoend,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Exception ignored in. <s:pytest.PytestUnraisableExceptionWarning"),
]

TIMEOUT: Final = 20
VALUES: Final = [b"%d" % number * 100 for number in range(200)]
REJECTED: Final = "kafka_server_socket_server_metrics_rejected_connections_total"


@contextmanager
def behind(directory: Path, way: str, *overrides: str) -> Iterator[tuple[BrokerProcess, dict[str, str]]]:
    """A broker behind a balancer, and the balancer's addresses by protocol."""
    first = free_ports(3)
    ports = {"PLAINTEXT": first, "SSL": first + 1}
    known = certificates()
    settings = [
        "listeners=" + ",".join(f"{name}://{SERVER}:{port}" for name, port in ports.items()),
        "advertised.listeners=" + ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items()),
        f"console.listener={SERVER}:{first + 2}",
        f"ssl.keystore.location={known.server.store}",
        "ssl.client.auth=none",
        "proxy.protocol=require",
        f"proxy.protocol.trusted.addresses={SOURCE}",
        "group.initial.rebalance.delay.ms=0",
        *overrides,
    ]
    with (
        BrokerProcess(directory / "data", *settings) as broker,
        balancer(directory / "balancer", way, list(ports.values())),
    ):
        broker.console = f"{SERVER}:{first + 2}"
        yield broker, {name: f"{HOST}:{port}" for name, port in ports.items()}


def rejected(broker: BrokerProcess) -> list[str]:
    request = urllib.request.Request(
        f"http://{broker.console}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT) as page:
        lines = page.read().decode().splitlines()
    return [line for line in lines if line.startswith(REJECTED)]


def rows(broker: BrokerProcess, client_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = broker.ask("GET", f"/api/v1/connections?search={client_id}")["items"]
    return found


def by_librdkafka(broker: BrokerProcess, address: str, protocol: str) -> list[dict[str, Any]]:
    """Write and read, and return the rows of the open connections."""
    common = {
        "bootstrap.servers": address,
        "client.id": "librdkafka",
        "security.protocol": protocol,
        "ssl.ca.location": str(certificates().authority.certificate),
        "ssl.endpoint.identification.algorithm": "none",
    }
    failures: list[KafkaError] = []
    topic = f"librdkafka-{protocol}"
    producer = Producer(common)
    for value in VALUES:
        producer.produce(topic, value, on_delivery=lambda error, _: error and failures.append(error))
    assert producer.flush(TIMEOUT) == 0 and failures == []
    consumer = Consumer({**common, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    read: list[bytes] = []
    while len(read) < len(VALUES):
        message = consumer.poll(TIMEOUT)
        assert message is not None and message.error() is None, message and message.error()
        read.append(message.value())
    found = rows(broker, "librdkafka")
    consumer.close()
    assert read == VALUES
    return found


def by_kafka_python(broker: BrokerProcess, address: str, protocol: str) -> list[dict[str, Any]]:
    common: dict[str, Any] = {
        "bootstrap_servers": address,
        "client_id": "kafka-python",
        "security_protocol": protocol,
        "ssl_cafile": str(certificates().authority.certificate),
        "ssl_check_hostname": False,
    }
    topic = f"kafka-python-{protocol}"
    producer = KafkaProducer(**common)
    futures = [producer.send(topic, value) for value in VALUES]
    assert [each.get(TIMEOUT).offset for each in futures] == list(range(len(VALUES)))
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", **common)
    read = [next(consumer).value for _ in VALUES]
    found = rows(broker, "kafka-python")
    consumer.close()
    producer.close()
    assert read == VALUES
    return found


@pytest.mark.parametrize("way", WAYS)
def test_clients_behind_a_balancer_have_their_own_address(tmp_path: Path, way: str) -> None:
    with behind(tmp_path, way) as (broker, addresses):
        for protocol, address in addresses.items():
            for client in (by_librdkafka, by_kafka_python):
                found = client(broker, address, protocol)
                assert found != []
                assert {(row["address"], row["proxy"]) for row in found} == {(SERVER, SOURCE)}
                assert all((row["tls"] != "") is (protocol == "SSL") for row in found)
        assert rejected(broker) == [], "neither clients nor health checks"


def test_a_limit_is_that_of_the_client_and_not_of_the_balancer(tmp_path: Path) -> None:
    """Health checks every 50 ms would exceed the rate of their address."""
    with behind(
        tmp_path, "haproxy v2", "max.connections.per.ip=0", f"max.connections.per.ip.overrides={SERVER}:9"
    ) as (
        broker,
        addresses,
    ):
        body = [{"entity": {"ip": SOURCE}, "ops": [{"key": "connection_creation_rate", "value": 1}]}]
        broker.ask("PATCH", "/api/v1/client-quotas", {"entries": body})
        assert by_librdkafka(broker, addresses["PLAINTEXT"], "PLAINTEXT") != []
        assert rejected(broker) == []


def test_whoever_comes_past_the_balancer_is_closed(tmp_path: Path) -> None:
    with behind(tmp_path, "haproxy v1") as (broker, addresses):
        port = addresses["PLAINTEXT"].rpartition(":")[2]
        failures: list[KafkaError] = []
        past = Producer({"bootstrap.servers": f"{SERVER}:{port}", "error_cb": failures.append})
        while not failures:
            past.poll(TIMEOUT)
        (line,) = rejected(broker)
        assert 'rule="proxy.protocol.untrusted"' in line


@pytest.mark.parametrize(
    ("way", "http"), [("haproxy v2", False), ("haproxy v1", False), ("haproxy v1", True)]
)
def test_the_audit_trail_of_a_console_behind_a_balancer_has_the_browsers_address(
    tmp_path: Path, way: str, http: bool
) -> None:
    port = free_ports(1)
    key = "console.forwarded.for.trusted.addresses" if http else "console.proxy.protocol.trusted.addresses"
    settings = [
        f"console.listener={SERVER}:{port}",
        f"console.allowed.hosts={HOST}",
        f"console.proxy.protocol={'none' if http else 'accept'}",
        f"{key}={SOURCE}",
    ]
    with (
        BrokerProcess(tmp_path / "data", *settings) as broker,
        balancer(tmp_path / "balancer", way, [port], http=http),
    ):
        body = [{"entity": {"user": "alice"}, "ops": [{"key": "producer_byte_rate", "value": 1}]}]
        ask_console(f"{HOST}:{port}", "PATCH", "/api/v1/client-quotas", {"entries": body})
        (change,) = broker.ask("GET", "/api/v1/audit?search=alice")["items"]
        assert change["address"] == SERVER, json.dumps(change)

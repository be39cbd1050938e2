"""Real clients push their metrics without being told to: confluent-kafka (librdkafka) and Kafka's Java
client.
"""

import shutil
import socket
import subprocess
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from benchmarks.install import KAFKA_LIBS
from broker.control.commands import OpType, ResourceType
from broker.protocol import codec
from broker.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.broker_process import BrokerProcess, within
from tests.support.prometheus import parse

pytestmark = pytest.mark.endtoend

INTERVAL_MS = 300
CONNECTIONS = "org_apache_kafka_producer_connection_creation_total"
PUSHES = "kafka_server_client_metrics_plugin_export_count"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("data")) as process:
        subscribe(process, metrics="*", interval_ms=str(INTERVAL_MS))
        yield process


def subscribe(broker: BrokerProcess, **configs: str) -> None:
    ops = [AlterableConfig(key.replace("_", "."), OpType.SET, text) for key, text in configs.items()]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(ResourceType.CLIENT_METRICS, "s", ops)])
    frame = b"".join(map(bytes, codec.encode_request(request.API_KEY, 1)(request, 1, "test")))
    host, _, port = broker.plain.partition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(frame)
        assert connection.recv(4)


def shown(broker: BrokerProcess, name: str, client_id: str) -> list[float]:
    """The figures of this name that a client has."""
    family = parse(broker.ask("GET", "/metrics")).get(name)
    if family is None:
        return []
    return [value for (_, labels), value in family.samples.items() if ("client_id", client_id) in labels]


def pushes(broker: BrokerProcess) -> float:
    family = parse(broker.ask("GET", "/metrics"))[PUSHES]
    return sum(family.samples.values())


def test_librdkafka_pushes_until_it_is_closed_and_is_forgotten_then(broker: BrokerProcess) -> None:
    producer = Producer({"bootstrap.servers": broker.plain, "client.id": "rd"})
    producer.produce("t", b"x")
    assert producer.flush(10) == 0
    within(10, lambda: shown(broker, CONNECTIONS, "rd"), "the first push")
    before = pushes(broker)
    within(10, lambda: pushes(broker) >= before + 2, "two more")
    del producer
    within(10, lambda: not shown(broker, CONNECTIONS, "rd"), "the end of the instance")


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("java") is None or not KAFKA_LIBS.exists(),
    reason="needs Java and `python -m benchmarks.install kafka`",
)
def test_the_java_client_pushes_while_it_runs(broker: BrokerProcess) -> None:
    command = [
        *("java", "-Xmx256m", "-cp", f"{KAFKA_LIBS}/*", "org.apache.kafka.tools.ProducerPerformance"),
        *("--topic", "t", "--num-records", "200", "--record-size", "10", "--throughput", "40"),
        *("--producer-props", f"bootstrap.servers={broker.plain}", "client.id=java"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as java:
        within(20, lambda: shown(broker, CONNECTIONS, "java") == [2.0], "the first push")
        said, _ = java.communicate(timeout=60)
    assert java.returncode == 0 and "telemetry" not in said.lower(), said
    within(10, lambda: not shown(broker, CONNECTIONS, "java"), "the end of the instance")

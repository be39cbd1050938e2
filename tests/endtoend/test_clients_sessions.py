"""Clients whose logins end after two seconds (KIP-368) go on over the same connection."""

import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest

from tests.support import kafka_tools
from tests.support.broker_process import LOGIN_MODULE, USERS, BrokerProcess
from tests.support.prometheus import parse

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas in a way that is going
    import kafka

pytestmark = pytest.mark.endtoend

FOR_S = 5.0
LIFETIME_MS = 2_000
METRICS = "kafka_server_socket_server_metrics"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    limit = f"connections.max.reauth.ms={LIFETIME_MS}"
    with BrokerProcess(tmp_path_factory.mktemp("data"), limit) as process:
        yield process


def by_confluent(address: str) -> int:
    settings = {
        "bootstrap.servers": address,
        "client.id": "confluent",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": USERS["alice"],
        "enable.metrics.push": False,
    }
    failures: list[object] = []
    producer = confluent_kafka.Producer(settings)
    sent, until = 0, time.monotonic() + FOR_S
    while time.monotonic() < until:
        producer.produce("t", b"value", on_delivery=lambda error, _: failures.append(error))
        sent += 1
        producer.poll(0.1)
    assert producer.flush(10) == 0
    assert set(failures) == {None}
    return sent


def by_kafka_python(address: str) -> int:
    producer = kafka.KafkaProducer(
        bootstrap_servers=address,
        client_id="kafka-python",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username="alice",
        sasl_plain_password=USERS["alice"],
    )
    sent, until = 0, time.monotonic() + FOR_S
    try:
        while time.monotonic() < until:
            producer.send("t", b"value").get(10)
            sent += 1
            time.sleep(0.1)
    finally:
        producer.close(5)
    return sent


def figures(broker: BrokerProcess) -> tuple[float, float]:
    """Logins that were renewed, and connections that were closed because theirs had ended."""
    families = parse(broker.ask("GET", "/metrics"))
    renewed = families[f"{METRICS}_successful_reauthentication_total"].samples.values()
    killed = families[f"{METRICS}_expired_connections_killed_count"].samples.values()
    return sum(renewed), sum(killed)


def by_java(address: str, directory: Path) -> None:
    settings = {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{LOGIN_MODULE} username="alice" password="{USERS["alice"]}";',
    }
    file = directory / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    output = kafka_tools.run(
        *(kafka_tools.PRODUCER, "--topic", "t", "--num-records", "600", "--record-size", "100"),
        *("--throughput", "100", "--producer.config", str(file)),
    )
    assert "600 records sent" in output


@pytest.mark.parametrize("send", [by_confluent, by_kafka_python])
def test_a_client_renews_its_login_and_loses_no_record(
    broker: BrokerProcess, send: Callable[[str], int]
) -> None:
    before = figures(broker)
    assert send(broker.sasl) > 10
    renewed, killed = (now - then for now, then in zip(figures(broker), before, strict=True))
    assert (renewed >= 2, killed) == (True, 0)


@kafka_tools.pytestmark[1]
@kafka_tools.pytestmark[2]
def test_kafkas_own_client_does_so_too(broker: BrokerProcess, tmp_path: Path) -> None:
    before = figures(broker)
    by_java(broker.sasl, tmp_path)
    renewed, killed = (now - then for now, then in zip(figures(broker), before, strict=True))
    assert (renewed >= 2, killed) == (True, 0)

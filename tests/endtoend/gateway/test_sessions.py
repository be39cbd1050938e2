"""Kafka ends the logins of a gateway that logs its clients in itself: they notice nothing. (KIP-368)"""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest

from tests.support import kafka_tools
from tests.support.gateway_process import GatewayProcess, upstream_security
from tests.support.kafka_cluster import KafkaCluster
from tests.support.real_clients import CLIENTS, Target, create

pytestmark = kafka_tools.pytestmark

LIFETIME_MS = 5_000
FOR_S = 3.2 * LIFETIME_MS / 1_000


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    limit = f"connections.max.reauth.ms={LIFETIME_MS}"
    with KafkaCluster(tmp_path_factory.mktemp("short"), 1, limit) as running:
        yield running


def by_confluent(address: str, topic: str) -> tuple[int, int]:
    """Records that were acknowledged, and connections that were opened."""
    connects = 0

    def count(text: str) -> None:
        nonlocal connects
        connects = sum(each["connects"] for each in json.loads(text)["brokers"].values())

    settings = {
        "bootstrap.servers": address,
        "acks": "all",
        "retries": 0,
        "statistics.interval.ms": 200,
        "stats_cb": count,
        "enable.metrics.push": False,
    }
    failures: list[object] = []
    producer = confluent_kafka.Producer(settings)
    sent, until = 0, time.monotonic() + FOR_S
    while time.monotonic() < until:
        producer.produce(topic, b"%d" % sent, on_delivery=lambda error, _: failures.append(error))
        sent += 1
        producer.poll(0.02)
    assert producer.flush(10) == 0
    assert set(failures) == {None} and len(failures) == sent
    producer.poll(0.5)
    return sent, connects


def by_kafka_python(address: str, topic: str) -> tuple[int, int]:
    import kafka

    producer = kafka.KafkaProducer(bootstrap_servers=address, acks="all", retries=0)
    sent, until = 0, time.monotonic() + FOR_S
    try:
        while time.monotonic() < until:
            producer.send(topic, b"%d" % sent).get(10)
            sent += 1
            time.sleep(0.02)
        created = producer.metrics()["producer-metrics"]["connection-count"]
    finally:
        producer.close(5)
    return sent, int(created)


@pytest.mark.parametrize("send", [by_confluent, by_kafka_python])
def test_a_producer_goes_on_over_three_lifetimes_on_the_same_connections(
    short: KafkaCluster, tmp_path: Path, send: Callable[[str, str], tuple[int, int]]
) -> None:
    topic = f"sessions-{send.__name__}"
    settings = [
        "gateway.authentication=gateway",
        "upstream.security.protocol=SASL_PLAINTEXT",
        *upstream_security("SASL_PLAINTEXT"),
        "logging.level=debug",
    ]
    with GatewayProcess(tmp_path, short.bootstrap("SASL_PLAINTEXT"), *settings, nodes=1) as gateway:
        target = Target(gateway.bootstrap, "PLAINTEXT")
        create(target, topic, replicas=1)
        sent, connections = send(gateway.bootstrap, topic)
        assert sent > 100 and connections <= 2
        assert CLIENTS[0].read(target, topic, sent) == [b"%d" % number for number in range(sent)]
        closed = [
            line for line in gateway.log_lines if "connection closed" in line or " disconnected" in line
        ]
        assert not [line for line in closed if "upstream" in line]

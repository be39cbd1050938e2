"""How well a gateway holds real producers and consumers of a real cluster: within 3 % of their limit, by
client id and by the name that Kafka accepted; with quota.scope=broker, of their limit at each broker.
"""

import json
import logging
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support import kafka_tools
from tests.support.broker_process import within
from tests.support.gateway_process import GatewayProcess, upstream_security
from tests.support.kafka_cluster import KafkaCluster
from tests.support.real_clients import Target, create
from tests.support.real_producers import Aiokafka, KafkaPython, Librdkafka, RealProducer

pytestmark = kafka_tools.pytestmark

LIMIT: Final = 1_000_000
SECONDS: Final = 30
SMALLEST_RESPONSE: Final = 100_000
"""Fewer bytes than a response with records."""

SPREAD: Final = "spread"
"""A topic with a partition on each node."""


@pytest.fixture(autouse=True)
def _quiet() -> None:
    logging.getLogger("kafka").setLevel(logging.ERROR)  # it warns of every throttle


@pytest.fixture(params=["PLAINTEXT", "SASL_PLAINTEXT"])
def gateway(
    request: pytest.FixtureRequest, cluster: KafkaCluster, tmp_path: Path
) -> Iterator[GatewayProcess]:
    listener = request.param
    settings = (f"upstream.security.protocol={listener}", *upstream_security(listener))
    with GatewayProcess(tmp_path, cluster.bootstrap(listener), *settings, listener=listener) as running:
        yield running


def set_quota(gateway: GatewayProcess, entity: dict[str, str], key: str, limit: int) -> None:
    op = {"key": key, "value": limit}
    gateway.ask("PATCH", "/api/v1/client-quotas", {"entries": [{"entity": entity, "ops": [op]}]})


@pytest.mark.parametrize("kind", [Librdkafka, KafkaPython, Aiokafka])
def test_a_producer_averages_its_limit(gateway: GatewayProcess, kind: type[RealProducer]) -> None:
    """By its client id; behind SASL by its user, whose login the gateway only observes."""
    user = None if gateway.listener == "PLAINTEXT" else "alice"
    set_quota(gateway, {"user": user} if user else {"client-id": "held"}, "producer_byte_rate", LIMIT)
    with kind(gateway.bootstrap, "held", user) as producer:
        within(20, lambda: producer.delivered, "the first record")
        share = (producer.delivered + SECONDS * producer.rate(SECONDS)) / SECONDS / LIMIT
    print(f"{kind.__name__}, {gateway.listener}: {share:.4f} of its limit over {SECONDS} s")
    assert share == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize("gateway", ["PLAINTEXT"], indirect=True)
def test_a_consumer_averages_its_limit(cluster: KafkaCluster, gateway: GatewayProcess) -> None:
    topic = f"held-{time.monotonic_ns()}"
    straight = Target(cluster.bootstrap())
    create(straight, topic)
    writer = Producer({"bootstrap.servers": cluster.bootstrap(), "batch.size": 100_000})
    for _ in range(6_000):
        writer.produce(topic, bytes(10_000))
    assert writer.flush(30) == 0
    set_quota(gateway, {"client-id": "reader"}, "consumer_byte_rate", LIMIT)
    settings: dict[str, Any] = {
        "bootstrap.servers": gateway.bootstrap,
        "client.id": "reader",
        "group.id": topic,
        "message.max.bytes": 200_000,
        "fetch.max.bytes": 200_000,
        "max.partition.fetch.bytes": 200_000,
    }
    # Bytes as they arrive: Kafka ends a response within a batch, and the consumer fetches that batch again.
    received: list[tuple[int, int]] = []

    def note(text: str) -> None:
        statistics = json.loads(text)
        received.append((statistics["ts"], statistics["rx_bytes"]))

    reader = Consumer(settings | {"statistics.interval.ms": 100, "stats_cb": note})
    within(20, lambda: reader.poll(0.1) is None and received, "statistics")
    reader.assign([TopicPartition(topic, 0, 0)])
    assert reader.poll(20) is not None
    began = time.monotonic()
    while time.monotonic() < began + SECONDS:
        reader.consume(100, 0.1)
    reader.close()
    # From the first record on: what Kafka's formula allows at once belongs to the average.
    first_us, before = [each for each in received if each[1] < SMALLEST_RESPONSE][-1]
    last_us, after = received[-1]
    share = (after - before) / ((last_us - first_us) / 1_000_000) / LIMIT
    print(f"consumer: {share:.4f} of its limit over {SECONDS} s")
    assert share == pytest.approx(1, abs=0.03)


def spread_topic(cluster: KafkaCluster) -> dict[int, int]:
    """Create SPREAD with a partition on each node. Return the nodes by partition."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap()})
    wanted = NewTopic(SPREAD, 3, replica_assignment=[[1], [2], [3]])
    admin.create_topics([wanted])[SPREAD].result(20)
    within(20, lambda: len(leaders_of(admin)) == 3, "leaders")
    return leaders_of(admin)


def leaders_of(admin: AdminClient) -> dict[int, int]:
    partitions = admin.list_topics(SPREAD, timeout=20).topics[SPREAD].partitions
    return {index: each.leader for index, each in partitions.items() if each.leader >= 0}


def test_with_scope_broker_a_producer_has_its_limit_at_each_broker(
    cluster: KafkaCluster, tmp_path: Path
) -> None:
    """One client that always wants more, with as many requests to each of the three nodes as it may have."""
    assert spread_topic(cluster) == {0: 1, 1: 2, 2: 3}
    with GatewayProcess(tmp_path, cluster.bootstrap(), "quota.scope=broker") as gateway:
        set_quota(gateway, {"client-id": "everywhere"}, "producer_byte_rate", LIMIT)
        delivered: Counter[int] = Counter()
        in_hand: Counter[int] = Counter()

        def reported(error: Any, message: Any) -> None:
            assert error is None
            in_hand[message.partition()] -= 1
            delivered[message.partition()] += len(message.value())

        settings = {
            "bootstrap.servers": gateway.bootstrap,
            "client.id": "everywhere",
            "log_level": 2,
            "batch.size": 100_000,
            "message.timeout.ms": 0,
        }
        producer = Producer(settings)
        began, ends = 0.0, float("inf")
        shown: set[int] = set()
        while time.monotonic() < ends:
            for partition in range(3):
                for _ in range(min(60 - in_hand[partition], 10)):
                    producer.produce(SPREAD, bytes(10_000), partition=partition, on_delivery=reported)
                    in_hand[partition] += 1
            producer.poll(0.02)
            if delivered and not began:
                began = time.monotonic()
                ends = began + SECONDS
            if len(shown) < 3:
                rows = gateway.ask("GET", "/api/v1/throttled-channels")["items"]
                shown |= {row["upstream_node"] for row in rows}
        took = time.monotonic() - began
        producer.purge()
    shares = [delivered[partition] / took / LIMIT for partition in range(3)]
    print(f"three nodes: {sum(shares):.4f} limits over {SECONDS} s, {[f'{each:.4f}' for each in shares]}")
    assert sum(shares) == pytest.approx(3, rel=0.03)
    assert shares == pytest.approx([1, 1, 1], abs=0.03)
    assert shown == {1, 2, 3}

"""The event topics of a gateway are topics of the cluster, where any Kafka client reads them."""

import json
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support import kafka_tools
from tests.support.broker_process import within
from tests.support.gateway_process import GatewayProcess, set_rate
from tests.support.greedy_load import GreedyLoad
from tests.support.kafka_cluster import KafkaCluster

pytestmark = kafka_tools.pytestmark

CLIENT_ID = "watched by all"
RATE = 100_000


def events(cluster: KafkaCluster, topic: str) -> list[tuple[bytes, dict[str, Any]]]:
    """Every record of the topic, read at the brokers: key and event."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap()})
    partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap(), "group.id": "nobody"})
    places = [TopicPartition(topic, each, 0) for each in partitions]
    total = sum(consumer.get_watermark_offsets(each, timeout=10)[1] for each in places)
    consumer.assign(places)
    found = []
    while len(found) < total:
        for message in consumer.consume(1_000, timeout=1.0):
            assert message.error() is None, message.error()
            found.append((message.key() or b"", json.loads(message.value() or b"{}")))
    consumer.close()
    return found


def test_throttles_and_requests_are_in_topics_of_the_cluster(cluster: KafkaCluster, tmp_path: Path) -> None:
    with GatewayProcess(tmp_path, cluster.bootstrap()) as gateway:
        set_rate(gateway, CLIENT_ID, RATE)
        with GreedyLoad("watched", RATE, 1, CLIENT_ID) as load:
            load.start(0, gateway.bootstrap)
            within(30, lambda: load.delivered[0] > 12 * RATE, "records beyond the limit")
        for topic in ("__weir_throttles", "__weir_requests"):

            def theirs(topic: str = topic) -> list[tuple[bytes, dict[str, Any]]]:
                return [each for each in events(cluster, topic) if each[1].get("client_id") == CLIENT_ID]

            found = within(20, theirs, f"events of {topic}")
            assert {key for key, _ in found} == {f"ANONYMOUS/{CLIENT_ID}".encode()}

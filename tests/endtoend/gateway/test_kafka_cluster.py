"""The cluster behind the gateway does what the tests of the gateway rely on."""

from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support import kafka_tools
from tests.support.broker_process import USERS, within
from tests.support.certificates import certificates
from tests.support.kafka_cluster import KafkaCluster, KafkaNode

pytestmark = kafka_tools.pytestmark

TIMEOUT: Final = 30


def create(cluster: KafkaCluster, topic: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap()})
    try:
        admin.create_topics([NewTopic(topic, partitions, cluster.count)])[topic].result(TIMEOUT)
    except KafkaException as error:
        # librdkafka asks again after a timeout, when the first request has made the topic.
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
    cluster.wait_in_sync(topic)


def produce(topic: str, value: bytes, settings: dict[str, Any]) -> int:
    offsets: list[int | None] = []

    def delivered(error: KafkaError | None, message: Any) -> None:
        assert error is None, error
        offsets.append(message.offset())

    producer = Producer(settings)
    producer.produce(topic, value, partition=0, on_delivery=delivered)
    assert producer.flush(TIMEOUT) == 0
    (offset,) = offsets
    assert offset is not None
    return offset


def login(mechanism: str) -> dict[str, Any]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": USERS["alice"],
    }


def test_every_listener_serves(cluster: KafkaCluster) -> None:
    create(cluster, "listeners")
    ways: list[tuple[str, dict[str, Any]]] = [
        ("PLAINTEXT", {}),
        *(("SASL_PLAINTEXT", login(each)) for each in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")),
        (
            "SSL",
            {"security.protocol": "SSL", "ssl.ca.location": str(certificates().authority.certificate)},
        ),
    ]
    found = [
        produce("listeners", b"x", {"bootstrap.servers": cluster.bootstrap(listener), **settings})
        for listener, settings in ways
    ]
    assert found == list(range(len(ways)))


def test_the_relayed_listener_advertises_the_ports_of_relays(cluster: KafkaCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap("RELAYED"), "log_level": 0})
    brokers = admin.list_topics(timeout=TIMEOUT).brokers
    ports = {node_id: broker.port for node_id, broker in brokers.items()}
    assert ports == {node_id: node.ports["relay"] for node_id, node in cluster.nodes.items()}


def test_a_node_that_stops_hands_over_and_one_that_is_killed_comes_back(cluster: KafkaCluster) -> None:
    create(cluster, "moving")
    settings = {"bootstrap.servers": cluster.bootstrap(), "acks": "all", "log_level": 0}
    assert produce("moving", b"before", settings) == 0
    leader = cluster.leader_of("moving")
    leader.stop()
    assert not leader.is_running
    assert cluster.leader_of("moving") is not leader
    assert produce("moving", b"between", settings) == 1
    leader.start()
    cluster.wait()
    cluster.wait_in_sync("moving")
    second = cluster.leader_of("moving")
    second.kill()
    assert produce("moving", b"after", settings) == 2
    second.start()
    cluster.wait()
    cluster.wait_in_sync("moving")
    consumer = Consumer({**settings, "group.id": "moving"})
    consumer.assign([TopicPartition("moving", 0, 0)])
    messages = [consumer.poll(TIMEOUT) for _ in range(3)]
    consumer.close()
    assert [message and message.value() for message in messages] == [b"before", b"between", b"after"]


def test_a_node_that_ends_by_itself_fails_the_test(tmp_path: Path) -> None:
    broken = KafkaNode(9, tmp_path, {})
    broken.properties.write_text("process.roles=neither\n")
    broken.start()
    within(30, lambda: not broken.is_running, "it has ended")
    with pytest.raises(AssertionError, match="node 9 has ended"):
        broken.check()
    broken.kill()

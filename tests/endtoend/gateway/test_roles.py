"""What a viewer and an editor change in a Kafka cluster through a gateway that logs its clients in."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.support import kafka_tools
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_cluster import KafkaCluster
from tests.support.real_clients import CLIENTS, Target, create

pytestmark = kafka_tools.pytestmark

TOPIC: Final = "theirs"
DENIED: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}
ANSWERED_WITHIN_S: Final = 30.0


def configs(kind: ResourceType, name: str, key: str, value: str) -> list[ConfigResource]:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    return [ConfigResource(kind, name, incremental_configs=[entry])]


ACL: Final = AclBinding(
    ResourceType.TOPIC,
    TOPIC,
    ResourcePatternType.LITERAL,
    "User:mallory",
    "*",
    AclOperation.ALL,
    AclPermissionType.ALLOW,
)

Change = Callable[[AdminClient], Mapping[Any, Future[Any]]]

BY_EDITORS: Final[dict[str, Change]] = {
    "topics": lambda admin: admin.create_topics([NewTopic("made", 1, 1)]),
    "partitions": lambda admin: admin.create_partitions([NewPartitions(TOPIC, 2)]),
    "topic settings": lambda admin: admin.incremental_alter_configs(
        configs(ResourceType.TOPIC, TOPIC, "retention.ms", "1000000")
    ),
}
BY_ADMINISTRATORS: Final[dict[str, Change]] = {
    "topics deleted": lambda admin: admin.delete_topics([TOPIC]),
    "records deleted": lambda admin: admin.delete_records([TopicPartition(TOPIC, 0, 1)]),
    "ACLs": lambda admin: admin.create_acls([ACL]),
    "broker settings": lambda admin: admin.incremental_alter_configs(
        configs(ResourceType.BROKER, "1", "log.cleaner.threads", "2")
    ),
}


def refusals(admin: AdminClient, changes: Mapping[str, Change]) -> Iterator[tuple[str, int]]:
    """Yield the error of each change, 0 if it was made."""
    for what, change in changes.items():
        for future in change(admin).values():
            try:
                future.result(ANSWERED_WITHIN_S)
            except KafkaException as refused:
                yield what, refused.args[0].code()
            else:
                yield what, 0


def topics_of(cluster: KafkaCluster) -> set[str]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap()})
    return set(admin.list_topics(timeout=ANSWERED_WITHIN_S).topics)


def gateway_for(cluster: KafkaCluster, directory: Path, role: str) -> GatewayProcess:
    settings = "gateway.authentication=gateway", f"wire.role={role}", "events.topics="
    return GatewayProcess(directory, cluster.bootstrap(), *settings)


@pytest.fixture(scope="module", autouse=True)
def _topic(cluster: KafkaCluster) -> None:
    create(Target(cluster.bootstrap(), "PLAINTEXT"), TOPIC)


def test_a_viewer_produces_and_consumes_and_changes_nothing(cluster: KafkaCluster, tmp_path: Path) -> None:
    before = topics_of(cluster)
    with gateway_for(cluster, tmp_path, "viewer") as gateway:
        admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
        for what, code in refusals(admin, {**BY_EDITORS, **BY_ADMINISTRATORS}):
            assert code in DENIED, what
        target = Target(gateway.bootstrap, "PLAINTEXT")
        assert CLIENTS[0].produce(target, TOPIC, [b"1", b"2"]) == [0, 1]
        assert CLIENTS[0].read(target, TOPIC, 2) == [b"1", b"2"]
        creates_nothing(gateway, "made-by-a-producer", "made-by-a-consumer")
    assert topics_of(cluster) - before <= {"__consumer_offsets"}


def creates_nothing(gateway: GatewayProcess, produced: str, consumed: str) -> None:
    """The cluster would create the topics: auto.create.topics.enable is Kafka's default."""
    failed: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": gateway.bootstrap, "message.timeout.ms": 3_000})
    producer.produce(produced, b"x", on_delivery=lambda error, _message: failed.append(error))
    producer.flush(20)
    assert failed and failed[0] is not None
    consumer = Consumer(
        {
            "bootstrap.servers": gateway.bootstrap,
            "group.id": "viewers",
            "allow.auto.create.topics": True,
        }
    )
    consumer.subscribe([consumed])
    consumer.poll(3.0)
    consumer.close()


def test_an_editor_creates_topics_and_none_of_weir(cluster: KafkaCluster, tmp_path: Path) -> None:
    with gateway_for(cluster, tmp_path, "editor") as gateway:
        admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
        assert set(dict(refusals(admin, BY_EDITORS)).values()) == {0}
        for what, code in refusals(admin, BY_ADMINISTRATORS):
            assert code in DENIED, what
        target = Target(gateway.bootstrap, "PLAINTEXT")
        assert CLIENTS[0].produce(target, "made-automatically", [b"1"]) == [0]
        of_weir = {"of Weir": lambda admin: admin.create_topics([NewTopic("__weir_made", 1, 1)])}
        assert dict(refusals(admin, of_weir)) == {"of Weir": KafkaError.TOPIC_AUTHORIZATION_FAILED}
        creates_nothing(gateway, "__weir_produced", "__weir_consumed")
    topics = topics_of(cluster)
    assert {"made", "made-automatically"} <= topics
    assert topics.isdisjoint({"__weir_made", "__weir_produced", "__weir_consumed"})

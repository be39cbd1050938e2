"""MirrorMaker 2 between two brokers: topics, records, configs, ACLs and the offsets of groups."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.controller.world import AUTHORIZER
from tests.support import jvm_clients
from tests.support.broker_process import BrokerProcess
from tests.support.gateway_process import Way
from tests.support.jvm_clients import JavaProcess, classpath
from tests.support.kafka_tools import free_port

pytestmark = jvm_clients.pytestmark

SETTINGS: Final = (AUTHORIZER, "super.users=User:ANONYMOUS", "group.initial.rebalance.delay.ms=100")
TIMEOUT_S: Final = 30
PARTITIONS: Final = 3
TOPIC: Final = "orders"
EAST: Final = "east"
MIRRORED: Final = f"{EAST}.{TOPIC}"
GROUP: Final = "shop"
CONFIGS: Final = {
    "retention.ms": "86400000",
    "max.message.bytes": "200000",
    "cleanup.policy": "compact,delete",
}
EVERY_SECOND: Final = (
    "refresh.topics",
    "refresh.groups",
    "sync.topic.configs",
    "sync.topic.acls",
    "emit.checkpoints",
    "sync.group.offsets",
)
INTERNAL: Final = (
    *("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic"),
    *("offset.storage", "status.storage", "config.storage"),
)
Row = tuple[int, Any, Any, Any]
"""Partition, key, value and headers of a record."""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return classpath("connect", tmp_path_factory.mktemp("classes"))


@pytest.fixture
def east(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "east", *SETTINGS) as process:
        yield process


@pytest.fixture
def west(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "west", *SETTINGS) as process:
        yield process


def admin(broker: BrokerProcess | Way) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.plain, "log_level": 0})


def create(broker: BrokerProcess) -> None:
    client = admin(broker)
    topics = client.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config=CONFIGS)])
    topics[TOPIC].result(TIMEOUT_S)
    for who, operation in (("alice", AclOperation.READ), ("bob", AclOperation.ALL)):
        (created,) = client.create_acls([acl(TOPIC, who, operation)]).values()
        created.result(TIMEOUT_S)


def acl(topic: str, who: str, operation: AclOperation) -> AclBinding:
    kind = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL)
    return AclBinding(*kind, f"User:{who}", "*", operation, AclPermissionType.ALLOW)


def acls(broker: BrokerProcess, topic: str) -> set[AclBinding]:
    every = (None, None, AclOperation.ANY, AclPermissionType.ANY)
    sought = AclBindingFilter(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, *every)
    client = admin(broker)
    return set(client.describe_acls(sought).result(TIMEOUT_S))


def configs(broker: BrokerProcess | Way, topic: str) -> Mapping[str, str]:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    client = admin(broker)
    found = client.describe_configs([resource])[resource].result(TIMEOUT_S)
    return {name: entry.value for name, entry in found.items()}


def topics(broker: BrokerProcess | Way) -> Mapping[str, int]:
    return {name: len(each.partitions) for name, each in admin(broker).list_topics().topics.items()}


def produce(broker: BrokerProcess, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.plain, "log_level": 0})
    for number in range(first, first + count):
        headers: list[tuple[str, str | bytes | None]] = [("number", str(number)), ("none", None)]
        value = None if number % 100 == 99 else b"value %d" % number
        producer.produce(TOPIC, value, b"key %d" % number, number % PARTITIONS, headers=headers)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0


def read(broker: BrokerProcess | Way, topic: str) -> Sequence[Row]:
    """All committed records."""
    consumer = reader(broker, "nobody", "enable.partition.eof")
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found: list[Row] = []
    ends = 0
    while ends < PARTITIONS:
        (message,) = consumer.consume(1, TIMEOUT_S)
        if message.error() is not None:
            ends += 1
        else:
            found.append((message.partition(), message.key(), message.value(), message.headers()))
    consumer.close()
    return sorted(found, key=lambda row: row[0])


def reader(broker: BrokerProcess | Way, group: str, *flags: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.plain,
            "log_level": 0,
            "group.id": group,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **dict.fromkeys(flags, True),
        }
    )


def take(broker: BrokerProcess | Way, topic: str, count: int) -> Sequence[Any]:
    """The values of this many records that the group has not read; it commits what it has read."""
    consumer = reader(broker, GROUP)
    consumer.subscribe([topic])
    found: list[Any] = []
    while len(found) < count:
        messages = consumer.consume(count - len(found), TIMEOUT_S)
        assert messages, f"{len(found)} of {count}"
        assert not any(message.error() for message in messages)
        found.extend(message.key() for message in messages)
    consumer.commit(asynchronous=False)
    consumer.close()
    return found


def committed(broker: BrokerProcess | Way, topic: str) -> Mapping[int, int]:
    consumer = reader(broker, GROUP)
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    found = {each.partition: each.offset for each in consumer.committed(places, TIMEOUT_S)}
    consumer.close()
    return found


def mirror_maker(
    path: str,
    directory: Path,
    east: BrokerProcess,
    west: BrokerProcess | Way,
    *more: str,
    source: str = EAST,
) -> JavaProcess:
    """From `east`, which is named `source` there, to `west`; `more` are further settings."""
    settings = {
        "clusters": f"{source}, west",
        f"{source}.bootstrap.servers": east.plain,
        "west.bootstrap.servers": west.plain,
        f"{source}->west.enabled": "true",
        f"{source}->west.topics": TOPIC,
        f"{source}->west.groups": GROUP,
        f"west->{source}.enabled": "false",
        "sync.group.offsets.enabled": "true",
        "offset.lag.max": "0",
        "west.exactly.once.source.support": "enabled",
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": f"http://127.0.0.1:{free_port()}",
        "replication.factor": "-1",
        **{f"{each}.replication.factor": "-1" for each in INTERNAL},
        **{f"{each}.interval.seconds": "1" for each in EVERY_SECOND},
    }
    file = directory / "mm2.properties"
    file.write_text("\n".join([*(f"{key}={value}" for key, value in settings.items()), *more]))
    return JavaProcess(path, "org.apache.kafka.connect.mirror.MirrorMaker", str(file))


def test_all_that_a_cluster_has_is_mirrored_once(
    path: str, east: BrokerProcess, west: BrokerProcess, tmp_path: Path
) -> None:
    create(east)
    produce(east, 0, 3_000)
    expected = read(east, TOPIC)
    assert len(expected) == 3_000
    with mirror_maker(path, tmp_path, east, west) as mirror:
        mirror.until(lambda: topics(west).get(MIRRORED) == PARTITIONS, "the topic")
        mirror.until(lambda: read(west, MIRRORED) == expected, "the records")
        mirror.until(lambda: configs(west, MIRRORED).items() >= CONFIGS.items(), "the configs")
        allowed = {acl(MIRRORED, who, AclOperation.READ) for who in ("alice", "bob")}
        mirror.until(lambda: acls(west, MIRRORED) == allowed, "the ACLs, of which ALL becomes READ")
        assert len(set(take(east, TOPIC, 3_000))) == 3_000
        mirror.until(lambda: min(committed(west, MIRRORED).values()) >= 1_000, "the offsets")
        produce(east, 3_000, 600)
        mirror.kill()
    with mirror_maker(path, tmp_path, east, west) as mirror:
        produce(east, 3_600, 600)
        expected = read(east, TOPIC)
        mirror.until(lambda: read(west, MIRRORED) == expected, "the records after kill -9")
        mirror.stop()
    assert read(west, MIRRORED) == expected
    with JavaProcess(path, "Translate", west.plain, "east", GROUP) as translate:
        offsets = json.loads(translate.said("offsets")[0])
    assert offsets == {f"{MIRRORED}-{each}": at for each, at in committed(west, MIRRORED).items()}
    # The group goes on at the other cluster after the last record that it has read here.
    assert sorted(take(west, MIRRORED, 1_200)) == sorted(b"key %d" % number for number in range(3_000, 4_200))
    for topic in ("mm2-configs.east.internal", "mm2-offsets.east.internal", "mm2-status.east.internal"):
        assert configs(west, topic)["cleanup.policy"] == "compact"

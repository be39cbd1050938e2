"""What administrators do with each Python client, directly and through a gateway: topics, configurations,
offsets, quotas' users. The cluster names its nodes by addresses that the way leads to.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewPartitions as AIONewPartitions
from aiokafka.admin import NewTopic as AIONewTopic
from aiokafka.admin.config_resource import ConfigResource as AIOConfigResource
from aiokafka.admin.config_resource import ConfigResourceType
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.support import kafka_tools
from tests.support.gateway_process import Way
from tests.support.real_clients import CLIENTS, Target, create
from tests.support.real_clients import kafka as kafka_python

pytestmark = kafka_tools.pytestmark

TIMEOUT: Final = 30


@pytest.fixture
def confluent(way: Way) -> AdminClient:
    return AdminClient({"bootstrap.servers": way.plain})


@pytest.fixture
def python(way: Way) -> Iterator[Any]:
    client = kafka_python.KafkaAdminClient(bootstrap_servers=way.plain.split(","))
    yield client
    client.close()


def by_aiokafka(way: Way, work: Callable[[AIOKafkaAdminClient], Awaitable[Any]]) -> Any:
    async def scenario() -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=way.plain)
        await admin.start()
        try:
            return await work(admin)
        finally:
            await admin.close()

    return asyncio.run(asyncio.wait_for(scenario(), TIMEOUT))


def done(futures: dict[Any, Any]) -> Any:
    """The result of a request for one thing."""
    (future,) = futures.values()
    return future.result(TIMEOUT)


def eventually(look: Callable[[], bool], what: str) -> None:
    """A broker learns of a change after the controller has confirmed it."""
    deadline = time.monotonic() + TIMEOUT
    while not look():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_topics_of_confluent(way: Way, confluent: AdminClient) -> None:
    name = way.topic("life")
    done(confluent.create_topics([NewTopic(name, 2, 3)]))
    with pytest.raises(KafkaException) as twice:
        done(confluent.create_topics([NewTopic(name, 1, 1)]))
    assert twice.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    done(confluent.create_partitions([NewPartitions(name, 3)]))
    eventually(
        lambda: len(confluent.list_topics(name, timeout=TIMEOUT).topics[name].partitions) == 3, "3 partitions"
    )
    setting = ConfigEntry("retention.ms", "5000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[setting])
    done(confluent.incremental_alter_configs([resource]))

    def retention() -> Any:
        return done(confluent.describe_configs([ConfigResource(ResourceType.TOPIC, name)]))[
            "retention.ms"
        ].value

    eventually(lambda: retention() == "5000", "the new retention")
    node = done(confluent.describe_configs([ConfigResource(ResourceType.BROKER, "2")]))
    assert node["node.id"].value == "2"
    done(confluent.delete_topics([name]))
    eventually(lambda: name not in confluent.list_topics(timeout=TIMEOUT).topics, "it is gone")


def test_topics_of_kafka_python(way: Way, python: Any) -> None:
    name = way.topic("life")
    python.create_topics({name: {"num_partitions": 2, "replication_factor": 3}})
    with pytest.raises(kafka_python.errors.TopicAlreadyExistsError):
        python.create_topics({name: {"num_partitions": 2, "replication_factor": 3}})
    python.create_partitions({name: 3})

    def partitions() -> tuple[int, int]:
        (topic,) = python.describe_topics([name])
        return topic["error_code"], len(topic["partitions"])

    eventually(lambda: partitions() == (0, 3), "3 partitions")
    way.cluster.wait_in_sync(name)  # it asks any node what can be altered
    python.alter_configs([kafka_python.admin.ConfigResource("TOPIC", name, {"retention.ms": "5000"})])
    paged = python.describe_topic_partitions([name], response_partition_limit=2)
    assert [len(each["partitions"]) for each in paged["topics"]] == [2]
    assert paged["next_cursor"]["partition_index"] == 2
    python.delete_topics([name])
    eventually(lambda: name not in python.list_topics(), "it is gone")


def test_topics_of_aiokafka(way: Way) -> None:
    name = way.topic("life")

    async def scenario(admin: AIOKafkaAdminClient) -> None:
        made = await admin.create_topics([AIONewTopic(name, 2, 3)])
        again = await admin.create_topics([AIONewTopic(name, 2, 3)])
        assert [each.topic_errors[0][1] for each in (made, again)] == [0, 36]
        await admin.create_partitions({name: AIONewPartitions(3)})
        await admin.alter_configs(
            [AIOConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "5000"})]
        )
        await asyncio.sleep(0.5)
        (topic,) = await admin.describe_topics([name])
        assert (topic["error_code"], len(topic["partitions"])) == (0, 3)
        (response,) = await admin.describe_configs([AIOConfigResource(ConfigResourceType.TOPIC, name)])
        assert {config[0]: config[1] for config in response.resources[0][4]}["retention.ms"] == "5000"
        await admin.delete_topics([name])

    by_aiokafka(way, scenario)


def test_the_cluster_describes_itself_by_the_addresses_of_the_way(
    way: Way, confluent: AdminClient, python: Any
) -> None:
    wanted = dict(way.addresses())
    cluster = confluent.describe_cluster().result(TIMEOUT)
    assert {node.id: f"{node.host}:{node.port}" for node in cluster.nodes} == wanted
    assert cluster.controller.id in wanted
    listed = confluent.list_topics(timeout=TIMEOUT)
    assert {each.id: f"{each.host}:{each.port}" for each in listed.brokers.values()} == wanted
    assert listed.cluster_id == cluster.cluster_id
    brokers = python.describe_cluster()["brokers"]
    assert {node["broker_id"]: f"{node['host']}:{node['port']}" for node in brokers} == wanted
    brokers = by_aiokafka(way, lambda admin: admin.describe_cluster())["brokers"]
    assert {node["node_id"]: f"{node['host']}:{node['port']}" for node in brokers} == wanted


def test_coordinators_are_found_at_the_addresses_of_the_way(way: Way, confluent: AdminClient) -> None:
    """FindCoordinator, alone and for several groups at once."""
    groups = [way.topic("group") for _ in range(6)]
    topic = way.topic("coordinated")
    create(Target(way.plain), topic)
    consumers = [confluent_consumer(way, group, topic) for group in groups]
    described = confluent.describe_consumer_groups(groups)
    found = {group: future.result(TIMEOUT).coordinator for group, future in described.items()}
    for consumer in consumers:
        consumer.close()
    assert len(found) == 6
    for node in found.values():
        assert f"{node.host}:{node.port}" == way.addresses()[node.id]


def confluent_consumer(way: Way, group: str, topic: str) -> Any:
    made = Consumer({"bootstrap.servers": way.plain, "group.id": group, "auto.offset.reset": "earliest"})
    made.subscribe([topic])
    made.poll(0.1)
    return made


def test_offsets_are_found_by_time_and_records_deleted(way: Way, confluent: AdminClient) -> None:
    topic = way.topic("timed")
    create(Target(way.plain), topic)
    producer = Producer({"bootstrap.servers": way.plain})
    now = int(time.time() * 1000)
    for age in (3_000, 2_000, 1_000):
        producer.produce(topic, b"x", timestamp=now - age)
        producer.flush(TIMEOUT)
    partition = TopicPartition(topic, 0)

    def offset(spec: OffsetSpec) -> int:
        return int(done(confluent.list_offsets({partition: spec})).offset)

    assert [offset(spec) for spec in (OffsetSpec.earliest(), OffsetSpec.latest())] == [0, 3]
    assert offset(OffsetSpec.max_timestamp()) == 2
    assert [offset(OffsetSpec.for_timestamp(now - age)) for age in (2_500, 2_000, 500)] == [1, 1, -1]
    deleted = done(confluent.delete_records([TopicPartition(topic, 0, 2)]))
    assert deleted.low_watermark == 2 == offset(OffsetSpec.earliest())


def test_a_new_scram_user_logs_in(way: Way, confluent: AdminClient) -> None:
    """The credentials are altered at the cluster, and observed nowhere on the way."""
    name = way.topic("user")
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4_096)
    done(confluent.alter_user_scram_credentials([UserScramCredentialUpsertion(name, info, b"new-secret")]))
    target = Target(way.bootstrap("SASL_PLAINTEXT"), "SASL_PLAINTEXT", "SCRAM-SHA-512", name, "new-secret")

    def logs_in() -> bool:
        try:
            CLIENTS[0].login(target)
        except KafkaException:
            return False
        return True

    eventually(logs_in, "every node knows the user")
    found = confluent.describe_user_scram_credentials([name])
    (described,) = [each.result(TIMEOUT) for each in found.values()]
    assert [each.iterations for each in described.scram_credential_infos] == [4_096]

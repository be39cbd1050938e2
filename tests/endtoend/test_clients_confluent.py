"""confluent-kafka (librdkafka), unmodified: topics, every compression and acks, idempotence, consumer groups
through rebalances and crashes, logins.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.support.broker_process import USERS, BrokerProcess, within

pytestmark = pytest.mark.endtoend

TIMEOUT = 15


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("data"), "group.initial.rebalance.delay.ms=200") as process:
        yield process


@pytest.fixture
def admin(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.plain})


def done(futures: dict[Any, Any]) -> Any:
    """The result of a request for one thing."""
    (future,) = futures.values()
    return future.result(TIMEOUT)


def create(admin: AdminClient, name: str, partitions: int = 1) -> None:
    done(admin.create_topics([NewTopic(name, partitions, 1)]))


def producer_of(broker: BrokerProcess, **settings: Any) -> Producer:
    return Producer({"bootstrap.servers": broker.plain, "linger.ms": 5, **settings})


def send(producer: Producer, topic: str, values: list[bytes]) -> list[int]:
    """The offsets that the broker acknowledged; -1 or none with acks=0."""
    offsets: list[int] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        offset = message.offset()
        offsets.append(-1 if offset is None else offset)

    for value in values:
        producer.produce(topic, value, on_delivery=delivered)
    assert producer.flush(TIMEOUT) == 0
    return offsets


def produce(broker: BrokerProcess, topic: str, values: list[bytes], **settings: Any) -> list[int]:
    """Send from a producer that then leaves; see `send`."""
    return send(producer_of(broker, **settings), topic, values)


def consumer(broker: BrokerProcess, group: str, *topics: str, **settings: Any) -> Consumer:
    made = Consumer(
        {
            "bootstrap.servers": broker.plain,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 500,
            "enable.auto.commit": False,
            **settings,
        }
    )
    if topics:
        made.subscribe(list(topics))
    return made


def read(source: Consumer, count: int) -> list[bytes]:
    values: list[bytes] = []
    deadline = time.monotonic() + TIMEOUT
    while len(values) < count and time.monotonic() < deadline:
        message = source.poll(0.2)
        if message is not None:
            assert message.error() is None, message.error()
            values.append(message.value() or b"")
    return values


def test_topics_are_made_described_changed_and_deleted(admin: AdminClient) -> None:
    create(admin, "life", 2)
    with pytest.raises(KafkaException) as twice:
        create(admin, "life")
    assert twice.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    done(admin.create_partitions([NewPartitions("life", 3)]))
    assert len(admin.list_topics("life", timeout=TIMEOUT).topics["life"].partitions) == 3
    setting = ConfigEntry("retention.ms", "5000", incremental_operation=AlterConfigOpType.SET)
    done(
        admin.incremental_alter_configs(
            [ConfigResource(ResourceType.TOPIC, "life", incremental_configs=[setting])]
        )
    )
    described = done(admin.describe_configs([ConfigResource(ResourceType.TOPIC, "life")]))
    assert (described["retention.ms"].value, described["retention.ms"].is_default) == ("5000", False)
    assert described["cleanup.policy"].value == "delete"
    node = done(admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]))
    assert node["node.id"].value == "1"
    done(admin.delete_topics(["life"]))
    assert "life" not in admin.list_topics(timeout=TIMEOUT).topics


def test_the_cluster_describes_itself(admin: AdminClient, broker: BrokerProcess) -> None:
    cluster = admin.describe_cluster().result(TIMEOUT)
    assert (cluster.controller.id, [node.id for node in cluster.nodes]) == (1, [1])
    assert f"{cluster.nodes[0].host}:{cluster.nodes[0].port}" == broker.plain


@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_as_they_were_sent(
    admin: AdminClient, broker: BrokerProcess, codec: str, acks: str
) -> None:
    topic = f"{codec}-{acks}"
    create(admin, topic)
    values = [f"{number} ".encode() * 50 for number in range(500)]
    # A producer that leaves closes its connections, which may lose what it sent with acks=0; this one stays.
    producer = producer_of(broker, **{"compression.type": codec, "acks": acks})
    offsets = send(producer, topic, values)
    if acks != "0":
        assert offsets == list(range(500))
    reader = consumer(broker, topic)
    reader.assign([TopicPartition(topic, 0, 0)])
    assert read(reader, 500) == values
    reader.close()


def test_an_idempotent_producer_is_taken(admin: AdminClient, broker: BrokerProcess) -> None:
    create(admin, "idempotent")
    values = [str(number).encode() for number in range(2_000)]
    assert produce(broker, "idempotent", values, **{"enable.idempotence": True}) == list(range(2_000))
    assert produce(broker, "idempotent", [b"another"], **{"enable.idempotence": True}) == [2_000]


def test_a_topic_is_made_by_writing_to_it(broker: BrokerProcess, admin: AdminClient) -> None:
    assert produce(broker, "made-by-writing", [b"first"]) == [0]
    assert "made-by-writing" in admin.list_topics(timeout=TIMEOUT).topics


def test_offsets_are_found_by_time_and_records_deleted(admin: AdminClient, broker: BrokerProcess) -> None:
    create(admin, "timed")
    producer = Producer({"bootstrap.servers": broker.plain})
    now = int(time.time() * 1000)
    for age in (3_000, 2_000, 1_000):
        producer.produce("timed", b"x", timestamp=now - age)
        producer.flush(TIMEOUT)
    partition = TopicPartition("timed", 0)

    def offset(spec: OffsetSpec) -> int:
        return int(done(admin.list_offsets({partition: spec})).offset)

    assert [offset(spec) for spec in (OffsetSpec.earliest(), OffsetSpec.latest())] == [0, 3]
    assert offset(OffsetSpec.max_timestamp()) == 2
    assert [offset(OffsetSpec.for_timestamp(now - age)) for age in (2_500, 2_000, 500)] == [1, 1, -1]
    deleted = done(admin.delete_records([TopicPartition("timed", 0, 2)]))
    assert deleted.low_watermark == 2 == offset(OffsetSpec.earliest())


def test_members_share_the_partitions_and_take_over_from_each_other(
    admin: AdminClient, broker: BrokerProcess
) -> None:
    create(admin, "shared", 6)
    members: list[Consumer] = []

    def shares() -> list[int]:
        for each in members:
            each.poll(0.05)
        return [len(each.assignment()) for each in members]

    for count in (1, 2, 3):
        members.append(consumer(broker, "sharing", "shared"))
        within(TIMEOUT, lambda count=count: shares() == [6 // count] * count, f"{count} members share")
    described = done(admin.describe_consumer_groups(["sharing"]))
    assert (described.state.name, described.partition_assignor) == ("STABLE", "range")
    assert len(described.members) == 3
    members.pop().close()
    within(TIMEOUT, lambda: shares() == [3, 3], "who leaves is replaced")
    for each in members:
        each.close()
    assert done(admin.describe_consumer_groups(["sharing"])).state.name == "EMPTY"


@pytest.mark.parametrize("strategy", ["roundrobin", "cooperative-sticky"])
def test_other_assignors_work_too(admin: AdminClient, broker: BrokerProcess, strategy: str) -> None:
    topic = f"shared-{strategy}"
    create(admin, topic, 4)
    members = [
        consumer(broker, strategy, topic, **{"partition.assignment.strategy": strategy}) for _ in range(2)
    ]

    def shares() -> list[int]:
        for each in members:
            each.poll(0.05)
        return [len(each.assignment()) for each in members]

    within(TIMEOUT, lambda: shares() == [2, 2], "two members have a half each")
    for each in members:
        each.close()


def test_a_static_member_comes_back_without_a_rebalance(admin: AdminClient, broker: BrokerProcess) -> None:
    create(admin, "static", 2)

    def member(name: str) -> Consumer:
        return consumer(broker, "statics", "static", **{"group.instance.id": name})

    def poll(members: list[Consumer]) -> list[list[TopicPartition]]:
        for each in members:
            each.poll(0.05)
        return [each.assignment() for each in members]

    one, two = member("one"), member("two")
    within(TIMEOUT, lambda: [len(part) for part in poll([one, two])] == [1, 1], "each has one partition")
    before = two.assignment()
    two.close()
    again = member("two")
    within(TIMEOUT, lambda: all(poll([one, again])), "both are assigned")
    assert again.assignment() == before and len(one.assignment()) == 1
    one.close()
    again.close()


def test_groups_are_listed_altered_and_deleted(admin: AdminClient, broker: BrokerProcess) -> None:
    create(admin, "managed")
    produce(broker, "managed", [b"1", b"2", b"3"])
    reader = consumer(broker, "managing", "managed")
    assert len(read(reader, 3)) == 3
    reader.commit(asynchronous=False)
    with pytest.raises(KafkaException) as busy:
        done(admin.delete_consumer_groups(["managing"]))
    assert busy.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    reader.close()
    listed = admin.list_consumer_groups().result(TIMEOUT)
    assert "managing" in {group.group_id for group in listed.valid} and not listed.errors
    wanted = [TopicPartition("managed", 0, 1)]
    done(admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions("managing", wanted)]))
    found = done(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("managing")]))
    assert [each.offset for each in found.topic_partitions] == [1]
    done(admin.delete_consumer_groups(["managing"]))
    listed = admin.list_consumer_groups().result(TIMEOUT)
    assert "managing" not in {group.group_id for group in listed.valid}


def test_a_user_logs_in_and_a_stranger_does_not(broker: BrokerProcess) -> None:
    def login(user: str, password: str) -> AdminClient:
        return AdminClient(
            {
                "bootstrap.servers": broker.sasl,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": user,
                "sasl.password": password,
                "error_cb": errors.append,
            }
        )

    errors: list[KafkaError] = []
    assert login("alice", USERS["alice"]).list_topics(timeout=TIMEOUT).brokers.keys() == {1}
    assert errors == []
    for user, password in (("alice", "wrong"), ("nobody", USERS["alice"])):
        errors.clear()
        stranger = login(user, password)
        with pytest.raises(KafkaException):
            stranger.list_topics(timeout=1)
        stranger.poll(0.1)
        assert KafkaError._AUTHENTICATION in {error.code() for error in errors}


def test_records_offsets_and_members_survive_a_crash(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "group.initial.rebalance.delay.ms=200") as broker:
        admin = AdminClient({"bootstrap.servers": broker.plain})
        create(admin, "kept", 2)
        settings: dict[str, Any] = {"enable.idempotence": True, "compression.type": "zstd"}
        produce(broker, "kept", [b"%d" % number for number in range(1_000)], **settings)
        reader = consumer(broker, "keepers", "kept")
        first = read(reader, 400)
        reader.commit(asynchronous=False)
        broker.kill()
        broker.start()
        rest = read(reader, 600)
        assert sorted(map(int, first + rest)) == list(range(1_000))
        reader.commit(asynchronous=False)
        reader.close()
        broker.kill()
        broker.start()
        another = consumer(broker, "keepers", "kept")
        produce(broker, "kept", [b"1000"])
        assert read(another, 1) == [b"1000"]
        another.close()

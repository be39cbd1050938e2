"""kafka-python, unmodified: topics, every compression and acks, consumer groups through rebalances and
crashes, logins.
"""

import gc
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker_process import USERS, BrokerProcess, within

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas in a way that is going
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import ConfigResource
    from kafka.errors import KafkaTimeoutError, TopicAlreadyExistsError
    from kafka.structs import OffsetAndMetadata

pytestmark = [
    pytest.mark.endtoend,
    # A login that fails leaves its sockets to the collector.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
    ),
]

TIMEOUT = 15


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("data"), "group.initial.rebalance.delay.ms=200") as process:
        yield process
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def admin(broker: BrokerProcess) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=broker.plain)
    yield client
    client.close()


def create(admin: KafkaAdminClient, name: str, partitions: int = 1) -> None:
    admin.create_topics({name: {"num_partitions": partitions, "replication_factor": 1}})


def produce(broker: BrokerProcess, topic: str, values: list[bytes], **settings: Any) -> list[int]:
    producer = KafkaProducer(bootstrap_servers=broker.plain, linger_ms=5, **settings)
    futures = [producer.send(topic, value) for value in values]
    producer.flush(TIMEOUT)
    offsets = [future.get(TIMEOUT).offset for future in futures]
    producer.close()
    return offsets


def consumer(broker: BrokerProcess, group: str | None, *topics: str, **settings: Any) -> KafkaConsumer:
    return KafkaConsumer(
        *topics,
        bootstrap_servers=broker.plain,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6_000,
        heartbeat_interval_ms=500,
        **settings,
    )


def read(source: KafkaConsumer, count: int) -> list[bytes]:
    values: list[bytes] = []
    deadline = time.monotonic() + TIMEOUT
    while len(values) < count and time.monotonic() < deadline:
        for records in source.poll(200).values():
            values.extend(record.value for record in records)
    return values


def test_topics_are_made_described_changed_and_deleted(admin: KafkaAdminClient) -> None:
    create(admin, "life", 2)
    with pytest.raises(TopicAlreadyExistsError):
        create(admin, "life")
    admin.create_partitions({"life": 3})
    (topic,) = admin.describe_topics(["life"])
    assert (topic["error_code"], len(topic["partitions"])) == (0, 3)
    admin.alter_configs([ConfigResource("TOPIC", "life", {"retention.ms": "5000"})])
    described = admin.describe_configs([ConfigResource("TOPIC", "life")])["topic"]["life"]
    assert {key: row["value"] for key, row in described.items()} == {"retention.ms": "5000"}
    paged = admin.describe_topic_partitions(["life"], response_partition_limit=2)
    assert [len(each["partitions"]) for each in paged["topics"]] == [2]
    assert paged["next_cursor"]["partition_index"] == 2
    admin.delete_topics(["life"])
    assert "life" not in admin.list_topics()


def test_the_cluster_describes_itself(admin: KafkaAdminClient, broker: BrokerProcess) -> None:
    cluster = admin.describe_cluster()
    (node,) = cluster["brokers"]
    assert (cluster["controller_id"], node["broker_id"]) == (1, 1)
    assert f"{node['host']}:{node['port']}" == broker.plain


def test_the_settings_of_the_broker_say_which_can_change(admin: KafkaAdminClient) -> None:
    described = admin.describe_configs([ConfigResource("BROKER", "1")], config_filter="all")
    rows = described["broker"]["1"]
    assert [rows[key]["read_only"] for key in ("listeners", "advertised.listeners")] == [False, True]
    change = {"advertised.listeners": "PLAINTEXT://h:1"}
    with pytest.raises(ValueError, match=r"advertised\.listeners"):
        admin.alter_configs([ConfigResource("BROKER", "1", change)])


def test_the_partitions_of_a_new_topic_are_in_a_log_directory(admin: KafkaAdminClient) -> None:
    create(admin, "fresh", 2)
    (described,) = admin.describe_log_dirs({"fresh": [0, 1]})
    (directory,) = described["log_dirs"]
    (topic,) = directory["topics"]
    assert sorted((each["partition_index"], each["partition_size"]) for each in topic["partitions"]) == [
        (0, 0),
        (1, 0),
    ]


def test_log_directories_are_described_and_partitions_moved_between_them(tmp_path: Path) -> None:
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    # A new partition goes where fewest are: topics of events would count.
    with BrokerProcess(tmp_path, f"log.dirs={old},{new}", "events.topics=") as broker:
        admin = KafkaAdminClient(bootstrap_servers=broker.plain)
        create(admin, "moved")
        produce(broker, "moved", [b"one", b"two"])

        def places() -> dict[str, list[tuple[int, bool]]]:
            (described,) = admin.describe_log_dirs({"moved": [0]})
            return {
                each["log_dir"]: [
                    (partition["offset_lag"], partition["is_future_key"])
                    for topic in each["topics"]
                    for partition in topic["partitions"]
                ]
                for each in described["log_dirs"]
            }

        assert places() == {old: [(0, False)], new: []}
        (result,) = admin.alter_replica_log_dirs({("moved", 0, 1): "/nowhere"}).values()
        assert result.__name__ == "LogDirNotFoundError"
        (result,) = admin.alter_replica_log_dirs({("moved", 0, 1): new}).values()
        assert result.__name__ == "NoError"
        within(10, lambda: places() == {old: [], new: [(0, False)]}, "it has moved")
        assert produce(broker, "moved", [b"three"]) == [2]
        admin.close()


@pytest.mark.parametrize("acks", [0, 1, "all"])
@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_as_they_were_sent(
    admin: KafkaAdminClient, broker: BrokerProcess, codec: str | None, acks: int | str
) -> None:
    topic = f"{codec}-{acks}"
    create(admin, topic)
    values = [f"{number} ".encode() * 50 for number in range(300)]
    offsets = produce(
        broker, topic, values, compression_type=codec, acks=acks, enable_idempotence=acks == "all"
    )
    if acks != 0:
        assert offsets == list(range(300))
    reader = consumer(broker, None)
    reader.assign([TopicPartition(topic, 0)])
    assert read(reader, 300) == values
    reader.close()


def test_offsets_are_found_by_time_and_records_deleted(
    admin: KafkaAdminClient, broker: BrokerProcess
) -> None:
    create(admin, "timed")
    now = int(time.time() * 1000)
    producer = KafkaProducer(bootstrap_servers=broker.plain)
    for age in (3_000, 2_000, 1_000):
        producer.send("timed", b"x", timestamp_ms=now - age).get(TIMEOUT)
    producer.close()
    partition = TopicPartition("timed", 0)
    reader = consumer(broker, None)
    found = [reader.offsets_for_times({partition: now - age})[partition] for age in (2_500, 2_000, 500)]
    assert [each and each.offset for each in found] == [1, 1, None]
    assert admin.delete_records({partition: 2})[partition]["low_watermark"] == 2
    assert (reader.beginning_offsets([partition]), reader.end_offsets([partition])) == (
        {partition: 2},
        {partition: 3},
    )
    reader.close()


class Member(threading.Thread):
    """A consumer that polls in a thread of its own: one that is not polled holds up its whole group."""

    def __init__(self, broker: BrokerProcess, group: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.share = 0
        self._arguments = broker, group, topic
        self._leaves = threading.Event()
        self.start()

    def run(self) -> None:
        source = consumer(*self._arguments)
        while not self._leaves.is_set():
            source.poll(200)
            self.share = len(source.assignment())
        source.close()

    def leave(self) -> None:
        self._leaves.set()
        self.join(TIMEOUT)
        assert not self.is_alive()


def test_members_share_the_partitions_and_take_over_from_each_other(
    admin: KafkaAdminClient, broker: BrokerProcess
) -> None:
    create(admin, "shared", 6)
    members: list[Member] = []

    def shares() -> list[int]:
        return [each.share for each in members]

    for count in (1, 2, 3):
        members.append(Member(broker, "sharing", "shared"))
        within(TIMEOUT, lambda count=count: shares() == [6 // count] * count, f"{count} members share")
    described = admin.describe_groups(["sharing"])["sharing"]
    assert (described["group_state"], len(described["members"])) == ("Stable", 3)
    members.pop().leave()
    within(TIMEOUT, lambda: shares() == [3, 3], "who leaves is replaced")
    for each in members:
        each.leave()
    assert admin.describe_groups(["sharing"])["sharing"]["group_state"] == "Empty"


def test_groups_are_listed_altered_and_deleted(admin: KafkaAdminClient, broker: BrokerProcess) -> None:
    create(admin, "managed")
    produce(broker, "managed", [b"1", b"2", b"3"])
    reader = consumer(broker, "managing", "managed")
    assert read(reader, 3) == [b"1", b"2", b"3"]
    reader.commit()
    assert admin.delete_groups(["managing"]) == {"managing": "NonEmptyGroupError"}
    reader.close()
    assert "managing" in {group["group_id"] for group in admin.list_groups()}
    partition = TopicPartition("managed", 0)
    admin.alter_group_offsets("managing", {partition: OffsetAndMetadata(1, "by hand", -1)})
    committed = admin.list_group_offsets({"managing": None})["managing"][partition]
    assert (committed.offset, committed.metadata) == (1, "by hand")
    admin.delete_group_offsets("managing", [partition])
    assert admin.list_group_offsets({"managing": None}) == {"managing": {}}
    assert admin.delete_groups(["managing"]) == {"managing": "OK"}


def test_a_user_logs_in_and_a_stranger_does_not(
    broker: BrokerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    def login(user: str, password: str) -> KafkaAdminClient:
        return KafkaAdminClient(
            bootstrap_servers=broker.sasl,
            bootstrap_timeout_ms=1_000,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_plain_username=user,
            sasl_plain_password=password,
        )

    friend = login("alice", USERS["alice"])
    assert len(friend.describe_cluster()["brokers"]) == 1
    friend.close()
    for user, password in (("alice", "wrong"), ("nobody", USERS["alice"])):
        caplog.clear()
        with pytest.raises(KafkaTimeoutError):
            login(user, password)
        assert "Authentication failed: Invalid username or password" in caplog.text


def test_records_offsets_and_members_survive_a_crash(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "group.initial.rebalance.delay.ms=200") as broker:
        admin = KafkaAdminClient(bootstrap_servers=broker.plain)
        create(admin, "kept", 2)
        admin.close()
        produce(broker, "kept", [b"%d" % number for number in range(1_000)], compression_type="lz4")
        reader = consumer(broker, "keepers", "kept", max_poll_records=100)
        first = read(reader, 400)
        reader.commit()
        broker.kill()
        broker.start()
        rest = read(reader, 1_000 - len(first))
        assert sorted(map(int, first + rest)) == list(range(1_000))
        reader.commit()
        reader.close()
        broker.kill()
        broker.start()
        another = consumer(broker, "keepers", "kept")
        produce(broker, "kept", [b"1000"])
        assert read(another, 1) == [b"1000"]
        another.close()

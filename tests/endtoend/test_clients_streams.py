"""Kafka Streams, exactly once: what tests/endtoend/jvm_clients/streams/WordCount.java does with a broker."""

import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from tests.support import jvm_clients
from tests.support.broker_process import BrokerProcess, within
from tests.support.jvm_clients import JavaProcess, classpath

pytestmark = jvm_clients.pytestmark

TIMEOUT_S: Final = 30
WORDS: Final = [f"word-{number}" for number in range(40)]
PARTITIONS: Final = 4
CHANGELOG: Final = "counter-words-changelog"
REPARTITION: Final = "counter-by-word-repartition"
PRODUCER: Final = "counter-StreamThread-1-producer"
RATE: Final = 40_000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return classpath("streams", tmp_path_factory.mktemp("classes"))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(
        tmp_path / "broker", "group.initial.rebalance.delay.ms=100", "log.cleaner.backoff.ms=500"
    ) as process:
        yield process


class Words:
    """What is written to "lines", and what the application must have made of it."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.counted: Counter[str] = Counter()
        self._random = random.Random(1)
        self._producer = Producer({"bootstrap.servers": broker.plain, "client.id": "writer", "log_level": 0})
        self._admin = AdminClient({"bootstrap.servers": broker.plain, "log_level": 0})
        topics = [NewTopic(name, PARTITIONS, 1) for name in ("lines", "counts")]
        for created in self._admin.create_topics(topics).values():
            created.result(TIMEOUT_S)

    def write(self, lines: int) -> None:
        for _ in range(lines):
            words = self._random.choices(WORDS, k=5)
            self.counted.update(words)
            self._producer.produce("lines", " ".join(words).encode(), key=str(self._random.random()))
            self._producer.poll(0)
        assert self._producer.flush(TIMEOUT_S) == 0

    def read(self) -> dict[str, list[int]]:
        """The committed counts of each word, in the order in which the application wrote them."""
        found: dict[str, list[int]] = {}
        for key, value in self.records("counts"):
            found.setdefault(key.decode(), []).append(int.from_bytes(value))
        return found

    def records(self, topic: str) -> Sequence[tuple[bytes, bytes]]:
        """Keys and values of the committed records."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.plain,
                "group.id": "reader",
                "log_level": 0,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        found: list[tuple[bytes, bytes]] = []
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        ends = 0
        while ends < PARTITIONS:
            (message,) = consumer.consume(1, TIMEOUT_S)
            if message.error() is not None:
                ends += 1
                continue
            key, value = message.key(), message.value()
            assert isinstance(key, bytes) and isinstance(value, bytes)
            found.append((key, value))
        consumer.close()
        return found

    def until_read(self) -> None:
        """Each word is counted once, twice and so on, and nothing comes a second time."""
        within(TIMEOUT_S, lambda: self.read() == self.expected, "all counts", 0.5)

    @property
    def expected(self) -> dict[str, list[int]]:
        return {word: list(range(1, count + 1)) for word, count in self.counted.items()}

    def configs(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        found = self._admin.describe_configs([resource])[resource].result(TIMEOUT_S)
        return {name: entry.value for name, entry in found.items()}

    def earliest(self, topic: str) -> int:
        """How many records of the topic are deleted."""
        consumer = Consumer({"bootstrap.servers": self.broker.plain, "group.id": "reader", "log_level": 0})
        places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        found = [consumer.get_watermark_offsets(place, TIMEOUT_S)[0] for place in places]
        consumer.close()
        return sum(found)


def settings(broker: BrokerProcess, state: Path, *more: str) -> Sequence[str]:
    return (
        "application.id=counter",
        "client.id=counter",
        f"bootstrap.servers={broker.plain}",
        f"state.dir={state}",
        "processing.guarantee=exactly_once_v2",
        "statestore.cache.max.bytes=0",
        "replication.factor=1",
        "repartition.purge.interval.ms=1000",
        "consumer.session.timeout.ms=6000",
        "consumer.heartbeat.interval.ms=1000",
        "consumer.auto.offset.reset=earliest",
        "producer.transaction.timeout.ms=10000",
        *more,
    )


def application(path: str, broker: BrokerProcess, state: Path, *more: str) -> JavaProcess:
    return JavaProcess(path, "WordCount", *settings(broker, state, *more))


def store(*applications: JavaProcess) -> Counter[str]:
    """The counts in the stores of the instances together; no word is in two of them."""
    found: Counter[str] = Counter()
    for each in applications:
        counts = json.loads(each.answer("store"))
        assert not found.keys() & counts.keys()
        found.update(counts)
    return found


def test_counts_are_exact_over_restarts_and_rebalances(
    path: str, broker: BrokerProcess, tmp_path: Path
) -> None:
    words = Words(broker)
    words.write(1_000)
    with application(path, broker, tmp_path / "one") as one:
        one.said("state RUNNING")
        words.until_read()
        assert store(one) == words.counted
        assert words.configs(CHANGELOG)["cleanup.policy"] == "compact"
        assert words.configs(REPARTITION)["cleanup.policy"] == "delete"
        within(TIMEOUT_S, lambda: words.earliest(REPARTITION) >= 5_000, "the records are purged")
        assert one.close() == 0
    words.write(1_000)
    with ExitStack() as ended:
        # Without its own files, the application has the counts of the changelog.
        two = ended.enter_context(application(path, broker, tmp_path / "two"))
        words.until_read()
        assert sum(map(int, two.said("restored", PARTITIONS))) == 5_000
        three = ended.enter_context(application(path, broker, tmp_path / "three"))
        words.write(1_000)
        three.until(lambda: bool(store(three)), "a share of the partitions")
        words.until_read()
        assert store(two, three) == words.counted
        words.write(2_000)
        two.kill()
        words.write(1_000)
        words.until_read()
        three.until(lambda: store(three) == words.counted, "all partitions")
        assert three.close() == 0
    assert words.read() == words.expected


def test_counts_are_exact_after_kill_of_the_broker(path: str, broker: BrokerProcess, tmp_path: Path) -> None:
    words = Words(broker)
    words.write(1_000)
    with application(path, broker, tmp_path / "one") as one:
        one.until(lambda: len(words.read()) == len(WORDS), "some counts")
        words.write(4_000)
        broker.kill()  # the application has just begun with these
        broker.start()
        words.write(500)
        words.until_read()
        assert store(one) == words.counted
        assert one.close() == 0


def test_the_store_comes_back_from_a_compacted_changelog(
    path: str, broker: BrokerProcess, tmp_path: Path
) -> None:
    words = Words(broker)
    often = ("topic.segment.ms=1000", "topic.min.cleanable.dirty.ratio=0.01")
    words.write(1_000)
    with application(path, broker, tmp_path / "one", *often) as one:
        words.until_read()
        for _ in range(3):
            time.sleep(1.1)
            words.write(20)
        words.until_read()
        within(60, lambda: len(words.records(CHANGELOG)) < 4_000, "the changelog is compacted", 1)
        assert one.close() == 0
    with application(path, broker, tmp_path / "two", *often) as two:
        two.said("restored", PARTITIONS)
        assert len(WORDS) <= sum(map(int, two.said("restored", PARTITIONS))) < 4_000
        assert store(two) == words.counted
        words.write(500)
        words.until_read()
        assert store(two) == words.counted
        assert two.close() == 0


def test_a_quota_throttles_the_application_and_nothing_is_lost(
    path: str, broker: BrokerProcess, tmp_path: Path
) -> None:
    op = {"key": "producer_byte_rate", "value": RATE}
    entry = {"entity": {"client-id": PRODUCER}, "ops": [op]}
    broker.ask("PATCH", "/api/v1/client-quotas", {"entries": [entry]})
    words = Words(broker)
    words.write(4_000)
    with application(path, broker, tmp_path / "one") as one:
        within(TIMEOUT_S, lambda: broker.throttled(PRODUCER), "the producer is throttled")
        words.until_read()
        assert int(one.answer("throttle")) > 0
        assert store(one) == words.counted
        assert one.close() == 0


def test_the_protocol_of_streams_groups_is_refused_by_name(
    path: str, broker: BrokerProcess, tmp_path: Path
) -> None:
    """Kafka 4.1 refuses it as well unless unstable.api.versions.enable is set."""
    Words(broker)
    with application(path, broker, tmp_path / "one", "group.protocol=streams") as one:
        (error,) = one.said("error")
        assert "UnsupportedVersionException: The cluster does not support the STREAMS group protocol" in error
        one.said("state ERROR")
        assert one.close() == 0

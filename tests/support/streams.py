"""Kafka Streams applications of the tests, and what their result topics must have.

Used by tests/endtoend with brokers of Weir and of Apache Kafka: the programs are those of
tests/endtoend/jvm_clients/streams.
"""

import json
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from tests.support.broker_process import within
from tests.support.jvm_clients import JavaProcess

TIMEOUT_S: Final = 30
PARTITIONS: Final = 4
STREAMS_GROUPS: Final = (
    "group.initial.rebalance.delay.ms=100",
    "group.streams.initial.rebalance.delay.ms=100",
    "group.streams.min.heartbeat.interval.ms=1000",
    "group.streams.heartbeat.interval.ms=1000",
    "group.streams.min.session.timeout.ms=6000",
    "group.streams.session.timeout.ms=6000",
)
"""Settings of a broker, which notices within six seconds that an instance was killed."""


class Results(ABC):
    """A result topic whose records are totals, and the records that the application has made them of.

    Topics and the application have the prefix `name`, if there is one.
    """

    program: ClassVar[str]

    def __init__(self, bootstrap: str, *topics: str, name: str = "") -> None:
        self.bootstrap = bootstrap
        self.name = name
        self._random = random.Random(1)
        self._producer = Producer({"bootstrap.servers": bootstrap, "client.id": "writer", "log_level": 0})
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        made = [NewTopic(self.topic(topic), PARTITIONS, 1) for topic in topics]
        for created in self.admin.create_topics(made).values():
            created.result(TIMEOUT_S)

    def topic(self, kind: str) -> str:
        return f"{self.name}-{kind}" if self.name else kind

    @abstractmethod
    def write(self, records: int) -> None:
        """Write so many records, and return when the broker has them."""

    @property
    @abstractmethod
    def expected(self) -> Mapping[str, Sequence[int]]:
        """The totals of each key, in the order in which the application has to write them."""

    @abstractmethod
    def read(self) -> Mapping[str, Sequence[int]]:
        """The committed totals of each key, in the order in which the application wrote them."""

    def until_read(self, seconds: float = TIMEOUT_S) -> None:
        """Return when each total is there, once, and nothing comes a second time."""
        within(seconds, lambda: self.read() == self.expected, "all totals", 0.5)

    def totals(self, topic: str) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for key, value in self.records(self.topic(topic)):
            found.setdefault(key.decode(), []).append(int.from_bytes(value))
        return found

    def records(self, topic: str) -> Sequence[tuple[bytes, bytes]]:
        """Keys and values of the committed records."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
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

    def configs(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        found = self.admin.describe_configs([resource])[resource].result(TIMEOUT_S)
        return {name: entry.value for name, entry in found.items()}

    def internal_topics(self) -> dict[str, tuple[int, dict[str, str]]]:
        """The partitions of each topic that the application's name begins, and what is set of it."""
        topics = self.admin.list_topics(timeout=TIMEOUT_S).topics
        found = {}
        for name, topic in topics.items():
            if name.endswith(("-changelog", "-repartition")) and name.startswith(f"{self.name}-"):
                resource = ConfigResource(ConfigResource.Type.TOPIC, name)
                entries = self.admin.describe_configs([resource])[resource].result(TIMEOUT_S)
                of_topic = {key: each.value for key, each in entries.items() if each.source == TOPIC_SOURCE}
                found[name.removeprefix(f"{self.name}-")] = (len(topic.partitions), of_topic)
        return found

    def earliest(self, topic: str) -> int:
        """How many records of the topic are deleted."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "reader", "log_level": 0})
        places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        found = [consumer.get_watermark_offsets(place, TIMEOUT_S)[0] for place in places]
        consumer.close()
        return sum(found)

    def _send(self, topic: str, key: str, value: str) -> None:
        self._producer.produce(self.topic(topic), value.encode(), key=key)
        self._producer.poll(0)

    def _flush(self) -> None:
        assert self._producer.flush(TIMEOUT_S) == 0


TOPIC_SOURCE: Final = 1
"""The source of a setting that a topic has of its own (DYNAMIC_TOPIC_CONFIG)."""

WORDS: Final = [f"word-{number}" for number in range(40)]


class Words(Results):
    """What is written to "lines", and the counts that WordCount.java must have made of it."""

    program = "WordCount"

    def __init__(self, bootstrap: str, name: str = "") -> None:
        super().__init__(bootstrap, "lines", "counts", name=name)
        self.counted: Counter[str] = Counter()

    def write(self, records: int) -> None:
        for _ in range(records):
            words = self._random.choices(WORDS, k=5)
            self.counted.update(words)
            self._send("lines", str(self._random.random()), " ".join(words))
        self._flush()

    def read(self) -> dict[str, list[int]]:
        return self.totals("counts")

    @property
    def expected(self) -> dict[str, list[int]]:
        return {word: list(range(1, count + 1)) for word, count in self.counted.items()}


REGIONS: Final = [f"region-{number}" for number in range(7)]
CUSTOMERS: Final = [f"customer-{number}" for number in range(50)]


class Orders(Results):
    """Orders of customers, and the revenue by region that Revenue.java must have made of them."""

    program = "Revenue"

    def __init__(self, bootstrap: str, name: str) -> None:
        super().__init__(bootstrap, "orders", "customers", "revenue", name=name)
        self._regions = {customer: self._random.choice(REGIONS) for customer in CUSTOMERS}
        self.revenue: Counter[str] = Counter()
        self.orders: Counter[str] = Counter()
        for customer, region in self._regions.items():
            self._send("customers", customer, region)
        self._flush()

    def write(self, records: int) -> None:
        for _ in range(records):
            customer, amount = self._random.choice(CUSTOMERS), self._random.randint(1, 100)
            self.revenue[self._regions[customer]] += amount
            self.orders[self._regions[customer]] += 1
            self._send("orders", customer, str(amount))
        self._flush()

    def read(self) -> dict[str, list[int]]:
        """The last total and the number of totals of each region: their order is that of the partitions."""
        return {region: [totals[-1], len(totals)] for region, totals in self.totals("revenue").items()}

    @property
    def expected(self) -> dict[str, list[int]]:
        return {region: [total, self.orders[region]] for region, total in self.revenue.items()}


def settings(results: Results, state: Path, *more: str) -> Sequence[str]:
    """The settings of an instance; `more` are further ones, or replace them."""
    name = results.name or "counter"
    topics = ("lines", "counts", "orders", "customers", "revenue") if results.name else ()
    return (
        f"application.id={name}",
        f"client.id={name}",
        f"bootstrap.servers={results.bootstrap}",
        f"state.dir={state}",
        "processing.guarantee=exactly_once_v2",
        "statestore.cache.max.bytes=0",
        "replication.factor=1",
        "repartition.purge.interval.ms=1000",
        "consumer.session.timeout.ms=6000",
        "consumer.heartbeat.interval.ms=1000",
        "consumer.auto.offset.reset=earliest",
        "producer.transaction.timeout.ms=10000",
        *(f"{topic}={results.topic(topic)}" for topic in topics),
        *more,
    )


def application(path: str, results: Results, state: Path, *more: str) -> JavaProcess:
    return JavaProcess(path, results.program, *settings(results, state, *more))


def store(*applications: JavaProcess) -> Counter[str]:
    """The counts in the stores of the instances together; no word is in two of them."""
    found: Counter[str] = Counter()
    for each in applications:
        counts = json.loads(each.answer("store"))
        assert not found.keys() & counts.keys()
        found.update(counts)
    return found

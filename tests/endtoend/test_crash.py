"""kill -9 and a restart: topics, records, committed offsets and quotas are all there, and clients go on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.broker_process import BrokerProcess, within
from tests.support.quota_interfaces import set_by_rest, set_by_wire
from tests.support.real_producers import Librdkafka

pytestmark = pytest.mark.endtoend

TOPICS: Final = {"payments": 3, "clicks": 1}
RECORDS: Final = 500
LIMIT: Final = 200_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, "group.initial.rebalance.delay.ms=0") as running:
        yield running


def test_everything_acknowledged_survives_kill_9(broker: BrokerProcess) -> None:
    _create_topics(broker)
    sent = _produce(broker)
    _commit(broker, "billing", {("payments", 0): 17, ("clicks", 0): 250})
    set_by_rest(broker, {"user": "alice", "client-id": None}, 1_234_567)
    set_by_wire(broker, {"client-id": "reports"}, LIMIT)
    before = _state(broker)

    broker.kill()
    broker.start()

    assert _state(broker) == before
    assert _consume(broker) == sent
    assert _committed(broker, "billing") == {("payments", 0): 17, ("clicks", 0): 250}


def test_a_held_producer_is_held_again_by_the_broker_that_comes_back(broker: BrokerProcess) -> None:
    with Librdkafka(broker.plain, "reports") as producer:
        within(10, lambda: producer.delivered, "the first record")
        set_by_rest(broker, {"client-id": "reports"}, LIMIT)
        within(1, lambda: broker.throttled("reports"), "it is throttled")
        broker.kill()
        before = producer.delivered
        broker.start()
        row = within(15, lambda: broker.throttled("reports"), "it is throttled again")
        assert row["entity"] == {"client-id": "reports"} and row["bound"] == LIMIT
        within(15, lambda: producer.delivered > before, "it goes on, at its rate")


def _create_topics(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.plain})
    made = admin.create_topics([NewTopic(name, count, 1) for name, count in TOPICS.items()])
    for future in made.values():
        future.result(10)


def _produce(broker: BrokerProcess) -> dict[tuple[str, int], list[bytes]]:
    """What the broker has acknowledged, by partition."""
    acknowledged: dict[tuple[str, int], list[bytes]] = {}

    def keep(error: Any, message: Any) -> None:
        assert error is None
        acknowledged.setdefault((message.topic(), message.partition()), []).append(message.value())

    producer = Producer({"bootstrap.servers": broker.plain, "enable.idempotence": True, "linger.ms": 1})
    for number in range(RECORDS):
        for topic, partitions in TOPICS.items():
            value = f"{topic} {number}".encode()
            producer.produce(topic, value, partition=number % partitions, on_delivery=keep)
        producer.poll(0)
    assert producer.flush(20) == 0
    return acknowledged


def _consume(broker: BrokerProcess) -> dict[tuple[str, int], list[bytes]]:
    consumer = Consumer(
        {"bootstrap.servers": broker.plain, "group.id": "reader", "auto.offset.reset": "earliest"}
    )
    consumer.assign([TopicPartition(t, p, 0) for t, count in TOPICS.items() for p in range(count)])
    found: dict[tuple[str, int], list[bytes]] = {}
    for message in _take(consumer, RECORDS * len(TOPICS)):
        found.setdefault((message.topic(), message.partition()), []).append(message.value())
    consumer.close()
    return found


def _take(consumer: Consumer, count: int) -> Iterator[Any]:
    for _ in range(count):
        message = consumer.poll(10)
        assert message is not None and message.error() is None
        yield message
    assert consumer.poll(0.5) is None


def _commit(broker: BrokerProcess, group: str, offsets: dict[tuple[str, int], int]) -> None:
    consumer = Consumer({"bootstrap.servers": broker.plain, "group.id": group})
    places = [TopicPartition(topic, index, offset) for (topic, index), offset in offsets.items()]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def _committed(broker: BrokerProcess, group: str) -> dict[tuple[str, int], int]:
    consumer = Consumer({"bootstrap.servers": broker.plain, "group.id": group})
    places = [TopicPartition(t, p) for t, count in TOPICS.items() for p in range(count)]
    found = consumer.committed(places, timeout=10)
    consumer.close()
    return {(place.topic, place.partition): place.offset for place in found if place.offset >= 0}


def _state(broker: BrokerProcess) -> Any:
    """Topics with their ids, and quotas with who changed them when."""
    topics = AdminClient({"bootstrap.servers": broker.plain}).describe_topics
    import confluent_kafka

    names = confluent_kafka.TopicCollection(list(TOPICS))
    described = {name: future.result(10) for name, future in topics(names).items()}
    ids = {name: (str(topic.topic_id), len(topic.partitions)) for name, topic in described.items()}
    quotas = broker.ask("GET", "/api/v1/client-quotas")["items"]
    return ids, [(rule["entity"], rule["limits"], rule["version"]) for rule in quotas]

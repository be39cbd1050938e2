"""Transactions of confluent-kafka and aiokafka, unmodified: commit, abort, offsets, fencing, timeouts."""

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import aiokafka
import aiokafka.errors
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.endtoend

TIMEOUT = 15


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = (
        "group.initial.rebalance.delay.ms=0",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms=100",
    )
    with BrokerProcess(tmp_path_factory.mktemp("data"), *settings) as process:
        yield process


@pytest.fixture
def topic(broker: BrokerProcess, request: pytest.FixtureRequest) -> str:
    name = re.sub(r"[^a-z_]", "-", request.node.name.lower())[:200]
    admin = AdminClient({"bootstrap.servers": broker.plain})
    for each in admin.create_topics([NewTopic(name, 2, 1)]).values():
        each.result(TIMEOUT)
    return name


def producer_of(broker: BrokerProcess, name: str, **settings: Any) -> Producer:
    return Producer({"bootstrap.servers": broker.plain, "transactional.id": name, "log_level": 0, **settings})


def consumed(broker: BrokerProcess, topic: str, *, committed: bool = True) -> list[bytes]:
    """All values from the beginning to the end of both partitions, in order of the partitions."""
    level = "read_committed" if committed else "read_uncommitted"
    consumer = Consumer(
        {
            "bootstrap.servers": broker.plain,
            "group.id": "reader",
            "isolation.level": level,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    values: list[bytes] = []
    try:
        for partition in range(2):
            consumer.assign([TopicPartition(topic, partition, 0)])
            while True:
                message = consumer.poll(TIMEOUT)
                assert message is not None, "no end of the partition"
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    break
                value = message.value()
                assert value is not None
                values.append(value)
    finally:
        consumer.close()
    return values


def transact(producer: Producer, topic: str, values: list[bytes], *, commit: bool = True) -> None:
    producer.begin_transaction()
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % 2)
    assert producer.flush(TIMEOUT) == 0
    if commit:
        producer.commit_transaction(TIMEOUT)
    else:
        producer.abort_transaction(TIMEOUT)


def test_committed_records_are_read_and_aborted_ones_are_not(broker: BrokerProcess, topic: str) -> None:
    producer = producer_of(broker, topic)
    producer.init_transactions(TIMEOUT)
    transact(producer, topic, [b"a", b"b"])
    transact(producer, topic, [b"lost"] * 4, commit=False)
    transact(producer, topic, [b"c", b"d"])
    assert consumed(broker, topic) == [b"a", b"c", b"b", b"d"]
    assert sorted(consumed(broker, topic, committed=False)) == sorted(
        [b"a", b"b", b"c", b"d"] + [b"lost"] * 4
    )


def test_an_open_transaction_hides_what_follows_it(broker: BrokerProcess, topic: str) -> None:
    producer = producer_of(broker, topic)
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(TIMEOUT) == 0
    plain = Producer({"bootstrap.servers": broker.plain})
    plain.produce(topic, b"plain", partition=0)
    assert plain.flush(TIMEOUT) == 0
    assert consumed(broker, topic) == []
    assert consumed(broker, topic, committed=False) == [b"open", b"plain"]
    producer.commit_transaction(TIMEOUT)
    assert consumed(broker, topic) == [b"open", b"plain"]


def test_a_second_producer_fences_the_first(broker: BrokerProcess, topic: str) -> None:
    first = producer_of(broker, topic)
    first.init_transactions(TIMEOUT)
    first.begin_transaction()
    first.produce(topic, b"zombie", partition=0)
    assert first.flush(TIMEOUT) == 0
    second = producer_of(broker, topic)
    second.init_transactions(TIMEOUT)
    transact(second, topic, [b"alive"])
    with pytest.raises(KafkaException) as raised:
        first.commit_transaction(TIMEOUT)
    assert raised.value.args[0].code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
    assert consumed(broker, topic) == [b"alive"]


def test_a_transaction_that_times_out_is_aborted(broker: BrokerProcess, topic: str) -> None:
    producer = producer_of(broker, topic, **{"transaction.timeout.ms": 1_000})
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    producer.produce(topic, b"late", partition=0)
    assert producer.flush(TIMEOUT) == 0
    plain = Producer({"bootstrap.servers": broker.plain})
    plain.produce(topic, b"after", partition=0)
    assert plain.flush(TIMEOUT) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": broker.plain,
            "group.id": topic,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(TIMEOUT)  # the waiting fetch completes with the abort
    consumer.close()
    assert message is not None and message.value() == b"after"
    with pytest.raises(KafkaException):
        producer.commit_transaction(TIMEOUT)


@pytest.mark.parametrize("commit", [True, False])
def test_offsets_take_effect_with_the_commit(broker: BrokerProcess, topic: str, commit: bool) -> None:
    source = Producer({"bootstrap.servers": broker.plain})
    source.produce(topic, b"in", partition=0)
    assert source.flush(TIMEOUT) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": broker.plain,
            "group.id": f"group-{topic}",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    message = consumer.poll(TIMEOUT)
    assert message is not None and message.error() is None
    producer = producer_of(broker, topic)
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    position = [TopicPartition(topic, 0, 1)]
    producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), TIMEOUT)
    if commit:
        producer.commit_transaction(TIMEOUT)
    else:
        producer.abort_transaction(TIMEOUT)
    (found,) = consumer.committed([TopicPartition(topic, 0)], TIMEOUT)
    consumer.close()
    assert found.offset == (1 if commit else -1001)


def run_in_asyncio(work: Any) -> None:
    """Run aiokafka, which needs asyncio, outside the test's own event loop."""
    asyncio.run(asyncio.wait_for(work, 60))


def test_aiokafka_commits_aborts_and_is_fenced(broker: BrokerProcess, topic: str) -> None:
    async def work() -> None:
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker.plain, transactional_id=topic
        ) as producer:
            async with producer.transaction():
                await producer.send_and_wait(topic, b"a", partition=0)
                position = {aiokafka.TopicPartition(topic, 0): aiokafka.OffsetAndMetadata(7, "")}
                await producer.send_offsets_to_transaction(position, f"group-{topic}")
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"lost", partition=0)
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send_and_wait(topic, b"b", partition=1)
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"zombie", partition=0)
            async with aiokafka.AIOKafkaProducer(bootstrap_servers=broker.plain, transactional_id=topic):
                pass
            with pytest.raises(aiokafka.errors.ProducerFenced):
                await producer.commit_transaction()
        async with aiokafka.AIOKafkaConsumer(
            bootstrap_servers=broker.plain,
            group_id=f"group-{topic}",
            isolation_level="read_committed",
            enable_auto_commit=False,
        ) as consumer:
            first, second = (aiokafka.TopicPartition(topic, index) for index in (0, 1))
            consumer.assign([first, second])
            assert await consumer.committed(first) == 7
            await consumer.seek_to_beginning(first, second)
            values = sorted([(await consumer.getone()).value for _ in range(2)])
            assert values == [b"a", b"b"]

    run_in_asyncio(work())
    assert consumed(broker, topic) == [b"a", b"b"]


def test_a_killed_broker_goes_on(broker: BrokerProcess, topic: str) -> None:
    committed = producer_of(broker, topic)
    committed.init_transactions(TIMEOUT)
    transact(committed, topic, [b"a", b"b"])
    other = producer_of(broker, f"{topic}-open")
    other.init_transactions(TIMEOUT)
    other.begin_transaction()
    other.produce(topic, b"open", partition=0)
    assert other.flush(TIMEOUT) == 0
    broker.kill()
    broker.start()
    assert consumed(broker, topic) == [b"a", b"b"]
    other.commit_transaction(TIMEOUT)
    transact(committed, topic, [b"c", b"d"])
    assert consumed(broker, topic) == [b"a", b"open", b"c", b"b", b"d"]

"""Consumer groups of each Python client, directly and through a gateway: rebalances of both protocols,
offsets that are committed, altered and deleted, offsets in transactions.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from tests.support import kafka_tools
from tests.support.broker_process import within
from tests.support.gateway_process import Way
from tests.support.real_clients import CLIENTS, Target, create
from tests.support.real_clients import kafka as kafka_python

pytestmark = kafka_tools.pytestmark

TIMEOUT: Final = 30
CLASSIC: Final = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500}


def consumer(way: Way, group: str, topic: str, **settings: Any) -> Consumer:
    """Of the classic protocol unless `kip_848`."""
    protocol = {"group.protocol": "consumer"} if settings.pop("kip_848", False) else CLASSIC
    made = Consumer(
        {
            "bootstrap.servers": way.plain,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **protocol,
            **settings,
        }
    )
    made.subscribe([topic])
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


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"partition.assignment.strategy": "roundrobin"},
        {"partition.assignment.strategy": "cooperative-sticky"},
        {"kip_848": True},
    ],
    ids=["range", "roundrobin", "cooperative", "kip-848"],
)
def test_members_of_confluent_take_over_from_each_other(way: Way, settings: dict[str, Any]) -> None:
    topic = way.topic("shared")
    create(Target(way.plain), topic, 6)
    members: list[Consumer] = []

    def shares() -> list[int]:
        for each in members:
            each.poll(0.05)
        return [len(each.assignment()) for each in members]

    for count in (1, 2, 3):
        members.append(consumer(way, topic, topic, **settings))
        within(TIMEOUT, lambda count=count: shares() == [6 // count] * count, f"{count} members share")
    members.pop().close()
    within(TIMEOUT, lambda: shares() == [3, 3], "who leaves is replaced")
    CLIENTS[0].produce(Target(way.plain), topic, [b"%d" % number for number in range(600)], partition=None)
    values: set[bytes] = set()

    def reads() -> int:
        for each in members:
            values.update(message.value() or b"" for message in each.consume(600, 0.1))
        return len(values)

    within(TIMEOUT, lambda: reads() == 600, "every record comes to one of them")
    for each in members:
        try:
            each.commit(asynchronous=False)
        except KafkaException as error:
            # All records may have been in the partitions of the other member.
            if error.args[0].code() != KafkaError._NO_OFFSET:
                raise
        each.close()
    admin = AdminClient({"bootstrap.servers": way.plain})
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(topic)])[topic].result(TIMEOUT)
    assert sum(each.offset for each in found.topic_partitions if each.offset > 0) == 600


class Member(threading.Thread):
    """A consumer that polls in a thread of its own: one that is not polled holds up its whole group."""

    def __init__(self, poll: Callable[[threading.Event, Callable[[int], None]], None]) -> None:
        super().__init__(daemon=True)
        self.share = 0
        self._poll = poll
        self._leaves = threading.Event()
        self.start()

    def run(self) -> None:
        self._poll(self._leaves, self._shares)

    def _shares(self, count: int) -> None:
        self.share = count

    def leave(self) -> None:
        self._leaves.set()
        self.join(TIMEOUT)
        assert not self.is_alive()


def kafka_python_member(way: Way, group: str, topic: str) -> Member:
    def poll(leaves: threading.Event, on_count: Callable[[int], None]) -> None:
        source = kafka_python.KafkaConsumer(
            topic,
            bootstrap_servers=way.plain.split(","),
            group_id=group,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=500,
        )
        while not leaves.is_set():
            source.poll(200)
            on_count(len(source.assignment()))
        source.close()

    return Member(poll)


def aiokafka_member(way: Way, group: str, topic: str) -> Member:
    def poll(leaves: threading.Event, on_count: Callable[[int], None]) -> None:
        async def scenario() -> None:
            async with AIOKafkaConsumer(
                topic,
                bootstrap_servers=way.plain,
                group_id=group,
                session_timeout_ms=6_000,
                heartbeat_interval_ms=500,
            ) as source:
                while not leaves.is_set():
                    await source.getmany(timeout_ms=200)
                    on_count(len(source.assignment()))

        asyncio.run(scenario())

    return Member(poll)


@pytest.mark.parametrize("make", [kafka_python_member, aiokafka_member])
def test_members_of_python_take_over_from_each_other(way: Way, make: Callable[..., Member]) -> None:
    topic = way.topic("shared")
    create(Target(way.plain), topic, 6)
    members: list[Member] = []
    for count in (1, 2, 3):
        members.append(make(way, topic, topic))
        wanted = [6 // count] * count
        within(
            TIMEOUT,
            lambda wanted=wanted: [each.share for each in members] == wanted,
            f"{count} members share",
        )
    members.pop().leave()
    within(TIMEOUT, lambda: [each.share for each in members] == [3, 3], "who leaves is replaced")
    for each in members:
        each.leave()


def test_groups_are_listed_altered_and_deleted(way: Way) -> None:
    topic = way.topic("managed")
    create(Target(way.plain), topic)
    CLIENTS[0].produce(Target(way.plain), topic, [b"1", b"2", b"3"])
    admin = AdminClient({"bootstrap.servers": way.plain})
    reader = consumer(way, topic, topic)
    assert read(reader, 3) == [b"1", b"2", b"3"]
    reader.commit(asynchronous=False)
    with pytest.raises(KafkaException) as busy:
        admin.delete_consumer_groups([topic])[topic].result(TIMEOUT)
    assert busy.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    reader.close()
    listed = admin.list_consumer_groups().result(TIMEOUT)
    assert topic in {group.group_id for group in listed.valid} and not listed.errors
    wanted = ConsumerGroupTopicPartitions(topic, [TopicPartition(topic, 0, 1)])
    admin.alter_consumer_group_offsets([wanted])[topic].result(TIMEOUT)
    again = consumer(way, topic, topic)
    assert read(again, 2) == [b"2", b"3"]
    again.close()
    admin.delete_consumer_groups([topic])[topic].result(TIMEOUT)
    listed = admin.list_consumer_groups().result(TIMEOUT)
    assert topic not in {group.group_id for group in listed.valid}


def test_offsets_are_committed_in_a_transaction(way: Way) -> None:
    """Read, transform, write: what was aborted is read again, and written once."""
    source, sink = way.topic("source"), way.topic("sink")
    for topic in (source, sink):
        create(Target(way.plain), topic)
    CLIENTS[0].produce(Target(way.plain), source, [b"%d" % number for number in range(10)])
    producer = Producer({"bootstrap.servers": way.plain, "transactional.id": source})
    producer.init_transactions(TIMEOUT)
    for commit in (False, True):
        reader = consumer(way, source, source)
        values = read(reader, 10)
        assert values == [b"%d" % number for number in range(10)]
        producer.begin_transaction()
        for value in values:
            producer.produce(sink, value * 2)
        position = reader.position(reader.assignment())
        producer.send_offsets_to_transaction(position, reader.consumer_group_metadata(), TIMEOUT)
        (producer.commit_transaction if commit else producer.abort_transaction)(TIMEOUT)
        reader.close()
    written = CLIENTS[0].read(Target(way.plain), sink, 10, committed=True)
    assert written == [b"%d" % number * 2 for number in range(10)]
    admin = AdminClient({"bootstrap.servers": way.plain})
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(source)])[source].result(TIMEOUT)
    assert [each.offset for each in found.topic_partitions] == [10]


def test_an_idle_fetch_is_answered_when_a_record_comes(way: Way) -> None:
    """The fetch waits at the broker for up to a minute; the gateway must not hold the record up."""
    topic = way.topic("waiting")
    create(Target(way.plain), topic)
    settings = {"bootstrap.servers": way.plain, "group.id": topic, "fetch.wait.max.ms": 60_000}
    reader = Consumer({**settings, "socket.timeout.ms": 90_000})
    reader.assign([TopicPartition(topic, 0, 0)])
    assert reader.poll(2) is None
    began = time.monotonic()
    CLIENTS[0].produce(Target(way.plain), topic, [b"now"])
    message = reader.poll(TIMEOUT)
    took = time.monotonic() - began
    reader.close()
    assert message is not None and message.value() == b"now"
    assert took < 5

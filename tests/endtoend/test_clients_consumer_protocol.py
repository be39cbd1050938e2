"""confluent-kafka (librdkafka) with `group.protocol=consumer` (KIP-848): rebalances, expressions, static
members, kills, and a group that changes its protocol under load.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.broker_process import BrokerProcess, within

pytestmark = pytest.mark.endtoend

TIMEOUT = 15
FAST = (
    "group.initial.rebalance.delay.ms=200",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=200",
    "group.consumer.min.session.timeout.ms=1000",
    "group.consumer.session.timeout.ms=6000",
)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, *FAST) as process:
        yield process


class Members:
    """The consumers of a test; each is closed at its end.

    Each is polled by a thread of its own, as in an application. A commit waits behind the JoinGroup of its
    connection, which waits until all other members have been polled: one thread for all would wait for ever.
    """

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.open: dict[Consumer, Polling] = {}
        self.read: Counter[tuple[int, int]] = Counter()

    def admin(self) -> AdminClient:
        """Return a new client. One of librdkafka 2.16 that saw its broker restart may not ask for the
        coordinator, though it is connected, until its request times out.
        """
        return AdminClient({"bootstrap.servers": self.broker.plain})

    def add(self, *topics: str, protocol: str = "consumer", **settings: Any) -> Consumer:
        """Subscribe a new consumer of the group "g" that reads from the start and commits itself."""
        common = {"bootstrap.servers": self.broker.plain, "group.id": "g", "enable.auto.commit": False}
        consumer = Consumer(
            {**common, "group.protocol": protocol, "auto.offset.reset": "earliest", **settings}
        )
        consumer.subscribe(list(topics))
        self.open[consumer] = Polling(consumer, self.read)
        return consumer

    def close(self, consumer: Consumer) -> None:
        self.open.pop(consumer).stop()
        consumer.close()

    def until(self, is_so: Callable[[], bool]) -> None:
        within(60, is_so, "what the test waits for")

    def assigned(self) -> list[list[int]]:
        return sorted(sorted(each.partition for each in polling.assigned) for polling in self.open.values())

    def committed(self) -> list[int]:
        """Return the committed offsets in order of partition."""
        admin = self.admin()
        (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("g")]).values()
        found = sorted(future.result(TIMEOUT).topic_partitions, key=lambda each: each.partition)
        return [each.offset for each in found]

    def described(self) -> Any:
        admin = self.admin()
        (future,) = admin.describe_consumer_groups(["g"]).values()
        return future.result(TIMEOUT)


class Polling:
    """A thread that polls a consumer and commits each record, which it counts by partition and offset. Only
    it calls the consumer, whose assignment as of the last poll is `assigned`.
    """

    def __init__(self, consumer: Consumer, read: Counter[tuple[int, int]]) -> None:
        self._consumer, self._read = consumer, read
        self.assigned: list[TopicPartition] = []
        self._is_stopped = False
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Return when the last commit is done."""
        self._is_stopped = True
        self._thread.join()

    def _run(self) -> None:
        while not self._is_stopped:
            message = self._consumer.poll(0.1)
            self.assigned = self._consumer.assignment()
            if message is not None and message.error() is None:
                self._read[message.partition(), message.offset()] += 1
                with suppress(KafkaException):  # while the group rebalances; it is read again
                    self._consumer.commit(message=message, asynchronous=False)


@pytest.fixture
def members(broker: BrokerProcess) -> Iterator[Members]:
    found = Members(broker)
    admin = found.admin()
    for future in admin.create_topics([NewTopic("read", 4, 1)]).values():
        future.result(TIMEOUT)
    yield found
    for consumer in list(found.open):
        found.close(consumer)


def produce(broker: BrokerProcess, count: int, topic: str = "read", partitions: int = 4) -> None:
    producer = Producer({"bootstrap.servers": broker.plain})
    for number in range(count):
        producer.produce(topic, str(number), partition=number % partitions)
    assert producer.flush(TIMEOUT) == 0


def test_members_join_commit_and_leave(broker: BrokerProcess, members: Members) -> None:
    produce(broker, 40)
    first = members.add("read")
    members.until(lambda: len(members.read) == 40)
    members.add("read", **{"group.remote.assignor": "uniform"})
    members.until(lambda: members.assigned() == [[0, 1], [2, 3]])
    group = members.described()
    assert (group.state.name, group.type.name) == ("STABLE", "CONSUMER")
    assert [len(each.assignment.topic_partitions) for each in group.members] == [2, 2]
    members.close(first)
    members.until(lambda: members.assigned() == [[0, 1, 2, 3]])
    assert members.committed() == [10, 10, 10, 10]
    # Every record was committed before the partition moved, so that nobody has read it again.
    assert set(members.read.values()) == {1}


def test_a_regular_expression_finds_new_topics(broker: BrokerProcess, members: Members) -> None:
    consumer = members.add("^re.*")
    members.until(lambda: members.assigned() == [[0, 1, 2, 3]])
    admin = members.admin()
    for future in admin.create_topics([NewTopic("ready", 1, 1)]).values():
        future.result(TIMEOUT)
    members.until(lambda: "ready" in {each.topic for each in members.open[consumer].assigned})


def test_a_static_member_keeps_its_partitions(broker: BrokerProcess, members: Members) -> None:
    one = members.add("read", **{"group.instance.id": "one"})
    members.add("read", **{"group.instance.id": "two"})
    members.until(lambda: members.assigned() == [[0, 1], [2, 3]])
    before = sorted(each.partition for each in members.open[one].assigned)
    members.close(one)
    again = members.add("read", **{"group.instance.id": "one"})
    members.until(lambda: bool(members.open[again].assigned))
    assert sorted(each.partition for each in members.open[again].assigned) == before


def test_members_carry_on_after_a_kill(broker: BrokerProcess, members: Members) -> None:
    produce(broker, 40)
    members.add("read")
    members.add("read")
    members.until(lambda: members.assigned() == [[0, 1], [2, 3]] and len(members.read) == 40)
    ids = {each.member_id for each in members.described().members}
    broker.kill()
    broker.start()
    produce(broker, 40)
    members.until(lambda: len(members.read) == 80)
    assert members.assigned() == [[0, 1], [2, 3]]
    assert {each.member_id for each in members.described().members} == ids
    assert set(members.read.values()) == {1}


@pytest.mark.parametrize(("before", "after"), [("classic", "consumer"), ("consumer", "classic")])
def test_a_group_changes_its_protocol_under_load(
    broker: BrokerProcess, members: Members, before: str, after: str
) -> None:
    classic = {"partition.assignment.strategy": "cooperative-sticky", "session.timeout.ms": 6_000}

    def add(protocol: str) -> Consumer:
        return members.add("read", protocol=protocol, **(classic if protocol == "classic" else {}))

    producer = Producer({"bootstrap.servers": broker.plain})
    sent = 0

    def roll() -> bool:
        nonlocal sent
        if sent < 400:
            producer.produce("read", str(sent), partition=sent % 4)
            sent += 1
        producer.poll(0)
        return [len(each) for each in members.assigned()] == [2, 2]

    old = [add(before), add(before)]
    members.until(roll)
    for each in old:
        add(after)
        members.close(each)
        members.until(roll)
    members.until(lambda: roll() and sent == 400)
    assert producer.flush(TIMEOUT) == 0
    members.until(lambda: len(members.read) == 400)
    within(TIMEOUT, lambda: members.described().state.name == "STABLE", "a stable group")
    assert members.described().type.name == after.upper()

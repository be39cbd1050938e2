"""Partitions move between log directories under a producer at full speed: the throttle, and kill -9."""

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pytest
import trio
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from broker.protocol.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from tests.support.broker_process import BrokerProcess, within
from tests.support.produce import create_topic
from tests.support.wire import connect

pytestmark = [pytest.mark.endtoend, pytest.mark.slow]

TOPIC: Final = "moving"
THROTTLE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
LIMIT: Final = 10_000_000
SECONDS: Final = 12


class Flood:
    """An idempotent producer that writes numbers, as fast as it may; `acknowledged` of them, in order."""

    def __init__(self, bootstrap: str, size: int) -> None:
        self._settings = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "queue.buffering.max.kbytes": 65_536,
            "message.timeout.ms": 120_000,
        }
        self._filling = b"x" * (size - 12)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.size = size
        self.acknowledged: list[tuple[int, int]] = []
        self.failures: list[object] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(120)
        assert not self._thread.is_alive() and self.failures == []

    def rate(self, seconds: float) -> float:
        """Bytes per second that are acknowledged from now on."""
        before, begun = len(self.acknowledged), time.monotonic()
        time.sleep(seconds)
        return (len(self.acknowledged) - before) * self.size / (time.monotonic() - begun)

    def _run(self) -> None:
        producer = Producer(self._settings)
        number = 0

        def on_delivery(error: Any, message: Any, number: int) -> None:
            if error is None:
                self.acknowledged.append((message.offset(), number))
            else:
                self.failures.append(error)

        while not self._ended.is_set():
            value = b"%012d" % number + self._filling
            try:
                producer.produce(
                    TOPIC, value, partition=0, on_delivery=lambda e, m, n=number: on_delivery(e, m, n)
                )
            except BufferError:
                producer.poll(0.01)
                continue
            number += 1
            producer.poll(0)
        assert producer.flush(60) == 0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(
        tmp_path,
        f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'}",
        "log.segment.bytes=33554432",
        "events.topics=",
    ) as running:
        assert ask(running, create_topic(TOPIC), 5).topics[0].error_code == 0
        yield running


def ask(broker: BrokerProcess, message: Any, version: int) -> Any:
    """Over a connection of its own."""

    async def over() -> Any:
        client = await connect(int(broker.plain.rpartition(":")[2]))
        async with client.stream:
            return await client.ask(message, version)

    return trio.run(over)


def move(broker: BrokerProcess, name: str) -> None:
    topics = [AlterReplicaLogDirTopic(TOPIC, [0])]
    request = AlterReplicaLogDirsRequest([AlterReplicaLogDir(str(broker.directory / name), topics)])
    assert ask(broker, request, 2).results[0].partitions[0].error_code == 0


def throttle(broker: BrokerProcess, rate: int) -> None:
    entry = ConfigEntry(THROTTLE, str(rate), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    client = AdminClient({"bootstrap.servers": broker.plain})
    (result,) = client.incremental_alter_configs([resource]).values()
    result.result(10)


def copied(broker: BrokerProcess) -> tuple[int, float]:
    """Bytes of the future replica, and when they were there."""
    answer = ask(broker, DescribeLogDirsRequest([DescribableLogDirTopic(TOPIC, [0])]), 4)
    (size,) = [
        partition.partition_size
        for each in answer.results
        for topic in each.topics
        for partition in topic.partitions
        if partition.is_future_key
    ]
    return size, time.monotonic()


def stored(broker: BrokerProcess, end: int) -> list[int]:
    """The numbers in the log, by offset."""
    consumer = Consumer(
        {"bootstrap.servers": broker.plain, "group.id": "none", "fetch.max.bytes": 50_000_000}
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    numbers: list[int] = []
    while len(numbers) < end:
        for message in consumer.consume(10_000, 10):
            assert message.error() is None and message.offset() == len(numbers)
            numbers.append(int(message.value()[:12]))
    consumer.close()
    return numbers


def test_a_move_under_a_flood_keeps_to_its_throttle(broker: BrokerProcess) -> None:
    """Over more than ten seconds within 2 %, from the second one on: one second's worth may go at once."""
    with Flood(broker.plain, 10_000) as flood:
        within(30, lambda: len(flood.acknowledged) * flood.size > 20 * LIMIT, "there is something to move")
        alone = flood.rate(5)
        throttle(broker, LIMIT)
        move(broker, "b")
        time.sleep(2)
        first, begun = copied(broker)
        beside = flood.rate(SECONDS)
        last, ended = copied(broker)
        rate = (last - first) / (ended - begun)
        print(
            f"{rate / LIMIT:.4f} of the throttle; the producer {alone / 1e6:.1f} and {beside / 1e6:.1f} MB/s"
        )
        assert rate == pytest.approx(LIMIT, rel=0.02)
        throttle(broker, 2**62)
    within(60, lambda: not (broker.directory / "a" / f"{TOPIC}-0").exists(), "it has moved")


def test_no_kill_loses_or_doubles_what_was_acknowledged(broker: BrokerProcess) -> None:
    """Six rounds there and back, each cut off at another moment: early, in the middle, at the swap."""
    moments = random.Random(7)
    throttle(broker, 40_000_000)
    with Flood(broker.plain, 1_000) as flood:
        within(30, lambda: len(flood.acknowledged) > 20_000, "the first records")
        for turn in range(6):
            move(broker, "ba"[turn % 2])
            time.sleep(moments.uniform(0, 2))
            before = len(flood.acknowledged)
            broker.kill()
            broker.start()
            within(30, lambda before=before: len(flood.acknowledged) > before, "the producer goes on")
    numbers = stored(broker, flood.acknowledged[-1][0] + 1)
    assert all(numbers[offset] == number for offset, number in flood.acknowledged)
    assert len(set(numbers)) == len(numbers)
    print(f"{len(numbers)} records, all once")

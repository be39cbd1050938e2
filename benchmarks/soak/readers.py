"""Members of consumer groups of every client: they read all topics of the soak, and commit once a second."""

import asyncio
import time
import warnings
from collections.abc import Mapping
from typing import Any, Final

import aiokafka
import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from benchmarks.soak.group_ledger import GroupLedger, Place
from benchmarks.soak.producers import librdkafka_settings
from benchmarks.soak.stage import TOPICS, Stage

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas in a way that is going
    import kafka

COMMIT_EVERY_S: Final = 1.0
SESSION_TIMEOUT_MS: Final = 10_000


class Read(dict[Place, int]):
    """The offsets to commit. Empty after a rebalance: another member may have committed more since."""

    def note(self, group: GroupLedger, records: Mapping[Any, Any]) -> None:
        for topic_partition, found in records.items():
            place = Place(topic_partition.topic, topic_partition.partition)
            for record in found:
                group.delivered(place, record.offset)
                self[place] = record.offset + 1


class KafkaPythonListener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, read: Read) -> None:
        self._read = read

    def on_partitions_revoked(self, revoked: object) -> None:
        self._read.clear()

    def on_partitions_assigned(self, assigned: object) -> None:
        self._read.clear()


class AIOKafkaListener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, read: Read) -> None:
        self._read = read

    async def on_partitions_revoked(self, revoked: object) -> None:
        self._read.clear()

    async def on_partitions_assigned(self, assigned: object) -> None:
        self._read.clear()


def librdkafka(stage: Stage, until: float) -> None:
    group = stage.groups["readers-librdkafka"]
    settings = {
        "group.id": group.name,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": SESSION_TIMEOUT_MS,
    }
    consumer = confluent_kafka.Consumer(librdkafka_settings(stage, group.name, **settings))
    try:
        consumer.subscribe(list(TOPICS))
        due = time.monotonic() + COMMIT_EVERY_S
        while time.monotonic() < until and not stage.readers_end.is_set():
            for message in consumer.consume(500, timeout=0.2):
                if error := message.error():
                    raise KafkaException(error)
                topic, partition, offset = message.topic(), message.partition(), message.offset()
                assert topic is not None and partition is not None and offset is not None
                group.delivered(Place(topic, partition), offset)
            if time.monotonic() >= due:
                _commit_librdkafka(consumer, group)
                due = time.monotonic() + COMMIT_EVERY_S
    finally:
        consumer.close()


def _commit_librdkafka(consumer: confluent_kafka.Consumer, group: GroupLedger) -> None:
    try:
        done = consumer.commit(asynchronous=False) or []
    except KafkaException as error:
        if error.args[0].code() != KafkaError._NO_OFFSET:  # nothing was read since the last commit
            raise
        return
    group.committed({Place(each.topic, each.partition): each.offset for each in done if each.error is None})


def kafka_python(stage: Stage, until: float) -> None:
    group = stage.groups["readers-kafka-python"]
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=stage.bootstrap,
        client_id=group.name,
        group_id=group.name,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_TIMEOUT_MS,
    )
    try:
        due, read = time.monotonic() + COMMIT_EVERY_S, Read()
        consumer.subscribe(list(TOPICS), listener=KafkaPythonListener(read))
        while time.monotonic() < until and not stage.readers_end.is_set():
            read.note(group, consumer.poll(200, max_records=500))
            if read and time.monotonic() >= due:
                places = {
                    kafka.TopicPartition(*place): kafka.OffsetAndMetadata(offset, "", -1)
                    for place, offset in read.items()
                }
                consumer.commit(places)
                group.committed(read)
                read.clear()
                due = time.monotonic() + COMMIT_EVERY_S
    finally:
        consumer.close(autocommit=False)


def aiokafka_(stage: Stage, until: float) -> None:
    asyncio.run(_aiokafka(stage, until))


async def _aiokafka(stage: Stage, until: float) -> None:
    group = stage.groups["readers-aiokafka"]
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=stage.bootstrap,
        client_id=group.name,
        group_id=group.name,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_TIMEOUT_MS,
    )
    due, read = time.monotonic() + COMMIT_EVERY_S, Read()
    consumer.subscribe(list(TOPICS), listener=AIOKafkaListener(read))
    async with consumer:
        while time.monotonic() < until and not stage.readers_end.is_set():
            read.note(group, await consumer.getmany(timeout_ms=200, max_records=500))
            if read and time.monotonic() >= due:
                await consumer.commit(
                    {aiokafka.TopicPartition(*place): offset for place, offset in read.items()}
                )
                group.committed(read)
                read.clear()
                due = time.monotonic() + COMMIT_EVERY_S

"""Sessions of kafka-python: an idempotent producer, and a member of a group."""

import time
import warnings
from functools import partial
from typing import Any

from benchmarks.soak.clients.records import Read
from benchmarks.soak.clients.session import (
    COMMIT_EVERY_S,
    EACH_TICK,
    MOST_IN_HAND,
    PATIENCE_S,
    SESSION_TIMEOUT_MS,
    InHand,
    Session,
)
from benchmarks.soak.ledger import make_value
from benchmarks.soak.topics import PARTITIONS, TOPICS

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas in a way that is going
    import kafka


def produce(session: Session) -> None:
    topic = f"soak-{session.name}"
    in_hand = InHand()
    producer = kafka.KafkaProducer(
        bootstrap_servers=session.bootstrap,
        client_id=session.name,
        linger_ms=5,
        delivery_timeout_ms=PATIENCE_S * 1_000,
        max_block_ms=PATIENCE_S * 1_000,
    )

    def acknowledged(number: int, metadata: Any) -> None:
        in_hand.change(-1)
        session.tell.acknowledged(topic, metadata.partition, metadata.offset, number)

    def failed(error: Any) -> None:
        in_hand.change(-1)
        session.tell.error(session.name, f"not delivered: {type(error).__name__}: {error}")

    try:
        for _ in session.ticks():
            for number in session.numbers(topic, EACH_TICK if in_hand.count < MOST_IN_HAND else 0):
                in_hand.change(1)
                future = producer.send(topic, make_value(topic, number), partition=number % PARTITIONS)
                future.add_callback(partial(acknowledged, number))
                future.add_errback(failed)
        producer.flush(PATIENCE_S)
    finally:
        session.tell.closing()
        producer.close(timeout=10)


class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, read: Read) -> None:
        self._read = read

    def on_partitions_revoked(self, revoked: object) -> None:
        self._read.clear()

    def on_partitions_assigned(self, assigned: object) -> None:
        self._read.clear()


def read(session: Session) -> None:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=session.bootstrap,
        client_id=session.name,
        group_id=session.name,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_TIMEOUT_MS,
    )
    try:
        due, found = time.monotonic() + COMMIT_EVERY_S, Read()
        consumer.subscribe(list(TOPICS), listener=Listener(found))
        while session.goes_on:
            found.note(session, consumer.poll(200, max_records=500))
            if found and time.monotonic() >= due:
                places = {
                    kafka.TopicPartition(*place): kafka.OffsetAndMetadata(offset, "", -1)
                    for place, offset in found.items()
                }
                consumer.commit(places)
                session.tell.committed(session.name, found)
                found.clear()
                due = time.monotonic() + COMMIT_EVERY_S
    finally:
        session.tell.closing()
        consumer.close(autocommit=False)

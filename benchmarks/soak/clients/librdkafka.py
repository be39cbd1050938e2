"""Sessions of confluent-kafka: a producer, a transactional one, a member of a group, and a copier.

The idempotent producer retries by itself for longer than any fault lasts. The transactional one commits four
of five transactions and aborts the others. The copier reads committed records of one topic and writes them to
another in transactions, with its offsets.
"""

import random
import time
from functools import partial
from typing import Any, Final

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from benchmarks.soak.clients.session import (
    COMMIT_EVERY_S,
    EACH_TICK,
    MOST_IN_HAND,
    PATIENCE_S,
    SESSION_TIMEOUT_MS,
    Session,
)
from benchmarks.soak.ledger import make_value, number_of
from benchmarks.soak.topics import COPY, PARTITIONS, SOURCE, TOPICS, TRANSACTIONS

COPIED_WITHIN_S: Final = 30
"""For the offsets and the commit of one copy. After a kill, librdkafka may wait for all of it; the next
session begins where the copies end.
"""

Sent = list[tuple[int, int, int]]
"""Partition, offset and number of each acknowledged record of a transaction."""


def settings(bootstrap: str, name: str, **others: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "client.id": name,
        "log_level": 0,
        "reconnect.backoff.max.ms": 1_000,
        **others,
    }


def _settings(session: Session, **others: Any) -> dict[str, Any]:
    complain = partial(session.tell.error, session.name)
    return settings(session.bootstrap, session.name, error_cb=complain, **others)


def produce(session: Session) -> None:
    idempotent = {"enable.idempotence": True, "linger.ms": 5, "delivery.timeout.ms": PATIENCE_S * 1_000}
    producer = confluent_kafka.Producer(_settings(session, **idempotent))

    def delivered(number: int, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            session.tell.error(session.name, f"not delivered: {error.str()}")
        else:
            session.tell.acknowledged(SOURCE, message.partition(), message.offset(), number)

    for _ in session.ticks():
        for number in session.numbers(SOURCE, EACH_TICK if len(producer) < MOST_IN_HAND else 0):
            producer.produce(
                SOURCE,
                make_value(SOURCE, number),
                partition=number % PARTITIONS,
                on_delivery=partial(delivered, number),
            )
        producer.poll(0)
    if left := producer.flush(PATIENCE_S):
        session.tell.error(session.name, f"{left} records without an answer")
    session.tell.closing()


def produce_transactions(session: Session) -> None:
    """A transaction that does not end here is undecided: the soak knows that it began."""
    chance = random.Random(session.seed + session.number)
    producer = _transactional_producer(session)
    for _ in session.ticks():
        sent: Sent = []
        numbers = session.numbers(TRANSACTIONS, chance.randint(1, 20))
        session.tell.begin(TRANSACTIONS, list(numbers))
        producer.begin_transaction()
        for number in numbers:
            _send_in_transaction(producer, TRANSACTIONS, number, sent)
        if chance.random() < 0.8:
            producer.commit_transaction(PATIENCE_S)
            session.tell.commit(TRANSACTIONS, sent)
        else:
            producer.abort_transaction(PATIENCE_S)
            session.tell.abort(TRANSACTIONS)
    session.tell.closing()


def _transactional_producer(session: Session) -> confluent_kafka.Producer:
    transactional = {
        "transactional.id": f"soak-{session.name}",
        "transaction.timeout.ms": 60_000,
        "linger.ms": 5,
        # Otherwise send_offsets_to_transaction may wait for a broker that librdkafka has given up.
        "metadata.recovery.strategy": "none",
    }
    producer = confluent_kafka.Producer(_settings(session, **transactional))
    producer.init_transactions(PATIENCE_S)
    return producer


def _send_in_transaction(producer: confluent_kafka.Producer, topic: str, number: int, sent: Sent) -> None:
    def delivered(error: KafkaError | None, message: Any) -> None:
        if error is None:
            sent.append((message.partition(), message.offset(), number))

    value = make_value(topic, number)
    producer.produce(topic, value, partition=number % PARTITIONS, on_delivery=delivered)
    producer.poll(0)


def read(session: Session) -> None:
    """Be a member of a group: read all topics of the soak, and commit once a second."""
    group = session.name
    consumer = _consumer(session, group)
    try:
        consumer.subscribe(list(TOPICS))
        due = time.monotonic() + COMMIT_EVERY_S
        while session.goes_on:
            offsets: dict[tuple[str, int], list[int]] = {}
            for message in _messages(consumer, 500):
                offsets.setdefault((message.topic(), message.partition()), []).append(message.offset())
            session.tell.delivered(group, offsets)
            if time.monotonic() >= due:
                _commit(session, consumer)
                due = time.monotonic() + COMMIT_EVERY_S
    finally:
        session.tell.closing()
        consumer.close()


def copy(session: Session) -> None:
    """Each error ends the session: the next one begins at the committed offsets, as the copies do."""
    producer = _transactional_producer(session)
    consumer = _consumer(session, session.name, **{"isolation.level": "read_committed"})
    try:
        consumer.subscribe([SOURCE])
        while session.goes_on:
            if not (messages := _messages(consumer, 200)):
                continue
            sent: Sent = []
            producer.begin_transaction()
            for message in messages:
                number = number_of(SOURCE, message.value() or b"")
                if number is None:
                    raise ValueError(f"{SOURCE}-{message.partition()} {message.offset()}: an altered value")
                _send_in_transaction(producer, COPY, number, sent)
            places = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), COPIED_WITHIN_S)
            producer.commit_transaction(COPIED_WITHIN_S)
            session.tell.commit(COPY, sent)
    finally:
        session.tell.closing()
        consumer.close()


def _consumer(session: Session, group: str, **others: Any) -> confluent_kafka.Consumer:
    member = {
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": SESSION_TIMEOUT_MS,
    }
    return confluent_kafka.Consumer(_settings(session, **member, **others))


def _messages(consumer: confluent_kafka.Consumer, most: int) -> list[Any]:
    """Raises KafkaException if one of them is an error."""
    found = consumer.consume(most, timeout=0.2)
    for message in found:
        if error := message.error():
            raise KafkaException(error)
    return found


def _commit(session: Session, consumer: confluent_kafka.Consumer) -> None:
    try:
        done = consumer.commit(asynchronous=False) or []
    except KafkaException as error:
        if error.args[0].code() != KafkaError._NO_OFFSET:  # nothing was read since the last commit
            raise
        return
    # A partition that nothing was read of has no offset.
    offsets = {
        (each.topic, each.partition): each.offset for each in done if not each.error and each.offset >= 0
    }
    session.tell.committed(session.name, offsets)

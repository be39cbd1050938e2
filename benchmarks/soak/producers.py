"""Producers of every kind, one session each: what the broker acknowledges goes into the topic's ledger.

The idempotent ones retry by themselves for longer than any fault lasts. The transactional one commits four of
five transactions and aborts the others. The copier reads committed records of one topic and writes them to
another in transactions, with its offsets.
"""

import asyncio
import random
import threading
import time
import warnings
from functools import partial
from typing import Any, Final

import aiokafka
import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from benchmarks.soak.ledger import make_value, number_of
from benchmarks.soak.stage import COPY, PARTITIONS, SOURCE, TRANSACTIONS, Stage

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas in a way that is going
    import kafka

TICK_S: Final = 0.05
EACH_TICK: Final = 4
"""Eighty records a second, about 18 kB/s."""

PATIENCE_S: Final = 300
"""For acknowledgements: a broker that is killed while its disk is full is away for less."""

COPIED_WITHIN_S: Final = 30
"""For the offsets and the commit of one copy. After a kill, librdkafka may wait for all of it; the next
session begins where the copies end.
"""

MOST_IN_HAND: Final = 2_000
"""Records that a throttled client may have sent without an acknowledgement."""


def librdkafka_settings(stage: Stage, name: str, **settings: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": stage.bootstrap,
        "client.id": name,
        "log_level": 0,
        "reconnect.backoff.max.ms": 1_000,
        "error_cb": partial(stage.report, name),
        **settings,
    }


def librdkafka(stage: Stage, until: float) -> None:
    ledger = stage.ledgers[SOURCE]
    settings = {"enable.idempotence": True, "linger.ms": 5, "delivery.timeout.ms": PATIENCE_S * 1_000}
    producer = confluent_kafka.Producer(librdkafka_settings(stage, "librdkafka", **settings))

    def delivered(number: int, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            stage.report("librdkafka", f"not delivered: {error.str()}")
        else:
            ledger.acknowledge(message.partition(), message.offset(), number)

    while time.monotonic() < until and not stage.producers_end.wait(TICK_S):
        for _ in range(EACH_TICK if len(producer) < MOST_IN_HAND else 0):
            number = ledger.next_number()
            producer.produce(
                ledger.topic,
                make_value(ledger.topic, number),
                partition=number % PARTITIONS,
                on_delivery=partial(delivered, number),
            )
        producer.poll(0)
    if left := producer.flush(PATIENCE_S):
        stage.report("librdkafka", f"{left} records without an answer")


class InHand:
    """The records that a client has sent and whose fate it does not know yet."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def change(self, by: int) -> None:
        with self._lock:
            self.count += by


def kafka_python(stage: Stage, until: float) -> None:
    ledger = stage.ledgers["soak-kafka-python"]
    in_hand = InHand()
    producer = kafka.KafkaProducer(
        bootstrap_servers=stage.bootstrap,
        client_id="kafka-python",
        linger_ms=5,
        delivery_timeout_ms=PATIENCE_S * 1_000,
        max_block_ms=PATIENCE_S * 1_000,
    )

    def acknowledged(number: int, metadata: Any) -> None:
        in_hand.change(-1)
        ledger.acknowledge(metadata.partition, metadata.offset, number)

    def failed(error: Any) -> None:
        in_hand.change(-1)
        stage.report("kafka-python", f"not delivered: {type(error).__name__}: {error}")

    try:
        while time.monotonic() < until and not stage.producers_end.wait(TICK_S):
            for _ in range(EACH_TICK if in_hand.count < MOST_IN_HAND else 0):
                number = ledger.next_number()
                in_hand.change(1)
                value = make_value(ledger.topic, number)
                future = producer.send(ledger.topic, value, partition=number % PARTITIONS)
                future.add_callback(partial(acknowledged, number))
                future.add_errback(failed)
        producer.flush(PATIENCE_S)
    finally:
        producer.close(timeout=10)


def aiokafka_(stage: Stage, until: float) -> None:
    asyncio.run(_aiokafka(stage, until))


async def _aiokafka(stage: Stage, until: float) -> None:
    ledger = stage.ledgers["soak-aiokafka"]
    waiting: set[asyncio.Future[Any]] = set()

    def acknowledged(number: int, future: "asyncio.Future[Any]") -> None:
        waiting.discard(future)
        if error := future.exception():
            stage.report("aiokafka", f"not delivered: {type(error).__name__}: {error}")
        else:
            metadata = future.result()
            ledger.acknowledge(metadata.partition, metadata.offset, number)

    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=stage.bootstrap,
        client_id="aiokafka",
        enable_idempotence=True,
        linger_ms=5,
        request_timeout_ms=PATIENCE_S * 1_000,
    )
    async with producer:
        while time.monotonic() < until and not stage.producers_end.is_set():
            await asyncio.sleep(TICK_S)
            for _ in range(EACH_TICK if len(waiting) < MOST_IN_HAND else 0):
                number = ledger.next_number()
                value = make_value(ledger.topic, number)
                future = await producer.send(ledger.topic, value, partition=number % PARTITIONS)
                waiting.add(future)
                future.add_done_callback(partial(acknowledged, number))
        await producer.flush()


def transactional(stage: Stage, until: float) -> None:
    ledger = stage.ledgers[TRANSACTIONS]
    chance = random.Random(stage.seed + ledger.sent)
    producer = _transactional_producer(stage, "transactions")
    while time.monotonic() < until and not stage.producers_end.wait(TICK_S):
        sent: list[tuple[int, int, int]] = []
        numbers = [ledger.next_number() for _ in range(chance.randint(1, 20))]
        decided = False
        try:
            producer.begin_transaction()
            for number in numbers:
                _send_in_transaction(producer, ledger.topic, number, sent)
            if commit := chance.random() < 0.8:
                producer.commit_transaction(PATIENCE_S)
            else:
                producer.abort_transaction(PATIENCE_S)
            decided = True
        finally:
            if not decided:
                ledger.leave_undecided(numbers)
        if not commit:
            ledger.abort(numbers)
            continue
        for partition, offset, number in sent:
            ledger.acknowledge(partition, offset, number)


def _transactional_producer(stage: Stage, name: str) -> confluent_kafka.Producer:
    settings = {
        "transactional.id": f"soak-{name}",
        "transaction.timeout.ms": 60_000,
        "linger.ms": 5,
        # Otherwise send_offsets_to_transaction may wait for a broker that librdkafka has given up.
        "metadata.recovery.strategy": "none",
    }
    producer = confluent_kafka.Producer(librdkafka_settings(stage, name, **settings))
    producer.init_transactions(PATIENCE_S)
    return producer


def _send_in_transaction(
    producer: confluent_kafka.Producer, topic: str, number: int, sent: list[tuple[int, int, int]]
) -> None:
    def delivered(error: KafkaError | None, message: Any) -> None:
        if error is None:
            sent.append((message.partition(), message.offset(), number))

    value = make_value(topic, number)
    producer.produce(topic, value, partition=number % PARTITIONS, on_delivery=delivered)
    producer.poll(0)


def copier(stage: Stage, until: float) -> None:
    """Each error ends the session: the next one begins at the committed offsets, as the copies do."""
    ledger = stage.ledgers[COPY]
    producer = _transactional_producer(stage, "copier")
    settings = {
        "group.id": "copier",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "session.timeout.ms": 10_000,
    }
    consumer = confluent_kafka.Consumer(librdkafka_settings(stage, "copier", **settings))
    try:
        consumer.subscribe([SOURCE])
        while time.monotonic() < until and not stage.readers_end.is_set():
            read = consumer.consume(200, timeout=0.2)
            for message in read:
                if error := message.error():
                    raise KafkaException(error)
            if not read:
                continue
            sent: list[tuple[int, int, int]] = []
            producer.begin_transaction()
            for message in read:
                number = number_of(SOURCE, message.value() or b"")
                if number is None:
                    raise ValueError(f"{SOURCE}-{message.partition()} {message.offset()}: an altered value")
                _send_in_transaction(producer, COPY, number, sent)
            places = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), COPIED_WITHIN_S)
            producer.commit_transaction(COPIED_WITHIN_S)
            for partition, offset, number in sent:
                ledger.acknowledge(partition, offset, number)
    finally:
        consumer.close()

"""Sessions of aiokafka: an idempotent producer, and a member of a group."""

import asyncio
import time
from functools import partial
from typing import Any

import aiokafka

from benchmarks.soak.clients.records import Read
from benchmarks.soak.clients.session import (
    COMMIT_EVERY_S,
    EACH_TICK,
    MOST_IN_HAND,
    PATIENCE_S,
    SESSION_TIMEOUT_MS,
    TICK_S,
    Session,
)
from benchmarks.soak.ledger import make_value
from benchmarks.soak.topics import PARTITIONS, TOPICS


def produce(session: Session) -> None:
    asyncio.run(_produce(session))


async def _produce(session: Session) -> None:
    topic = f"soak-{session.name}"
    waiting: set[asyncio.Future[Any]] = set()

    def acknowledged(number: int, future: "asyncio.Future[Any]") -> None:
        waiting.discard(future)
        if error := future.exception():
            session.tell.error(session.name, f"not delivered: {type(error).__name__}: {error}")
        else:
            metadata = future.result()
            session.tell.acknowledged(topic, metadata.partition, metadata.offset, number)

    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=session.bootstrap,
        client_id=session.name,
        enable_idempotence=True,
        linger_ms=5,
        request_timeout_ms=PATIENCE_S * 1_000,
    )
    await producer.start()
    try:
        while session.goes_on:
            await asyncio.sleep(TICK_S)
            for number in session.numbers(topic, EACH_TICK if len(waiting) < MOST_IN_HAND else 0):
                value = make_value(topic, number)
                future = await producer.send(topic, value, partition=number % PARTITIONS)
                waiting.add(future)
                future.add_done_callback(partial(acknowledged, number))
        await producer.flush()
    finally:
        session.tell.closing()
        await producer.stop()


class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, read: Read) -> None:
        self._read = read

    async def on_partitions_revoked(self, revoked: object) -> None:
        self._read.clear()

    async def on_partitions_assigned(self, assigned: object) -> None:
        self._read.clear()


def read(session: Session) -> None:
    asyncio.run(_read(session))


async def _read(session: Session) -> None:
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=session.bootstrap,
        client_id=session.name,
        group_id=session.name,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_TIMEOUT_MS,
    )
    due, found = time.monotonic() + COMMIT_EVERY_S, Read()
    consumer.subscribe(list(TOPICS), listener=Listener(found))
    await consumer.start()
    try:
        while session.goes_on:
            found.note(session, await consumer.getmany(timeout_ms=200, max_records=500))
            if found and time.monotonic() >= due:
                places = {aiokafka.TopicPartition(*place): offset for place, offset in found.items()}
                await consumer.commit(places)
                session.tell.committed(session.name, found)
                found.clear()
                due = time.monotonic() + COMMIT_EVERY_S
    finally:
        session.tell.closing()
        await consumer.stop()

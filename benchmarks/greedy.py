"""Real clients that send or fetch as fast as they can while a block runs.

Used by benchmarks.accuracy. librdkafka (through Python) ignores throttle_time_ms; the Java client obeys it.
The broker counts the bytes; this module counts only deliveries, to distinguish librdkafka producers.
"""

import contextlib
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from benchmarks.install import KAFKA_LIBS

SOURCE: Final = Path(__file__).parent / "throttled" / "Greedy.java"
TICK_S: Final = 0.005


@dataclass(frozen=True, slots=True)
class Appetite:
    """The load of one client; a consumer's topic has `records` records of `record_bytes`."""

    kind: str
    port: int
    topic: str
    client_id: str
    batch_bytes: int
    record_bytes: int
    records: int = 0

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"


class _Running:
    """Calls `step` in a thread until the block ends. `delivered` counts the bytes of acknowledged records."""

    def __init__(self) -> None:
        self.delivered = 0
        self._ended = threading.Event()

    @contextlib.contextmanager
    def until_the_block_ends(self, loop: Callable[[threading.Event], None]) -> Iterator["_Running"]:
        thread = threading.Thread(target=loop, args=(self._ended,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            thread.join(30)


def produced_by(appetite: Appetite, **settings: Any) -> Producer:
    """Return a librdkafka producer whose records never expire."""
    return Producer(
        {
            "bootstrap.servers": appetite.bootstrap,
            "client.id": appetite.client_id,
            "batch.size": appetite.batch_bytes,
            "linger.ms": 50,
            "message.timeout.ms": 0,
            "request.timeout.ms": 300_000,
            "socket.timeout.ms": 300_000,
            "queue.buffering.max.kbytes": 32_768,
            "log_level": 2,
            **settings,
        }
    )


@contextlib.contextmanager
def librdkafka(appetite: Appetite) -> Iterator[_Running]:
    """Run one producer or consumer."""
    running = _Running()
    loop = _consuming if appetite.kind == "fetch" else _producing
    with running.until_the_block_ends(lambda ended: loop(appetite, running, ended)):
        yield running


def _producing(appetite: Appetite, running: _Running, ended: threading.Event) -> None:
    producer = produced_by(appetite)
    value = bytes(appetite.record_bytes)

    def reported(error: KafkaError | None, _: object) -> None:
        if error is None:
            running.delivered += len(value)

    while not ended.is_set():
        try:
            producer.produce(appetite.topic, value, partition=0, on_delivery=reported)
        except BufferError:
            producer.poll(TICK_S)
    producer.purge()


def _consuming(appetite: Appetite, running: _Running, ended: threading.Event) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": appetite.bootstrap,
            "client.id": appetite.client_id,
            "group.id": appetite.client_id,
            "enable.auto.commit": False,
            "fetch.message.max.bytes": appetite.batch_bytes,
            "queued.max.messages.kbytes": 16_384,
            "log_level": 2,
        }
    )
    consumer.assign([TopicPartition(appetite.topic, 0, 0)])
    while not ended.is_set():
        for message in consumer.consume(1000, timeout=0.1):
            if message.error() is None:
                running.delivered += appetite.record_bytes
                if message.offset() == appetite.records - 1:
                    consumer.seek(TopicPartition(appetite.topic, 0, 0))
    consumer.close()


@contextlib.contextmanager
def java(appetite: Appetite) -> Iterator[None]:
    """Run one producer or consumer in a process of its own."""
    process = subprocess.Popen(
        [
            *("java", "-Xmx256m", "-cp", f"{KAFKA_LIBS}/*", str(SOURCE), appetite.kind, appetite.bootstrap),
            *(appetite.topic, appetite.client_id, str(appetite.batch_bytes), str(appetite.record_bytes)),
            str(appetite.records),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


CLIENTS: Final[dict[str, Callable[[Appetite], AbstractContextManager[object]]]] = {
    "librdkafka": librdkafka,
    "java": java,
}


@contextlib.contextmanager
def crowd(appetite: Appetite, size: int) -> Iterator[list[int]]:
    """Run `size` librdkafka producers, each with one record more than it can send; yield the bytes
    delivered by each.
    """
    delivered = [0] * size
    ended = threading.Event()
    value = bytes(appetite.record_bytes)

    def run() -> None:
        producers = [produced_by(appetite, **{"queue.buffering.max.kbytes": 64}) for _ in range(size)]
        # Enough for several requests of each producer, independent of the others.
        most = 4 * max(appetite.batch_bytes // appetite.record_bytes, 1)
        in_hand = [0] * size

        def send(index: int) -> None:
            def reported(error: KafkaError | None, _: object) -> None:
                in_hand[index] -= 1
                if error is None:
                    delivered[index] += len(value)

            while in_hand[index] < most:
                in_hand[index] += 1
                producers[index].produce(appetite.topic, value, partition=0, on_delivery=reported)

        while not ended.is_set():
            for index, producer in enumerate(producers):
                producer.poll(0)
                send(index)
            time.sleep(TICK_S)
        for producer in producers:
            producer.purge()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield delivered
    finally:
        ended.set()
        thread.join(60)

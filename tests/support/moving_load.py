"""Producers of one user that send as much as they may and move between gateways.

Used by tests/endtoend/gateway. Each producer closes its connections every few seconds, with what was not sent
yet, and goes on at another gateway.
"""

import os
import random
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.real_clients import Target, librdkafka

VALUE_BYTES: Final = 16_000
"""Of each record, and of each request but for its heads, which are about a hundredth more."""

STAYS_S: Final = (2.0, 6.0)


class MovingLoad:
    """`producers` threads at `targets`, equally many at each in the beginning. `moves` counts the changes of
    gateway, `acknowledging` the producers whose first record was acknowledged.
    """

    def __init__(self, topic: str, targets: Sequence[Target], producers: int) -> None:
        self.moves = 0
        self._topic = topic
        self._targets = targets
        self._acknowledged: set[int] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(number,), daemon=True) for number in range(producers)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    @property
    def acknowledging(self) -> int:
        return len(self._acknowledged)

    def _run(self, number: int) -> None:
        chance, at = random.Random(number), number % len(self._targets)
        while not self._stopped.is_set():
            self._produce(number, self._targets[at], chance.uniform(*STAYS_S))
            at = (at + chance.randrange(1, len(self._targets))) % len(self._targets)
            with self._lock:
                self.moves += 1

    def _produce(self, number: int, target: Target, seconds: float) -> None:
        settings = {"batch.num.messages": 1, "queue.buffering.max.messages": 8, "log_level": 0}
        producer = Producer(librdkafka(target, **settings))
        value = os.urandom(VALUE_BYTES)

        def on_delivery(error: object, _message: object) -> None:
            if error is None:
                self._acknowledged.add(number)

        leaves_at = time.monotonic() + seconds
        while not self._stopped.is_set() and time.monotonic() < leaves_at:
            try:
                producer.produce(self._topic, value, callback=on_delivery)
            except BufferError:
                producer.poll(0.05)
            producer.poll(0)
        producer.purge()


class LogEnd:
    """Counts a topic's records at the brokers, and the bytes of their values, VALUE_BYTES each."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "group.id": "nobody"}
        self._consumer = Consumer(settings)
        self._partitions = [TopicPartition(topic, number) for number in range(partitions)]

    def bytes(self) -> int:
        return self.records() * VALUE_BYTES

    def records(self) -> int:
        ends = (self._consumer.get_watermark_offsets(each, timeout=10) for each in self._partitions)
        return sum(found[1] for found in ends if found is not None)

    def rate(self, seconds: float) -> float:
        """Return the bytes per second that are appended in the next seconds."""
        before, began = self.bytes(), time.monotonic()
        time.sleep(seconds)
        after, elapsed = self.bytes(), time.monotonic() - began
        return (after - before) / elapsed

"""Producers that send as much as they may through several gateways.

Used by tests/endtoend/gateway to measure what passes of a limit that the gateways share.
"""

import os
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from confluent_kafka import Producer

CLIENT_ID: Final = "greedy"


class GreedyLoad:
    """`delivered` is in bytes, by gateway."""

    def __init__(self, topic: str, limit: float, gateways: int, client_id: str = CLIENT_ID) -> None:
        """`limit` is in bytes a second."""
        self._client_id = client_id
        self.delivered = [0] * gateways
        self._topic = topic
        self._limit = limit
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def start(self, number: int, bootstrap: str, producers: int = 1) -> None:
        """Start producers that count for the gateway with this number."""
        for _ in range(producers):
            thread = threading.Thread(target=self._produce, args=(number, bootstrap), daemon=True)
            self._threads.append(thread)
            thread.start()

    def rates(self, seconds: float) -> Sequence[float]:
        """Return what passes at each gateway in the next seconds, in parts of the limit."""
        before, begin = list(self.delivered), time.monotonic()
        time.sleep(seconds)
        after, elapsed = list(self.delivered), time.monotonic() - begin
        return [(now - then) / elapsed / self._limit for now, then in zip(after, before, strict=True)]

    def _produce(self, number: int, bootstrap: str) -> None:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": self._client_id,
                "linger.ms": 5,
                "batch.size": 65_536,
                "queue.buffering.max.messages": 200,
                "log_level": 0,
            }
        )
        value = os.urandom(8_000)

        def on_delivery(error: object, _message: object) -> None:
            if error is None:
                with self._lock:
                    self.delivered[number] += len(value)

        while not self._stopped.is_set():
            try:
                producer.produce(self._topic, value, callback=on_delivery)
            except BufferError:
                producer.poll(0.05)
            producer.poll(0)
        producer.purge()

"""Producers of the three Python clients, each running in a thread and wanting more than a quota will let it.

Used by tests/endtoend. What they count is what the broker has acknowledged, so a test sees what a client
gets. Knows nothing of quotas.
"""

import asyncio
import threading
import time
import warnings
from types import TracebackType
from typing import Any, Final, Self

import aiokafka
import confluent_kafka

from tests.support.broker_process import USERS

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas in a way that is going
    import kafka

TOPIC: Final = "orders"
VALUE: Final = bytes(10_000)
BATCH_BYTES: Final = 200_000
TICK_S: Final = 0.02
WANTED: Final = 10_000_000
"""Bytes per second: ten seconds' worth of a quota of 500 kB/s is sent in half a second."""

MAX_IN_HAND: Final = 400
"""Records that a client may hold while the broker throttles it."""


class RealProducer:
    """`with` starts it, and ends it without waiting for what it has in hand. With a `user`, over SASL."""

    def __init__(self, bootstrap: str, client_id: str, user: str | None = None) -> None:
        self.bootstrap = bootstrap
        self.client_id = client_id
        self.user = user
        self.delivered = 0
        self.failures: list[object] = []
        self._sent = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=client_id, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(20)
        if kind is None:
            assert not self._thread.is_alive(), f"{self.client_id} does not end"
            assert self.failures == []

    def rate(self, seconds: float) -> float:
        """Bytes per second that are acknowledged from now on, over so long."""
        began, before = time.monotonic(), self.delivered
        time.sleep(seconds)
        return (self.delivered - before) / (time.monotonic() - began)

    def _run(self) -> None:
        raise NotImplementedError

    def _reported(self, error: object) -> None:
        if error is None:
            self.delivered += len(VALUE)
        elif not self._ended.is_set():
            self.failures.append(error)

    def _due(self, seconds: float) -> int:
        """How many records to send `seconds` after the last time, with those in hand not too many."""
        in_hand = self._sent - self.delivered // len(VALUE)
        due = min(int(min(seconds, 0.1) * WANTED / len(VALUE)), MAX_IN_HAND - in_hand)
        self._sent += due
        return due


class Librdkafka(RealProducer):
    """confluent-kafka. It is told throttle_time_ms and sends on regardless."""

    told_to_wait_s = 0.0

    def _run(self) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "client.id": self.client_id,
            "batch.size": BATCH_BYTES,
            "message.timeout.ms": 0,
            "throttle_cb": self._told,
            "log_level": 2,
        }
        if self.user is not None:
            settings |= {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": self.user,
                "sasl.password": USERS[self.user],
            }
        producer = confluent_kafka.Producer(settings)
        last = time.monotonic()
        while not self._ended.wait(TICK_S):
            now = time.monotonic()
            for _ in range(self._due(now - last)):
                producer.produce(TOPIC, VALUE, on_delivery=lambda error, _: self._reported(error))
            last = now
            producer.poll(0)
        producer.purge()

    def _told(self, event: Any) -> None:
        self.told_to_wait_s = event.throttle_time


class KafkaPython(RealProducer):
    """kafka-python."""

    def _run(self) -> None:
        producer = kafka.KafkaProducer(
            bootstrap_servers=self.bootstrap,
            client_id=self.client_id,
            batch_size=BATCH_BYTES,
            request_timeout_ms=100_000,
            delivery_timeout_ms=120_000,
            **_python_login(self.user),
        )
        last = time.monotonic()
        while not self._ended.wait(TICK_S):
            now = time.monotonic()
            for _ in range(self._due(now - last)):
                future = producer.send(TOPIC, VALUE)
                future.add_callback(lambda _: self._reported(None))
                future.add_errback(self._reported)
            last = now
        producer.close(timeout=15)


class Aiokafka(RealProducer):
    """aiokafka, on an asyncio loop of its own."""

    def _run(self) -> None:
        asyncio.run(self._produce())

    async def _produce(self) -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            client_id=self.client_id,
            max_batch_size=BATCH_BYTES,
            request_timeout_ms=100_000,
            **_python_login(self.user),
        )
        await producer.start()
        last = time.monotonic()
        while not self._ended.is_set():
            await asyncio.sleep(TICK_S)
            now = time.monotonic()
            for _ in range(self._due(now - last)):
                future = await producer.send(TOPIC, VALUE)
                future.add_done_callback(lambda done: self._reported(done.exception()))
            last = now
        await producer.stop()


def _python_login(user: str | None) -> dict[str, Any]:
    if user is None:
        return {}
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user,
        "sasl_plain_password": USERS[user],
    }

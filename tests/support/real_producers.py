"""Producers of the three Python clients, each running in a thread and wanting more than a quota will let it.

Used by tests/endtoend. What they count is what the broker has acknowledged, so a test sees what a client gets.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

import aiokafka
import confluent_kafka
import kafka

from tests.support.broker_process import USERS

TOPIC: Final = "orders"
VALUE: Final = bytes(10_000)
TICK_S: Final = 0.02
WANTED: Final = 10_000_000
"""Bytes per second: ten seconds' worth of a quota of 500 kB/s is sent in half a second."""


class RealProducer:
    """`with` starts it and ends it without waiting for what the broker holds back. With a `user`, over SASL."""

    def __init__(self, bootstrap: str, client_id: str, user: str | None = None) -> None:
        self.bootstrap = bootstrap
        self.client_id = client_id
        self.user = user
        self.delivered = 0
        self.failures: list[object] = []
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
        assert not self._thread.is_alive(), f"{type(self).__name__} does not end"
        if kind is None:
            assert self.failures == []

    def rate(self, seconds: float) -> float:
        """Bytes per second that are acknowledged from now on, over so long."""
        began, before = time.monotonic(), self.delivered
        time.sleep(seconds)
        return (self.delivered - before) / (time.monotonic() - began)

    def _run(self) -> None:
        raise NotImplementedError

    def _acknowledged(self, count: int) -> None:
        self.delivered += count

    def _send_until_ended(self, send: Callable[[], bool], tick: Callable[[], Any]) -> None:
        """`send` says whether the client took the record; a client that is held back has no room for it."""
        due, last = 0.0, time.monotonic()
        while not self._ended.wait(TICK_S):
            now = time.monotonic()
            due, last = min(due + (now - last) * WANTED, WANTED * 0.1), now
            while due >= len(VALUE) and send():
                due -= len(VALUE)
            tick()


class Librdkafka(RealProducer):
    """confluent-kafka. It is told throttle_time_ms and sends on regardless."""

    def __init__(self, bootstrap: str, client_id: str, user: str | None = None) -> None:
        super().__init__(bootstrap, client_id, user)
        self.told_to_wait_s = 0.0

    def _run(self) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "client.id": self.client_id,
            "queue.buffering.max.kbytes": 4096,
            "message.timeout.ms": 0,
            "batch.size": 200_000,
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

        def send() -> bool:
            try:
                producer.produce(TOPIC, VALUE, on_delivery=self._report)
            except BufferError:
                return False
            return True

        self._send_until_ended(send, lambda: producer.poll(0))
        producer.purge()

    def _report(self, error: Any, message: Any) -> None:
        if error is None:
            self._acknowledged(len(VALUE))
        elif not self._ended.is_set():
            self.failures.append(error)

    def _told(self, event: Any) -> None:
        self.told_to_wait_s = event.throttle_time


class KafkaPython(RealProducer):
    def _run(self) -> None:
        producer = kafka.KafkaProducer(
            bootstrap_servers=self.bootstrap,
            client_id=self.client_id,
            buffer_memory=4_000_000,
            batch_size=200_000,
            max_block_ms=0,
            request_timeout_ms=120_000,
            delivery_timeout_ms=300_000,
            **_python_login(self.user),
        )
        producer._wait_on_metadata(TOPIC, 10_000)

        def send() -> bool:
            try:
                future = producer.send(TOPIC, VALUE)
            except kafka.errors.KafkaTimeoutError:
                return False
            future.add_callback(lambda _: self._acknowledged(len(VALUE)))
            future.add_errback(self.failures.append)
            return True

        self._send_until_ended(send, lambda: None)
        producer.close(timeout=0)


class Aiokafka(RealProducer):
    def _run(self) -> None:
        asyncio.run(self._produce())

    async def _produce(self) -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            client_id=self.client_id,
            max_batch_size=200_000,
            request_timeout_ms=120_000,
            **_python_login(self.user),
        )
        await producer.start()
        due, last = 0.0, time.monotonic()
        waiting: set[asyncio.Future[Any]] = set()
        try:
            while not self._ended.is_set():
                await asyncio.sleep(TICK_S)
                now = time.monotonic()
                due, last = min(due + (now - last) * WANTED, WANTED * 0.1), now
                while due >= len(VALUE) and len(waiting) < 400:
                    due -= len(VALUE)
                    future = await producer.send(TOPIC, VALUE)
                    waiting.add(future)
                    future.add_done_callback(waiting.discard)
                    future.add_done_callback(self._report)
        finally:
            pass

    def _report(self, future: asyncio.Future[Any]) -> None:
        if future.cancelled():
            return
        if (error := future.exception()) is None:
            self._acknowledged(len(VALUE))
        elif not self._ended.is_set():
            self.failures.append(error)


def _python_login(user: str | None) -> dict[str, Any]:
    if user is None:
        return {}
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user,
        "sasl_plain_password": USERS[user],
    }

"""The tenants: real clients in threads, each with a manner of its own.

Used by demo.scene. Most are librdkafka, which reads throttle_time_ms and sends on all the same: what holds
them back is the broker alone. `Heeding` is kafka-python, which waits as it is told.
"""

import threading
import time
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import Consumer, Producer
from kafka import KafkaProducer
from kafka.errors import KafkaTimeoutError

VALUE: Final = b'{"order": 4711, "customer": "c-1042", "total": 59.9, "currency": "EUR", "note": "%s"}' % (
    b"-" * 917
)
"""A record of 1,000 bytes."""
TICK_S: Final = 0.05
STORM_EVERY_S: Final = 0.25
MAX_WAITING: Final = 1_000
"""Records of `Heeding` that are not acknowledged yet: what is left at the end is soon sent."""
READERS: Final = 2


class Tenant:
    """`run` is the body of its thread, until `stopped`. Other threads may read the counters."""

    def __init__(self, name: str, bootstrap: str, topic: str) -> None:
        self.name = name
        self.topic = topic
        self.sent_bytes = 0
        self.read_bytes = 0
        self.clients = 0
        self.told_to_wait_ms = 0.0
        self.stopped = threading.Event()
        self._settings = {"bootstrap.servers": bootstrap, "client.id": name, "log_level": 2}

    def run(self) -> None:
        raise NotImplementedError

    def _producer(self, **settings: Any) -> Producer:
        self.clients += 1
        return Producer({**self._settings, "linger.ms": 20, "throttle_cb": self._told, **settings})

    def _send(self, producer: Producer) -> bool:
        """False when the broker throttles it for so long that its own queue is full."""
        try:
            producer.produce(self.topic, VALUE, on_delivery=self._delivered)
        except BufferError:
            return False
        return True

    def _delivered(self, error: Any, _message: Any) -> None:
        if error is None:
            self.sent_bytes += len(VALUE)

    def _told(self, event: Any) -> None:
        self.told_to_wait_ms = event.throttle_time * 1000

    def _consumer(self, group: str) -> Consumer:
        self.clients += 1
        settings = {"group.id": group, "auto.offset.reset": "latest"}
        consumer = Consumer({**self._settings, **settings})
        consumer.subscribe([self.topic])
        return consumer


class Wanting(Tenant):
    """Sends so much a second if it may. With `reads` it also reads the topic, as a member of a group."""

    def __init__(
        self, name: str, bootstrap: str, topic: str, wanted_bytes_per_s: int, *, reads: bool = False
    ) -> None:
        super().__init__(name, bootstrap, topic)
        self.wanted = wanted_bytes_per_s
        self.reads = reads

    def run(self) -> None:
        queue = {"queue.buffering.max.kbytes": 4096, "message.timeout.ms": 0}
        producer = self._producer(**queue)
        consumer = self._consumer(f"{self.name}-readers") if self.reads else None
        due, last = 0.0, time.monotonic()
        while not self.stopped.wait(TICK_S):
            now = time.monotonic()
            due, last = min(due + self.wanted * (now - last), self.wanted), now
            while due >= len(VALUE) and self._send(producer):
                due -= len(VALUE)
            producer.poll(0)
            if consumer is not None:
                self.read_bytes += sum(len(message.value() or b"") for message in consumer.consume(2000, 0))
        if consumer is not None:
            consumer.close()
        producer.purge()


class Heeding(Tenant):
    """Sends so much a second if it may, and waits when it is told to."""

    def __init__(self, name: str, bootstrap: str, topic: str, wanted_bytes_per_s: int) -> None:
        super().__init__(name, bootstrap, topic)
        self.bootstrap = bootstrap
        self.wanted = wanted_bytes_per_s
        self.waiting = 0

    def run(self) -> None:
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, client_id=self.name, linger_ms=20)
        due, last = 0.0, time.monotonic()
        while not self.stopped.wait(TICK_S):
            now = time.monotonic()
            due, last = min(due + self.wanted * (now - last), self.wanted), now
            while due >= len(VALUE) and self.waiting < MAX_WAITING:
                self.waiting += 1
                producer.send(self.topic, VALUE).add_callback(self._sent).add_errback(self._lost)
                due -= len(VALUE)
        with suppress(KafkaTimeoutError):
            producer.close(timeout=5)

    def _sent(self, _metadata: Any) -> None:
        self.sent_bytes += len(VALUE)
        self.waiting -= 1

    def _lost(self, _error: Any) -> None:
        self.waiting -= 1


class Reporting(Tenant):
    """A group of two that reads whatever there is, and falls behind as soon as it is limited."""

    def run(self) -> None:
        consumers = [self._consumer(f"{self.name}-daily") for _ in range(READERS)]
        while not self.stopped.wait(TICK_S):
            for consumer in consumers:
                self.read_bytes += sum(len(message.value() or b"") for message in consumer.consume(2000, 0))
        for consumer in consumers:
            consumer.close()


class Storming(Tenant):
    """Connects, sends one record and leaves, some four times a second: a client in a crash loop."""

    def run(self) -> None:
        while not self.stopped.wait(STORM_EVERY_S):
            producer = self._producer()
            self._send(producer)
            producer.flush(1)

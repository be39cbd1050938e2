"""One tenant: a producer that wants to send so much a second, whatever its quota says.

Used by demo.__main__. It is librdkafka, which reads throttle_time_ms and sends on all the same: what holds it
back is the broker alone.
"""

import threading
import time
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import Producer

VALUE: Final = bytes(1000)
TICK_S: Final = 0.05


@dataclass
class Tenant:
    """`run` until `stopped`; the counters only grow, other threads may read them."""

    name: str
    wanted_bytes_per_s: int
    delivered_bytes: int = 0
    told_to_wait_ms: float = 0.0
    stopped: threading.Event = field(default_factory=threading.Event)

    def run(self, bootstrap: str, topic: str) -> None:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": self.name,
                "linger.ms": 20,
                "queue.buffering.max.kbytes": 4096,
                "message.timeout.ms": 0,
                "throttle_cb": self._on_throttle,
                "log_level": 2,
            }
        )
        due = 0.0
        while not self.stopped.wait(TICK_S):
            due = min(due + self.wanted_bytes_per_s * TICK_S, self.wanted_bytes_per_s)
            while due >= len(VALUE) and self._sent(producer, topic):
                due -= len(VALUE)
            producer.poll(0)
        producer.purge()
        producer.flush(2)

    def _sent(self, producer: Producer, topic: str) -> bool:
        try:
            producer.produce(topic, VALUE, on_delivery=self._on_delivery)
        except BufferError:  # the broker holds it back, and its own queue is full
            return False
        return True

    def _on_delivery(self, error: Any, _message: Any) -> None:
        if error is None:
            self.delivered_bytes += len(VALUE)

    def _on_throttle(self, event: Any) -> None:
        self.told_to_wait_ms = event.throttle_time * 1000


@dataclass
class Meter:
    """Bytes per second of a tenant between two looks."""

    tenant: Tenant
    seen_bytes: int = 0
    seen_at: float = field(default_factory=time.monotonic)

    def rate(self) -> float:
        now, delivered = time.monotonic(), self.tenant.delivered_bytes
        rate = (delivered - self.seen_bytes) / max(now - self.seen_at, 1e-9)
        self.seen_bytes, self.seen_at = delivered, now
        return rate

"""An idempotent producer under a steady load, which remembers what was acknowledged, and a check that all
of it is there, once, and where it was acknowledged.

Used by tests/endtoend/gateway around everything that may lose records.
"""

import threading
import time
from collections import Counter
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

PARTITIONS: Final = 6
EACH_S: Final = 0.005
PER_TURN: Final = 5
DELIVERED_WITHIN_S: Final = 120
READ_WITHIN_S: Final = 60


class AcknowledgedLoad:
    """A thousand records a second over six partitions, with acks=all, until the block is left; the end waits
    for every acknowledgement.
    """

    def __init__(self, bootstrap: str, topic: str, **settings: Any) -> None:
        self.topic = topic
        self.acknowledged: list[tuple[int, int | None, bytes]] = []
        """(partition, offset, value)."""
        self.errors: list[KafkaError] = []
        self.longest_gap_s = 0.0
        """Between two acknowledgements of one partition."""
        self._last: dict[int, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "delivery.timeout.ms": DELIVERED_WITHIN_S * 1_000,
                "request.timeout.ms": 5_000,
                "socket.timeout.ms": 6_000,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
                **settings,
            }
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(DELIVERED_WITHIN_S)

    def wait_for_more(self, count: int = 500, within_s: float = 60) -> None:
        """Returns when so many more were acknowledged than now."""
        wanted, deadline = len(self.acknowledged) + count, time.monotonic() + within_s
        while len(self.acknowledged) < wanted:
            assert time.monotonic() < deadline, f"{wanted - len(self.acknowledged)} acknowledgements are due"
            time.sleep(0.02)

    def check(self, bootstrap: str) -> None:
        """Fails if something acknowledged is lost, elsewhere, or there twice. `bootstrap` may be the
        cluster's own, which says what is really there.
        """
        assert not self._thread.is_alive()
        assert self.errors == []
        stored = read_all(bootstrap, self.topic)
        values = {(partition, value) for (partition, _), value in stored.items()}
        lost = [each for each in self.acknowledged if not _is_stored(*each, stored, values)]
        assert lost == [], f"{len(lost)} of {len(self.acknowledged)} are not where they were acknowledged"
        twice = [value for value, times in Counter(stored.values()).items() if times > 1]
        assert twice == []

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(EACH_S):
            for _ in range(PER_TURN):
                try:
                    self._producer.produce(
                        self.topic, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._delivered
                    )
                    number += 1
                except BufferError:
                    break
            self._producer.poll(0)
        self._producer.flush(DELIVERED_WITHIN_S)

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self.errors.append(error)
            return
        now, partition = time.monotonic(), message.partition()
        self.longest_gap_s = max(self.longest_gap_s, now - self._last.get(partition, now))
        self._last[partition] = now
        self.acknowledged.append((partition, message.offset(), message.value()))


def _is_stored(
    partition: int,
    offset: int | None,
    value: bytes,
    stored: dict[tuple[int, int], bytes],
    values: set[tuple[int, bytes]],
) -> bool:
    """librdkafka knows no offset of a batch that it sent again, and that the broker knew already
    (DUPLICATE_SEQUENCE_NUMBER).
    """
    if offset is None or offset < 0:
        return (partition, value) in values
    return stored.get((partition, offset)) == value


def read_all(bootstrap: str, topic: str, partitions: int = PARTITIONS) -> dict[tuple[int, int], bytes]:
    """Every record of the topic by (partition, offset)."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False})
    places = [TopicPartition(topic, each, 0) for each in range(partitions)]
    ends = {each.partition: consumer.get_watermark_offsets(each, timeout=30)[1] for each in places}
    consumer.assign(places)
    found: dict[tuple[int, int], bytes] = {}
    deadline = time.monotonic() + READ_WITHIN_S
    while len(found) < sum(ends.values()):
        assert time.monotonic() < deadline, f"only {len(found)} of {sum(ends.values())} records came"
        for message in consumer.consume(10_000, timeout=1.0):
            assert message.error() is None, message.error()
            found[message.partition(), message.offset()] = message.value() or b""
    consumer.close()
    return found

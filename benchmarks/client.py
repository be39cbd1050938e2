"""Load by librdkafka through Python, the usual Python client: 1 kB records at full speed.

Run by benchmarks.loads in a process of its own: `python -m benchmarks.client client_produce PORT TOPIC N`,
or client_fetch. Prints one line of JSON. The client soon becomes the limit; this load shows it.
"""

import json
import sys
import time
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

VALUE: Final = bytes(range(250)) * 4
PATIENCE_S: Final = 20.0


def produce(port: int, topic: str, records: int) -> float:
    """Return the seconds from the first send to the last acknowledgement."""
    failures: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "acks": 1,
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 200_000,
            "on_delivery": on_delivery,
        }
    )
    producer.list_topics(topic, timeout=PATIENCE_S)
    started = time.perf_counter()
    for _ in range(records):
        while True:
            try:
                producer.produce(topic, VALUE, partition=0)
                break
            except BufferError:
                producer.poll(0.01)
    left = producer.flush(PATIENCE_S)
    took = time.perf_counter() - started
    if left or failures:
        raise SystemExit(f"{left} records were not acknowledged, {len(failures)} failed: {failures[:1]}")
    return took


def fetch(port: int, topic: str, records: int) -> float:
    """Return the seconds from the first received batch of records to the last."""
    consumer = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "group.id": "benchmark",
            "enable.auto.commit": False,
            # By default it pauses for a second once it is 64 MB ahead of the program, which would distort
            # the result.
            "fetch.queue.backoff.ms": 10,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    first = consumer.consume(1, timeout=PATIENCE_S)
    started = time.perf_counter()
    seen = len(first)
    while seen < records:
        messages = consumer.consume(10_000, timeout=1.0)
        if not messages and time.perf_counter() - started > PATIENCE_S:
            raise SystemExit(f"received only {seen} of {records} records")
        for message in messages:
            if (error := message.error()) is not None:
                raise KafkaException(error)
        seen += len(messages)
    took = time.perf_counter() - started
    consumer.close()
    return took


def main() -> None:
    what, port, topic, records = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    seconds = {"client_produce": produce, "client_fetch": fetch}[what](port, topic, records)
    result: dict[str, Any] = {
        "ask": what,
        "connections": 1,
        "seconds": round(seconds, 3),
        "requests": records,
        "answered": records,
        "megabytes_per_second": round(records * len(VALUE) / seconds / 1e6, 2),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()

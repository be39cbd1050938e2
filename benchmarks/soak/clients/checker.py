"""Asks the broker what it has: `python -m benchmarks.soak.clients.checker JSON`, in a process of its own.

Either all committed records of a topic, `{"bootstrap": .., "topic": ..}`: for each partition one line with
its number and `Stored`; or the committed offsets of a group, `{"bootstrap": .., "group": .., "places":
[[topic, partition], ...]}`: a line for each. A failure is an exit status other than 0 and a traceback.
"""

import dataclasses
import json
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from benchmarks.soak.clients.librdkafka import settings
from benchmarks.soak.ledger import Stored, number_of
from benchmarks.soak.topics import PARTITIONS

READ_WITHIN_S: Final = 120.0
ANSWERED_WITHIN_S: Final = 30.0


def stored(bootstrap: str, topic: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read the committed records of a topic to its end. Raises KafkaException or TimeoutError."""
    reader = {
        "group.id": "checker",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 100,
    }
    consumer = confluent_kafka.Consumer(settings(bootstrap, "checker", **reader))
    found: dict[int, Stored] = {}
    for partition in range(PARTITIONS):
        place = TopicPartition(topic, partition)
        start, _ = consumer.get_watermark_offsets(place, timeout=ANSWERED_WITHIN_S)
        found[partition] = Stored(start)
    consumer.assign([TopicPartition(topic, partition, each.start) for partition, each in found.items()])
    reading, deadline = set(found), time.monotonic() + READ_WITHIN_S
    while reading:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic}: the partitions {sorted(reading)} were not read in time")
        for message in consumer.consume(1_000, timeout=0.5):
            at, offset = message.partition(), message.offset()
            assert at is not None and offset is not None
            if error := message.error():
                if error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                reading.discard(at)
                continue
            each, value = found[at], message.value() or b""
            each.size += len(value)
            number = number_of(topic, value)
            if number is None:
                each.foreign.append(offset)
            else:
                each.numbers[offset] = number
    consumer.close()
    for partition, each in found.items():
        yield partition, dataclasses.asdict(each)


def committed(bootstrap: str, group: str, places: list[tuple[str, int]]) -> Iterator[tuple[str, int, int]]:
    """Raises KafkaException."""
    consumer = confluent_kafka.Consumer(settings(bootstrap, "checker", **{"group.id": group}))
    for each in consumer.committed([TopicPartition(*place) for place in places], timeout=ANSWERED_WITHIN_S):
        if each.error is not None:
            raise KafkaException(each.error)
        yield each.topic, each.partition, each.offset
    consumer.close()


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    for line in (stored if "topic" in asked else committed)(**asked):
        print(json.dumps(line, separators=(",", ":")))

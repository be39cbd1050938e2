"""Reads all topics of the soak and the committed offsets, and compares them with the ledgers. Blocks."""

import time
from collections.abc import Mapping
from typing import Final

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from benchmarks.soak.group_ledger import Place
from benchmarks.soak.ledger import Stored, number_of, oldest
from benchmarks.soak.producers import librdkafka_settings
from benchmarks.soak.quota_changes import QuotaChanges
from benchmarks.soak.stage import COPY, PARTITIONS, SOURCE, Stage

READ_WITHIN_S: Final = 120.0
ANSWERED_WITHIN_S: Final = 30.0


def check(stage: Stage, quotas: QuotaChanges, *, settled: bool) -> list[str]:
    """Return what is not as it was acknowledged. `settled`: nothing is at work any more."""
    found = quotas.check()
    commits = {name: group.promised_commits() for name, group in stage.groups.items()}
    for name, group in stage.groups.items():
        promised = commits[name]
        found += group.check_commits(promised, committed(stage, name, list(promised)))
    for topic, ledger in stage.ledgers.items():
        promised_records = ledger.promised()
        stored = read(stage, topic)
        found += ledger.check(promised_records, stored, settled=settled)
        starts = {partition: each.start for partition, each in stored.items()}
        for group in stage.groups.values():
            found += group.check_deliveries(topic, promised_records, starts)
        ledger.forget_removed(stored)
        if settled and topic == COPY:
            found += _not_copied(stage, stored)
    return found


def _not_copied(stage: Stage, stored: Mapping[int, Stored]) -> list[str]:
    """Find what the copier did not copy of its source's acknowledged records. Retention removes some."""
    copied = {number for each in stored.values() for number in each.numbers.values()}
    first = oldest(stored)
    missing = [number for number in stage.ledgers[SOURCE].promised().numbers - copied if number >= first]
    return [f"{COPY}: {len(missing)} records were not copied, first {min(missing)}"] if missing else []


def read(stage: Stage, topic: str) -> dict[int, Stored]:
    """Read the committed records of a topic to its end. Raises KafkaException or TimeoutError."""
    settings = {
        "group.id": "checker",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 100,
    }
    consumer = confluent_kafka.Consumer(librdkafka_settings(stage, "checker", **settings))
    found: dict[int, Stored] = {}
    try:
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
    finally:
        consumer.close()
    return found


def committed(stage: Stage, group: str, places: list[Place]) -> dict[Place, int]:
    """Ask the broker for the committed offsets of a group. Raises KafkaException."""
    consumer = confluent_kafka.Consumer(librdkafka_settings(stage, "checker", **{"group.id": group}))
    try:
        asked = [TopicPartition(*place) for place in places]
        found = consumer.committed(asked, timeout=ANSWERED_WITHIN_S) if asked else []
        return {Place(each.topic, each.partition): each.offset for each in found if each.offset >= 0}
    finally:
        consumer.close()

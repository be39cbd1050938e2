"""Produce and Fetch, with batches that are right, damaged and missing."""

import time
from typing import Any, Final

from broker.records.build import NewRecord, build_batch
from broker.records.compression import Codec
from tests.endtoend.answers.topics import ABSENT, COMPACTED, TOPIC, create
from tests.support.kafka_answers import Case, topic_id

NO_ENTRY: Final = "Kafka leaves out a topic without partitions"
OUT_OF_RANGE: Final = "Weir adds the start of the log to the error"


def batch(count: int = 1, key: bytes | None = b"key", ahead_ms: int = 0, **more: Any) -> bytes:
    now = int(time.time() * 1_000) + ahead_ms
    return bytes(build_batch([NewRecord(key, b"value", now) for _ in range(count)], **more))


def of_producer(epoch: int, sequence: int) -> bytes:
    return batch(producer_id=987_654, producer_epoch=epoch, base_sequence=sequence)


def changed(at: int, to: int) -> bytes:
    copy = bytearray(batch())
    copy[at] = to
    return bytes(copy)


def produce(records: bytes | None, topic: str = TOPIC, index: int = 0, **more: Any) -> dict[str, Any]:
    partitions = [{"index": index, "records": records}]
    topics = [{"name": topic, "topic_id": topic_id(topic), "partition_data": partitions}]
    return {"acks": -1, "timeout_ms": 3_000, "topic_data": topics} | more


def fetch(*partitions: tuple[int, int], topic: str = TOPIC, epoch: int = -1, **more: Any) -> dict[str, Any]:
    rows = [
        {
            "partition": index,
            "fetch_offset": offset,
            "partition_max_bytes": 1 << 20,
            "current_leader_epoch": epoch,
        }
        for index, offset in partitions
    ]
    return {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "topics": [{"topic": topic, "topic_id": topic_id(topic), "partitions": rows}],
    } | more


MAGIC_AT: Final = 16
COUNT_AT: Final = 60
HOUR_MS: Final = 3_600_000
TRANSACTIONAL, CONTROL = 0x10, 0x20
GUARDED: Final = "guarded"
"""A topic that wants more replicas in sync than it has."""

CASES: Final = (
    *(
        Case("Produce", produce(records))
        for records in (
            batch(),
            b"",
            changed(-1, 0),
            changed(MAGIC_AT, 9),
            batch()[:40],
            batch()[:-2],
            batch() + batch(),
        )
    ),
    Case("Produce", produce(batch(key=None), COMPACTED), range(3, 13)),
    Case("Produce", produce(batch(2, ahead_ms=2 * HOUR_MS))),
    Case("Produce", produce(batch(codec=Codec.ZSTD))),
    Case("Produce", produce(changed(COUNT_AT, 0))),
    *(Case("Produce", produce(batch(attributes=flag))) for flag in (CONTROL, TRANSACTIONAL)),
    *(
        Case(
            "Produce", produce(batch(producer_id=987_654, producer_epoch=epoch, base_sequence=sequence)), (9,)
        )
        for epoch, sequence in ((5, 4), (5, 5), (5, 7), (4, 6), (6, 1), (6, 0), (-1, -1))
    ),
    Case("CreateTopics", create(GUARDED, configs=[{"name": "min.insync.replicas", "value": "2"}]), (4,)),
    Case("Produce", produce(batch(), GUARDED), range(3, 13)),
    Case("Produce", produce(None), (9,), differs="Kafka does not answer"),
    Case("Produce", produce(batch(), ABSENT)),
    *(Case("Produce", produce(batch(), index=index)) for index in (9, -1)),
    *(Case("Produce", produce(batch(), acks=acks)) for acks in (2, -2)),
    Case("Produce", produce(batch(), transactional_id="none")),
    Case("Produce", produce(None) | {"topic_data": []}),
    Case(
        "Produce",
        produce(None) | {"topic_data": [{"name": TOPIC, "topic_id": topic_id(TOPIC), "partition_data": []}]},
        differs=NO_ENTRY,
    ),
    Case("Fetch", fetch((1, 0))),
    Case("Fetch", fetch((0, 0), topic=ABSENT)),
    Case("Fetch", fetch((9, 0))),
    *(Case("Fetch", fetch((0, offset)), differs=OUT_OF_RANGE) for offset in (99_999, -1)),
    Case("Fetch", fetch((1, 0), epoch=5), range(9, 19)),
    Case("Fetch", fetch((1, 0), session_id=99, session_epoch=1), range(7, 19)),
    Case("Fetch", fetch((1, 0), session_id=0, session_epoch=-1), range(7, 19)),
    Case("Fetch", fetch((1, 0), session_id=99, session_epoch=0), range(7, 19)),
    Case("Fetch", fetch((1, 0), session_id=5, session_epoch=-1), range(7, 19)),
    Case("Fetch", fetch((1, 0), isolation_level=1)),
    Case("Fetch", fetch() | {"topics": []}),
    Case("Fetch", fetch((1, 0), max_bytes=0)),
)

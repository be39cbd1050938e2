"""A compacted topic with confluent-kafka, unmodified: keys, tombstones, transactions, refused records,
restarts.
"""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.endtoend

TIMEOUT = 15
CLEANER = ("log.cleaner.backoff.ms=50", "log.segment.delete.delay.ms=0", "group.initial.rebalance.delay.ms=0")
COMPACTED = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "20000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("data"), *CLEANER) as process:
        yield process


def create(broker: BrokerProcess, request: pytest.FixtureRequest, **configs: str) -> str:
    name = re.sub(r"[^a-z_]", "-", request.node.name.lower())[:200]
    admin = AdminClient({"bootstrap.servers": broker.plain})
    for each in admin.create_topics([NewTopic(name, 1, 1, config={**COMPACTED, **configs})]).values():
        each.result(TIMEOUT)
    return name


def consumed(broker: BrokerProcess, topic: str, level: str = "read_committed") -> list[tuple[int, Any, Any]]:
    """(offset, key, value) of all records."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.plain,
            "group.id": "reader",
            "isolation.level": level,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    found: list[tuple[int, Any, Any]] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while True:
            message = consumer.poll(TIMEOUT)
            assert message is not None, "no end of the partition"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
            found.append((message.offset() or 0, message.key(), message.value()))
    finally:
        consumer.close()


def until_compacted(broker: BrokerProcess, topic: str, most: int) -> list[tuple[int, Any, Any]]:
    """Read the topic again and again until it has at most `most` records."""
    ends = time.monotonic() + TIMEOUT
    while len(found := consumed(broker, topic)) > most:
        assert time.monotonic() < ends, f"{len(found)} records remain"
    return found


def produce(
    broker: BrokerProcess, topic: str, records: list[tuple[str, bytes | None]], **settings: Any
) -> None:
    # A batch must fit into a segment.
    producer = Producer({"bootstrap.servers": broker.plain, "batch.size": 8_000, **settings})
    errors: list[KafkaError | None] = []
    for key, value in records:
        producer.produce(topic, value, key, on_delivery=lambda error, _message: errors.append(error))
    assert producer.flush(TIMEOUT) == 0
    assert len(errors) == len(records) and all(error is None for error in errors), errors


def close_segment(broker: BrokerProcess, topic: str) -> None:
    """Produce four batches, of which the last ones close the segment with the records before them."""
    for _ in range(4):
        produce(broker, topic, [("padding", bytes(10_000))])


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_consumer_gets_the_last_record_of_each_key(
    broker: BrokerProcess, request: pytest.FixtureRequest, codec: str
) -> None:
    topic = create(broker, request)
    records: list[tuple[str, bytes | None]] = [(f"key-{at % 10}", b"%d" % at * 20) for at in range(2_000)]
    for some in (records[:1_000], records[1_000:]):
        produce(broker, topic, some, **{"compression.type": codec, "enable.idempotence": True})
        close_segment(broker, topic)
    found = until_compacted(broker, topic, 20)
    kept = {key: (offset, value) for offset, key, value in found}
    assert [kept[b"key-%d" % at] for at in range(10)] == [
        (1_994 + at, records[1_990 + at][1]) for at in range(10)
    ]
    offsets = [offset for offset, *_ in found]
    assert offsets == sorted(offsets) and offsets[0] >= 1_000


def test_a_tombstone_removes_its_key_for_good(broker: BrokerProcess, request: pytest.FixtureRequest) -> None:
    topic = create(broker, request)
    produce(broker, topic, [("gone", b"1"), ("kept", b"1"), ("gone", None)])
    close_segment(broker, topic)
    ends = time.monotonic() + TIMEOUT
    while b"gone" in [key for _, key, _ in consumed(broker, topic)]:
        produce(broker, topic, [("padding", bytes(10_000))])  # a pass needs something dirty
        assert time.monotonic() < ends
    assert (1, b"kept", b"1") in consumed(broker, topic)


def test_aborted_records_are_gone_and_committed_ones_remain(
    broker: BrokerProcess, request: pytest.FixtureRequest
) -> None:
    topic = create(broker, request)
    producer = Producer({"bootstrap.servers": broker.plain, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(TIMEOUT)
    for value, commit in ((b"committed", True), (b"aborted", False)):
        producer.begin_transaction()
        producer.produce(topic, value, "key")
        assert producer.flush(TIMEOUT) == 0
        (producer.commit_transaction if commit else producer.abort_transaction)(TIMEOUT)
    close_segment(broker, topic)
    ends = time.monotonic() + TIMEOUT
    while b"aborted" in [value for *_, value in consumed(broker, topic, "read_uncommitted")]:
        assert time.monotonic() < ends
    assert consumed(broker, topic)[0] == (0, b"key", b"committed")


def test_a_record_without_a_key_is_refused(broker: BrokerProcess, request: pytest.FixtureRequest) -> None:
    topic = create(broker, request)
    producer = Producer({"bootstrap.servers": broker.plain, "retries": 0})
    errors: list[KafkaError | None] = []
    producer.produce(topic, b"x", on_delivery=lambda error, _message: errors.append(error))
    assert producer.flush(TIMEOUT) == 0
    assert [None if error is None else error.code() for error in errors] == [KafkaError.INVALID_RECORD]
    assert consumed(broker, topic) == []


def test_a_compacted_topic_survives_a_kill(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    with BrokerProcess(tmp_path, *CLEANER) as broker:
        topic = create(broker, request)
        for round_ in range(20):
            produce(broker, topic, [(f"key-{at}", b"%d" % round_ * 100) for at in range(40)])
        broker.kill()
    with BrokerProcess(tmp_path, *CLEANER) as broker:
        close_segment(broker, topic)
        found = until_compacted(broker, topic, 50)
        kept = {key: value for _, key, value in found}
        assert [kept[b"key-%d" % at] for at in range(40)] == [b"19" * 100] * 40


def test_an_invalid_policy_is_refused(broker: BrokerProcess, request: pytest.FixtureRequest) -> None:
    with pytest.raises(KafkaException) as caught:
        create(broker, request, **{"cleanup.policy": "shred"})
    assert caught.value.args[0].code() == KafkaError.INVALID_CONFIG
    create(broker, request, **{"cleanup.policy": ""})

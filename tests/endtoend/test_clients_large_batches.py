"""Batches of hundreds of kilobytes of the three Python clients, unmodified, with every codec: they are
unpacked in a thread, their records read in slices, and all of them taken.
"""

import asyncio
import json
import warnings
from collections.abc import Iterator

import confluent_kafka
import pytest
from aiokafka import AIOKafkaProducer

from tests.support.broker_process import BrokerProcess

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas in a way that is going
    from kafka import KafkaProducer

pytestmark = pytest.mark.endtoend

CODECS = ["gzip", "snappy", "lz4", "zstd"]
BATCH_BYTES = 500_000
VALUES = [json.dumps({"at": at, "what": "x" * (at % 200)}).encode() for at in range(5_000)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """It reads the records of every batch, compressed or not."""
    with BrokerProcess(tmp_path_factory.mktemp("data"), "record.validation=full") as process:
        yield process


def read(broker: BrokerProcess, topic: str) -> list[bytes]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.plain, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    values: list[bytes] = []
    while len(values) < len(VALUES):
        found = consumer.consume(len(VALUES), timeout=60.0)
        assert found, f"only {len(values)} of {len(VALUES)} records came"
        values += [message.value() or b"" for message in found]
    consumer.close()
    return values


@pytest.mark.parametrize("codec", ["none", *CODECS])
def test_librdkafka(broker: BrokerProcess, codec: str) -> None:
    topic = f"librdkafka-{codec}"
    settings = {"compression.type": codec, "batch.size": BATCH_BYTES, "linger.ms": 200}
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.plain, **settings})
    failed: list[object] = []
    for value in VALUES:
        producer.produce(
            topic, value, on_delivery=lambda error, _: None if error is None else failed.append(error)
        )
    assert producer.flush(15) == 0 and failed == []
    assert read(broker, topic) == VALUES


@pytest.mark.parametrize("codec", CODECS)
def test_kafka_python(broker: BrokerProcess, codec: str) -> None:
    topic = f"kafka-python-{codec}"
    producer = KafkaProducer(
        bootstrap_servers=broker.plain, compression_type=codec, batch_size=BATCH_BYTES, linger_ms=200
    )
    sent = [producer.send(topic, value) for value in VALUES]
    producer.flush(15)
    assert [each.get(15).offset for each in sent] == list(range(len(VALUES)))
    producer.close()
    assert read(broker, topic) == VALUES


@pytest.mark.parametrize("codec", CODECS)
def test_aiokafka(broker: BrokerProcess, codec: str) -> None:
    topic = f"aiokafka-{codec}"

    async def produce() -> list[int]:
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.plain,
            compression_type=codec,
            max_batch_size=BATCH_BYTES,
            linger_ms=200,
        )
        await producer.start()
        try:
            sent = [await producer.send(topic, value) for value in VALUES]
            return [each.offset for each in await asyncio.gather(*sent)]
        finally:
            await producer.stop()

    assert asyncio.run(asyncio.wait_for(produce(), 60)) == list(range(len(VALUES)))
    assert read(broker, topic) == VALUES

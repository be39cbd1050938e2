"""Clients that read two topics, one of which is deleted, fetch no more often than before."""

import asyncio
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import aiokafka
import confluent_kafka
import confluent_kafka.admin
import pytest

from tests.support.broker_process import BrokerProcess, within
from tests.support.prometheus import parse

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas in a way that is going
    import kafka

pytestmark = pytest.mark.endtoend

FOR_S: Final = 2.0
WAIT_MS: Final = 500
"""The default fetch.max.wait.ms of all three."""

GONE, STAYS = "gone", "stays"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, "auto.create.topics.enable=false") as process:
        yield process


def by_confluent(address: str, stop: threading.Event) -> None:
    settings = {"bootstrap.servers": address, "group.id": "g", "enable.metrics.push": False}
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0) for topic in (GONE, STAYS)])
    while not stop.is_set():
        consumer.poll(0.1)
    consumer.close()


def by_kafka_python(address: str, stop: threading.Event) -> None:
    consumer = kafka.KafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest")
    consumer.assign([kafka.TopicPartition(topic, 0) for topic in (GONE, STAYS)])
    while not stop.is_set():
        consumer.poll(100)
    consumer.close()


def by_aiokafka(address: str, stop: threading.Event) -> None:
    async def consume() -> None:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest")
        await consumer.start()
        consumer.assign([aiokafka.TopicPartition(topic, 0) for topic in (GONE, STAYS)])
        while not stop.is_set():
            await consumer.getmany(timeout_ms=100)
        await consumer.stop()

    asyncio.run(consume())


def fetches(broker: BrokerProcess) -> float:
    family = parse(broker.ask("GET", "/metrics"))["kafka_network_requestmetrics_requests_total"]
    return sum(count for labels, count in family.samples.items() if ("request", "FetchConsumer") in labels[1])


@pytest.mark.parametrize("consume", [by_confluent, by_kafka_python, by_aiokafka])
def test_a_consumer_of_a_deleted_topic_fetches_no_more_often(
    broker: BrokerProcess, consume: Callable[[str, threading.Event], None]
) -> None:
    admin = confluent_kafka.admin.AdminClient(
        {"bootstrap.servers": broker.plain, "enable.metrics.push": False}
    )
    topics = [confluent_kafka.admin.NewTopic(topic, 1, 1) for topic in (GONE, STAYS)]
    for made in admin.create_topics(topics).values():
        made.result(10)
    stop = threading.Event()
    client = threading.Thread(target=consume, args=(broker.plain, stop), daemon=True)
    client.start()
    try:
        within(15, lambda: fetches(broker) >= 4, "it fetches", every=0.1)
        for deleted in admin.delete_topics([GONE]).values():
            deleted.result(10)
        time.sleep(0.3)
        before, begun = fetches(broker), time.monotonic()
        time.sleep(FOR_S)
        counted, passed = fetches(broker) - before, time.monotonic() - begun
        within(10, lambda: fetches(broker) > before, "it goes on")
    finally:
        stop.set()
        client.join(15)
    # A fetch that was under way may end on either side of what is looked at.
    assert counted <= passed * 1_000 / WAIT_MS + 2, f"{counted:.0f} fetches in {passed:.1f} s"

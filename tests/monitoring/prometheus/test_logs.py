"""The topics' traffic, the log directories and the log cleaner on /metrics."""

import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from trio.testing import MockClock

from broker.common.slices import run_through
from broker.config.sections.log import LogConfig
from broker.log import disk
from broker.log.cleaner.manager import CleanerManager
from broker.log.store import LogStore
from broker.monitoring.prometheus.logs import compaction_families, log_directory_families
from broker.protocol.messages.delete_topics import DeleteTopicsRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.log.cleaner.harness import clean, close_segment, compacted
from tests.log.cleaner.test_manager import sized_put
from tests.log.harness import NOW, open_store
from tests.support.produce import batch_of, create_topic, produce_request
from tests.support.prometheus import parse
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

BATCH = batch_of(b"one", b"two", b"three")


@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path) as running:
        yield running


@pytest.fixture
async def client(broker: RunningBroker) -> WireClient:
    client = await broker.connect()
    for topic in ("events", "others"):
        await client.ask(create_topic(topic, 2), 5)
    return client


def total(broker: RunningBroker, name: str, **labels: str) -> float:
    families = parse(broker.server.prometheus.page())
    return families[f"kafka_server_brokertopicmetrics_{name}_total"].value(**labels)


def of_topic(broker: RunningBroker, topic: str) -> dict[str, float]:
    names = ("messagesin", "bytesin", "bytesout", "totalproducerequests", "totalfetchrequests")
    return {name: total(broker, name, topic=topic) for name in names}


def fetch(*partitions: int) -> FetchRequest:
    partitions_asked = [FetchPartition(index, partition_max_bytes=100_000) for index in partitions]
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=100_000,
        session_epoch=-1,
        topics=[FetchTopic("events", partitions=partitions_asked)],
    )


async def test_produced_and_fetched_bytes_are_counted_by_topic(
    broker: RunningBroker, client: WireClient, mock_clock: MockClock
) -> None:
    for partition in (0, 1, 0, 0):  # the last ones from the request cache
        await client.ask(produce_request(bytearray(BATCH), partition=partition), 9)
    await client.ask(fetch(0, 1), 11)
    assert of_topic(broker, "events") == {
        "messagesin": 12,
        "bytesin": 4 * len(BATCH),
        "bytesout": 4 * len(BATCH),
        "totalproducerequests": 4,
        "totalfetchrequests": 2,
    }
    assert set(of_topic(broker, "others").values()) == {0}


async def test_a_consumer_on_the_fast_path_counts_too(
    broker: RunningBroker, client: WireClient, mock_clock: MockClock
) -> None:
    await client.ask(produce_request(bytearray(BATCH)), 9)
    for _ in range(3):
        await client.ask(fetch(0), 11)
    assert total(broker, "bytesout", topic="events") == 3 * len(BATCH)
    assert total(broker, "totalfetchrequests", topic="events") == 3


async def test_a_refused_batch_is_a_failed_append(
    broker: RunningBroker, client: WireClient, mock_clock: MockClock
) -> None:
    broken = bytearray(BATCH)
    broken[-1] ^= 1
    answer = await client.ask(produce_request(broken), 9)
    assert answer.responses[0].partition_responses[0].error_code
    assert total(broker, "failedproducerequests", topic="events") == 1
    assert total(broker, "totalproducerequests", topic="events") == 1
    assert total(broker, "messagesin", topic="events") == 0


async def test_a_deleted_topic_stays_in_the_sum(
    broker: RunningBroker, client: WireClient, mock_clock: MockClock
) -> None:
    await client.ask(produce_request(bytearray(BATCH)), 9)
    await client.ask(produce_request(bytearray(BATCH), "others"), 9)
    await client.ask(DeleteTopicsRequest(topic_names=["events"], timeout_ms=1_000), 5)
    assert total(broker, "messagesin") == 6
    families = parse(broker.server.prometheus.page())
    shown = families["kafka_server_brokertopicmetrics_messagesin_total"].samples
    assert ("", frozenset({("topic", "events")})) not in shown
    await client.ask(create_topic(), 5)
    assert total(broker, "messagesin", topic="events") == 0
    assert total(broker, "messagesin") == 6


async def test_records_from_before_the_start_did_not_come_in(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        client = await broker.connect()
        await client.ask(create_topic(), 5)
        await client.ask(produce_request(bytearray(BATCH)), 9)
    async with running_broker(tmp_path) as broker:
        client = await broker.connect()
        await client.ask(produce_request(bytearray(BATCH)), 9)
        assert total(broker, "messagesin", topic="events") == 3
        assert total(broker, "bytesin", topic="events") == len(BATCH)


async def test_records_that_retention_removes_did_come_in(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        client = await broker.connect()
        await client.ask(create_topic(), 5)
        log = broker.server.partitions.log("events", 0)
        assert log is not None
        for _ in range(2):
            await client.ask(produce_request(bytearray(BATCH)), 9)
            log.roll()
        log.delete_records_before(log.high_watermark)
        assert log.retire(broker.server.clock.wall_ms())
        assert log.size == 0
        await client.ask(produce_request(bytearray(BATCH)), 9)
        assert total(broker, "bytesin", topic="events") == 3 * len(BATCH)
        assert total(broker, "messagesin", topic="events") == 9


@pytest.mark.parametrize("partitions", [1, 2, 48])
async def test_the_traffic_of_many_partitions_is_added_with_a_pause_for_each(
    broker: RunningBroker, client: WireClient, partitions: int, mock_clock: MockClock
) -> None:
    await client.ask(create_topic("wide", partitions), 5)
    await client.ask(produce_request(bytearray(BATCH), "wide", partition=partitions - 1), 9)
    topic = broker.server.partitions.by_name["wide"]
    assert all(topic.log(index) is not None for index in range(partitions))
    assert len(list(topic.traffic())) == partitions
    assert run_through(topic.traffic()).messages_in == 3
    assert total(broker, "messagesin", topic="wide") == 3


def samples(store: LogStore, name: str) -> dict[str, float]:
    """Return the samples by directory."""
    (family,) = [each for each in log_directory_families(store) if each.name == name]
    return {dict(sample.labels)["logDirectory"]: sample.value for sample in family.samples}


def test_the_space_of_each_directory_is_reported_and_of_none_that_does_not_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    store = LogStore(LogConfig(dirs=(one, two)))
    store.open()

    def space(path: str) -> tuple[int, int]:
        if path == two:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return 1_000, 400

    monkeypatch.setattr(disk, "space", space)
    assert samples(store, "weir_log_directory_free_bytes") == {one: 400}
    assert samples(store, "weir_log_directory_total_bytes") == {one: 1_000}
    store.directories.named(two).go_offline(OSError(errno.EIO, "broken"))
    assert samples(store, "weir_log_directory_free_bytes") == {one: 400}
    assert samples(store, "kafka_log_logmanager_logdirectoryoffline") == {one: 0, two: 1}
    store.close()


def values(manager: CleanerManager, now: int) -> dict[str, float]:
    return {
        family.name: sample.value for family in compaction_families(manager, now) for sample in family.samples
    }


def test_what_the_cleaner_reports(tmp_path: Path) -> None:
    store, _ = open_store(tmp_path / "data")
    manager = CleanerManager(store)
    assert set(values(manager, NOW).values()) == {0}
    log = compacted(store)
    sized_put(log, 500)
    sized_put(log, 500)
    close_segment(log)
    run = clean(store, log, manager=manager)
    run.stats.elapsed_ms, run.stats.utilization = 2_999, 0.456
    sized_put(log, 500)
    close_segment(log)
    run_through(manager.choose(NOW))
    manager.fail(log, "damaged")
    found = values(manager, NOW + 77)
    assert found == {
        "kafka_log_logcleanermanager_max_dirty_percent": 50,
        "kafka_log_logcleanermanager_time_since_last_run_ms": 77,
        "kafka_log_logcleanermanager_uncleanable_partitions_count": 1,
        "kafka_log_logcleanermanager_uncleanable_bytes": 500,
        "kafka_log_logcleaner_max_buffer_utilization_percent": 45,
        "kafka_log_logcleaner_cleaner_recopy_percent": 50,
        "kafka_log_logcleaner_max_clean_time_secs": 2,
        "kafka_log_logcleaner_max_compaction_delay_secs": 0,
    }
    store.close()

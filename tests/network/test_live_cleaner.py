"""The settings of the log cleaner and of compression, changed while the broker runs."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from trio.testing import wait_all_tasks_blocked

from broker.log.cleaner.cleaning import CleaningLimits
from broker.records.build import NewRecord, build_batch
from broker.records.compression import DEFAULT_LEVELS, Codec, compress
from broker.records.header import HEADER_BYTES, header_at
from broker.records.walk import batches
from tests.support.live import alter, alter_through, takes_effect, task_names
from tests.support.produce import PRODUCE_VERSION, create_topic, produce_request
from tests.support.running import RunningBroker, running_broker

DATA = b"0123456789" * 2_000


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, "log.cleaner.backoff.ms=3600000") as running:
        client = await running.connect()
        assert (await client.ask(create_topic(), 5)).topics[0].error_code == 0
        yield running


async def produce(broker: RunningBroker, key: bytes, value: bytes = b"x", codec: Codec = Codec.NONE) -> None:
    record = NewRecord(key, value, broker.server.clock.wall_ms())
    request = produce_request(bytearray(build_batch([record], codec=codec)))
    answer = await broker.clients[0].ask(request, PRODUCE_VERSION)
    assert answer.responses[0].partition_responses[0].error_code == 0


def log_of(broker: RunningBroker):
    log = broker.server.partitions.log("events", 0)
    assert log is not None
    return log


def last_batch(broker: RunningBroker) -> memoryview:
    log = log_of(broker)
    *_, last = batches(log.read(log.high_watermark - 1, 1_000_000, min_one_batch=True).read())
    return last


@takes_effect("log.cleaner.threads")
async def test_how_many_logs_are_cleaned_at_once(broker: RunningBroker) -> None:
    assert task_names("kafka-log-cleaner") == ["kafka-log-cleaner-thread-0"]
    await alter(broker, log_cleaner_threads="2")
    await wait_all_tasks_blocked()
    assert task_names("kafka-log-cleaner") == ["kafka-log-cleaner-thread-0", "kafka-log-cleaner-thread-1"]
    client = await broker.connect("operator")
    for refused in ("0", "5"):
        error, message = await alter_through(client, {"log.cleaner.threads": refused})
        assert error and "log.cleaner.threads" in (message or "")


@takes_effect(
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.buffer.size",
    "log.cleaner.io.max.bytes.per.second",
)
async def test_what_a_pass_may_use(broker: RunningBroker) -> None:
    cleaner = broker.server.storage.cleaner
    assert cleaner.limits == CleaningLimits(134_217_728, 0.9, 262_144)
    await alter(
        broker,
        log_cleaner_dedupe_buffer_size="1048576",
        log_cleaner_io_buffer_load_factor="0.5",
        log_cleaner_io_buffer_size="8192",
        log_cleaner_io_max_bytes_per_second="1000000",
    )
    assert (cleaner.limits, cleaner.bytes_per_second) == (CleaningLimits(1_048_576, 0.5, 4_096), 1_000_000)


@takes_effect("log.cleaner.backoff.ms")
async def test_how_long_a_task_without_work_waits(broker: RunningBroker) -> None:
    manager = broker.server.storage.cleaner.manager
    before = manager.chosen_wall_ms
    await alter(broker, log_cleaner_backoff_ms="3500000")
    await wait_all_tasks_blocked()
    assert manager.chosen_wall_ms is not None and before is not None
    assert manager.chosen_wall_ms >= before  # the tasks began anew with the new time
    assert task_names("kafka-log-cleaner") == ["kafka-log-cleaner-thread-0"]


@takes_effect(
    "log.cleaner.min.cleanable.ratio",
    "log.cleaner.min.compaction.lag.ms",
    "log.cleaner.max.compaction.lag.ms",
    "log.cleaner.delete.retention.ms",
)
async def test_when_a_log_is_due_and_how_long_tombstones_remain(broker: RunningBroker) -> None:
    await alter(broker, log_cleanup_policy="compact", log_cleaner_min_cleanable_ratio="1")
    await produce(broker, b"a")
    log, manager = log_of(broker), broker.server.storage.cleaner.manager
    log.roll()
    later_ms = broker.server.clock.wall_ms() + 3_600_000
    assert not manager.assess(log, later_ms).is_due
    await alter(broker, log_cleaner_min_cleanable_ratio="0.5")
    assert manager.assess(log, later_ms).is_due
    await alter(broker, log_cleaner_min_compaction_lag_ms="7200000")
    assert not manager.assess(log, later_ms).is_due
    await alter(broker, log_cleaner_min_compaction_lag_ms="0", log_cleaner_min_cleanable_ratio="1")
    await alter(broker, log_cleaner_max_compaction_lag_ms="60000")
    assert manager.assess(log, later_ms).is_due
    await alter(broker, log_cleaner_delete_retention_ms="5")
    assert log.settings.delete_retention_ms == 5


@takes_effect("compression.type", "compression.gzip.level", "compression.lz4.level", "compression.zstd.level")
async def test_how_a_batch_is_compressed(broker: RunningBroker) -> None:
    await produce(broker, b"a", DATA, Codec.ZSTD)
    assert header_at(last_batch(broker)).codec == Codec.ZSTD
    levels = {Codec.GZIP: (1, 9), Codec.LZ4: (DEFAULT_LEVELS[Codec.LZ4], 12), Codec.ZSTD: (-50, 19)}
    for codec, (low, high) in levels.items():
        sizes = []
        for level in (low, high):
            name = codec.name.lower()
            await alter(broker, **{"compression_type": name, f"compression_{name}_level": str(level)})
            await produce(broker, b"a", DATA)
            stored = last_batch(broker)
            plain = bytes(build_batch([NewRecord(b"a", DATA, 0)])[HEADER_BYTES:])
            assert header_at(stored).codec == codec
            assert bytes(stored[HEADER_BYTES:]) == bytes(compress(codec, plain, level))
            sizes.append(len(stored))
        assert sizes[1] <= sizes[0]
    await alter(broker, compression_type="uncompressed")
    await produce(broker, b"a", DATA, Codec.SNAPPY)
    assert header_at(last_batch(broker)).codec == Codec.NONE
    await alter(broker, compression_type="producer")
    await produce(broker, b"a", DATA, Codec.SNAPPY)
    assert header_at(last_batch(broker)).codec == Codec.SNAPPY

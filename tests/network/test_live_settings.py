"""Each setting that can change at run time, and its effect from the next request on.

test_resizing and test_live_listeners test the settings of threads and listeners. A convention test requires
that every key marked dynamic is named above a test.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from trio.testing import MockClock

from broker.common.errors import ErrorCode
from broker.common.slices import run_through
from broker.log.partition import PartitionLog
from broker.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from broker.protocol.messages.log_dirs import DescribeLogDirsRequest
from broker.protocol.messages.produce import PartitionProduceResponse
from broker.quotas.entity import Entity
from broker.records.build import NewRecord, build_batch
from broker.records.compression import Codec
from tests.support.batches import recounted
from tests.support.live import ALL_BROKERS, alter, alter_through, takes_effect
from tests.support.produce import PRODUCE_VERSION, create_topic, produce_request, produce_request_of
from tests.support.prometheus import parse
from tests.support.running import RunningBroker, running_broker


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path) as running:
        client = await running.connect()
        assert (await client.ask(create_topic(), 5)).topics[0].error_code == 0
        yield running


def wall_ms(broker: RunningBroker) -> int:
    return broker.server.clock.wall_ms()


def log_of(broker: RunningBroker) -> PartitionLog:
    log = broker.server.partitions.by_name["events"].log(0)
    assert log is not None
    return log


async def produce(
    broker: RunningBroker,
    *,
    size: int = 10,
    ahead_ms: int = 0,
    acks: int = 1,
    producer_id: int = -1,
    count: int = 1,
) -> PartitionProduceResponse:
    """One batch, `count` records of `size` bytes, their timestamp so far ahead of the broker's clock."""
    record = NewRecord(None, b"x" * size, wall_ms(broker) + ahead_ms)
    epoch = sequence = 0 if producer_id >= 0 else -1
    batch = build_batch(
        [record] * count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )
    client = broker.clients[0]
    answer = await client.ask(produce_request(bytearray(batch), acks=acks), PRODUCE_VERSION)
    partition = answer.responses[0].partition_responses[0]
    assert isinstance(partition, PartitionProduceResponse)
    return partition


async def error_of_produce(broker: RunningBroker, **how: int) -> ErrorCode:
    return ErrorCode((await produce(broker, **how)).error_code)


@takes_effect("message.max.bytes")
async def test_the_largest_batch(broker: RunningBroker) -> None:
    assert await error_of_produce(broker, size=2_000) is ErrorCode.NONE
    await alter(broker, message_max_bytes="1000")
    assert await error_of_produce(broker, size=2_000) is ErrorCode.MESSAGE_TOO_LARGE
    await alter(broker, message_max_bytes=None)
    assert await error_of_produce(broker, size=2_000) is ErrorCode.NONE


@takes_effect("message.max.records")
async def test_the_most_records_in_a_batch(broker: RunningBroker) -> None:
    await alter(broker, message_max_records="3")
    for count, error in ((2, ErrorCode.NONE), (3, ErrorCode.NONE), (4, ErrorCode.MESSAGE_TOO_LARGE)):
        assert await error_of_produce(broker, count=count) is error
    await alter(broker, message_max_records=None)
    assert await error_of_produce(broker, count=4) is ErrorCode.NONE


@takes_effect("max.decompressed.message.bytes")
async def test_the_largest_record_of_a_compressed_batch(broker: RunningBroker) -> None:
    async def errors() -> list[ErrorCode]:
        """How batches with one record of this many bytes are answered."""
        found = []
        for size in (99, 100, 101):
            value = b"v" * (size - 7)  # what a record has besides
            batch = build_batch([NewRecord(None, value, wall_ms(broker))], codec=Codec.GZIP)
            answer = await broker.clients[0].ask(produce_request(batch), PRODUCE_VERSION)
            found.append(ErrorCode(answer.responses[0].partition_responses[0].error_code))
        return found

    good, bad = ErrorCode.NONE, ErrorCode.INVALID_RECORD
    assert await errors() == [good, good, good]
    await alter(broker, max_decompressed_message_bytes="100")
    assert await errors() == [good, good, bad]
    await alter(broker, record_validation="header")
    assert await errors() == [good, good, bad]
    await alter(broker, max_decompressed_message_bytes=None)
    assert await errors() == [good, good, good]


@takes_effect("record.validation")
async def test_of_which_batches_the_records_are_read(broker: RunningBroker) -> None:
    async def refused() -> tuple[ErrorCode, ErrorCode]:
        """How batches of one record that say that they have two are answered, compressed and not."""
        errors = []
        for codec in (Codec.SNAPPY, Codec.NONE):
            batch = recounted(build_batch([NewRecord(None, b"x", wall_ms(broker))], codec=codec), 2)
            answer = await broker.clients[0].ask(produce_request(batch), PRODUCE_VERSION)
            errors.append(ErrorCode(answer.responses[0].partition_responses[0].error_code))
        return errors[0], errors[1]

    good, bad = ErrorCode.NONE, ErrorCode.INVALID_RECORD
    assert await refused() == (bad, good)
    await alter(broker, record_validation="header")
    assert await refused() == (good, good)
    await alter(broker, record_validation="full")
    assert await refused() == (bad, bad)
    await alter(broker, record_validation=None)
    assert await refused() == (bad, good)


@takes_effect("log.message.timestamp.after.max.ms")
async def test_how_far_ahead_a_timestamp_may_lie(broker: RunningBroker) -> None:
    assert await error_of_produce(broker, ahead_ms=60_000) is ErrorCode.NONE
    await alter(broker, log_message_timestamp_after_max_ms="30000")
    assert await error_of_produce(broker, ahead_ms=60_000) is ErrorCode.INVALID_TIMESTAMP


@takes_effect("log.message.timestamp.before.max.ms")
async def test_how_far_behind_a_timestamp_may_lie(broker: RunningBroker) -> None:
    assert await error_of_produce(broker, ahead_ms=-60_000) is ErrorCode.NONE
    await alter(broker, log_message_timestamp_before_max_ms="30000")
    assert await error_of_produce(broker, ahead_ms=-60_000) is ErrorCode.INVALID_TIMESTAMP


@takes_effect("log.message.timestamp.type")
async def test_whose_time_a_record_carries(broker: RunningBroker) -> None:
    assert (await produce(broker)).log_append_time_ms == -1
    await alter(broker, log_message_timestamp_type="LogAppendTime")
    assert (await produce(broker)).log_append_time_ms > 0


@takes_effect("log.cleanup.policy")
async def test_a_log_that_is_compacted_needs_keys(broker: RunningBroker) -> None:
    assert await error_of_produce(broker) is ErrorCode.NONE
    await alter(broker, log_cleanup_policy="compact")
    assert await error_of_produce(broker) is ErrorCode.INVALID_RECORD


@takes_effect("log.segment.bytes")
async def test_how_large_a_segment_may_be(broker: RunningBroker) -> None:
    for _ in range(2):
        await produce(broker, size=500_000)
    assert len(log_of(broker).segments) == 1
    await alter(broker, log_segment_bytes="1048576")
    await produce(broker, size=500_000)
    assert len(log_of(broker).segments) == 2


@takes_effect("log.roll.ms")
async def test_how_old_a_segment_may_be(broker: RunningBroker) -> None:
    await produce(broker, ahead_ms=-60_000)
    await produce(broker)
    assert len(log_of(broker).segments) == 1
    await alter(broker, log_roll_ms="30000")
    await produce(broker)
    assert len(log_of(broker).segments) == 2


@takes_effect("log.index.interval.bytes", "log.index.size.max.bytes")
async def test_how_dense_and_how_large_an_index_may_be(broker: RunningBroker) -> None:
    for _ in range(3):
        await produce(broker)
    assert log_of(broker).segments[-1].index_bytes == 0
    await alter(broker, log_index_interval_bytes="0")
    for _ in range(3):
        await produce(broker)
    assert log_of(broker).segments[-1].index_bytes > 0 and len(log_of(broker).segments) == 1
    await alter(broker, log_index_size_max_bytes="8")
    await produce(broker)
    assert len(log_of(broker).segments) == 2


@takes_effect("log.flush.interval.messages")
async def test_how_many_records_may_be_answered_and_not_on_the_disk(broker: RunningBroker) -> None:
    await produce(broker)
    assert log_of(broker).recovery_point == 0
    await alter(broker, log_flush_interval_messages="1")
    await produce(broker)
    assert log_of(broker).recovery_point == 2


@takes_effect("log.flush.interval.ms")
async def test_how_long_a_record_may_not_be_on_the_disk(broker: RunningBroker) -> None:
    await produce(broker)
    store = broker.server.log
    assert store.due_flushes(wall_ms(broker) + 60_000) == []
    await alter(broker, log_flush_interval_ms="30000")
    assert [flush.partition for flush in store.due_flushes(wall_ms(broker) + 60_000)] == [log_of(broker)]


@takes_effect("log.retention.ms")
async def test_how_long_records_are_kept(broker: RunningBroker) -> None:
    await produce(broker)
    run_through(broker.server.log.retention(wall_ms(broker) + 60_000))
    assert log_of(broker).log_start_offset == 0
    await alter(broker, ALL_BROKERS, log_retention_ms="30000")
    run_through(broker.server.log.retention(wall_ms(broker) + 60_000))
    assert log_of(broker).log_start_offset == 1


@takes_effect("log.retention.bytes", "log.segment.delete.delay.ms")
async def test_how_much_is_kept_and_how_long_a_deleted_file_stays(broker: RunningBroker) -> None:
    await alter(broker, log_segment_bytes="1048576")
    for _ in range(4):
        await produce(broker, size=750_000)
    now_ms = wall_ms(broker)
    assert run_through(broker.server.log.retention(now_ms)) == [] and log_of(broker).log_start_offset == 0
    await alter(broker, log_retention_bytes="2000000")
    assert run_through(broker.server.log.retention(now_ms)) == [] and log_of(broker).log_start_offset > 0
    await alter(broker, log_retention_bytes="100", log_segment_delete_delay_ms="0")
    assert run_through(broker.server.log.retention(now_ms)) != []


@takes_effect("producer.id.expiration.ms")
async def test_how_long_a_producer_is_remembered(broker: RunningBroker) -> None:
    async def known() -> list[int]:
        request = DescribeProducersRequest([TopicRequest("events", [0])])
        answer = await broker.clients[0].ask(request, 0)
        return [each.producer_id for each in answer.topics[0].partitions[0].active_producers]

    assert await error_of_produce(broker, producer_id=7) is ErrorCode.NONE
    run_through(broker.server.log.expire_producers(wall_ms(broker) + 60_000))
    assert await known() == [7]
    await alter(broker, producer_id_expiration_ms="30000")
    run_through(broker.server.log.expire_producers(wall_ms(broker) + 60_000))
    assert await known() == []


@takes_effect("cordoned.log.dirs")
async def test_which_directories_get_new_partitions(broker: RunningBroker) -> None:
    async def cordoned() -> list[bool]:
        answer = await broker.clients[0].ask(DescribeLogDirsRequest(None), 5)
        return [each.is_cordoned for each in answer.results]

    assert await cordoned() == [False]
    await alter(broker, cordoned_log_dirs="*")
    assert await cordoned() == [True]
    refused = ErrorCode.INVALID_REPLICATION_FACTOR
    assert (await broker.clients[0].ask(create_topic("more"), 5)).topics[0].error_code == refused
    await alter(broker, cordoned_log_dirs=None)
    assert await cordoned() == [False]
    assert (await broker.clients[0].ask(create_topic("more"), 5)).topics[0].error_code == ErrorCode.NONE


@takes_effect("quota.metrics.max.entities")
async def test_how_many_entities_have_series(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as broker:
        quotas, now_ms = broker.server.quotas, broker.server.clock.ms()
        quotas.apply(Entity(client_id="greedy"), "producer_byte_rate", 1_000)
        for client_id in ("greedy", "other", "third"):
            quotas.record_produce("ANONYMOUS", client_id, 100, now_ms)

        def shown() -> tuple[int, float]:
            page = parse(broker.server.prometheus.page())
            left_out = page["weir_quota_entities_left_out"].value(quota="produce")
            return len(page["kafka_server_produce_byte_rate"].samples), left_out

        assert shown() == (3, 0)
        await alter(broker, quota_metrics_max_entities="2")
        assert shown() == (2, 1)


@takes_effect("quota.max.throttle.ms")
async def test_the_longest_mute(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as broker:
        client = await broker.connect("greedy")
        assert (await client.ask(create_topic(), 5)).topics[0].error_code == 0
        broker.server.quotas.apply(Entity(client_id="greedy"), "producer_byte_rate", 1_000)

        async def throttle_ms() -> int:
            answer = await client.ask(produce_request_of(11_000, "greedy"), PRODUCE_VERSION)
            return int(answer.throttle_time_ms)

        operator = await broker.connect("operator")
        assert await alter_through(operator, {"quota.max.throttle.ms": "250"}) == (0, None)
        assert await throttle_ms() == 250
        mock_clock.jump(1_000)
        assert await alter_through(operator, {"quota.max.throttle.ms": None}) == (0, None)
        assert await throttle_ms() == 1_000

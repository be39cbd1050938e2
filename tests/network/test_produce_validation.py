"""Produce of batches whose records contradict their headers, over sockets: the error codes, and no such batch
reaches a consumer.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from trio.testing import MockClock

from broker.common.errors import ErrorCode
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.records.build import NewRecord, build_batch
from broker.records.compression import Codec, compress
from broker.records.header import CONTROL_FLAG
from broker.records.inspect import AT_ONCE
from broker.records.packing import CodecWork
from broker.records.walk import batches, records
from tests.monitoring.events.written import second_passes
from tests.network.requests.test_request_time import CLIENT, charged_ms, limit
from tests.support.batches import packed_as, record, recounted
from tests.support.produce import PRODUCE_VERSION, create_topic, produce_request
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
COUNTS = [1, AT_ONCE, AT_ONCE + 1, 3_000]
NOTHING, INVALID = ErrorCode.NONE, ErrorCode.INVALID_RECORD


@pytest.fixture(params=["kafka", "automq"])
async def broker(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, f"socket.server.mode={request.param}") as running:
        maker = await running.connect()
        assert (await maker.ask(create_topic(partitions=3), 5)).topics[0].error_code == 0
        yield running


def good(broker: RunningBroker, count: int, codec: Codec, value: bytes = b"v" * 50) -> bytearray:
    now = broker.server.clock.wall_ms()
    return bytearray(build_batch([NewRecord(b"k", value, now)] * count, codec=codec))


async def error_of(client: WireClient, batch: bytearray, version: int = PRODUCE_VERSION) -> ErrorCode:
    answer = await client.ask(produce_request(batch), version)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


async def fetched(client: WireClient, partition: int = 0) -> int:
    """Records that a consumer gets from the beginning on; it checks every one."""
    wanted = FetchPartition(partition, fetch_offset=0, partition_max_bytes=10_000_000)
    topics = [FetchTopic("events", partitions=[wanted])]
    answer = await client.ask(FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics), 12)
    return sum(1 for batch in batches(answer.responses[0].partitions[0].records) for _ in records(batch))


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("codec", CODECS, ids=str)
async def test_a_good_batch_is_taken_and_a_miscounted_one_refused(
    broker: RunningBroker, codec: Codec, count: int
) -> None:
    """By the full handler and by the one that knows the request, at once and in slices."""
    client = await broker.connect()
    for _ in range(3):
        batch = good(broker, count, codec)
        assert await error_of(client, bytearray(batch)) is NOTHING
        for declared in (count - 1, count + 1):
            assert await error_of(client, recounted(batch, declared)) is INVALID
    assert await fetched(client) == 3 * count


@pytest.mark.parametrize("codec", CODECS, ids=str)
async def test_a_large_batch_is_unpacked_in_a_thread_and_refused_there(
    broker: RunningBroker, codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []
    run = CodecWork.run
    monkeypatch.setattr(CodecWork, "run", lambda work: (ran.append(1), run(work))[1])
    client = await broker.connect()
    batch = good(broker, 100, codec, value=bytes(range(256)) * 10)
    broken = bytearray(packed_as(bytes(batch[61:-20]), codec, 100))
    assert await error_of(client, bytearray(batch)) is NOTHING
    assert await error_of(client, broken) is INVALID
    assert await error_of(client, bytearray(batch)) is NOTHING
    assert len(ran) == (2 if codec is Codec.LZ4 else 3)  # whether an LZ4 frame is whole is seen before
    assert await fetched(client) == 200


@pytest.mark.parametrize("count", [1, 3_000])
async def test_one_bad_partition_is_refused_alone(broker: RunningBroker, count: int) -> None:
    client = await broker.connect()
    batch = good(broker, count, Codec.ZSTD)
    parts = [bytearray(batch), recounted(batch, count + 1), bytearray(batch)]
    data = [PartitionProduceData(index, part) for index, part in enumerate(parts)]
    answer = await client.ask(
        ProduceRequest(None, 1, 30_000, [TopicProduceData("events", partition_data=data)]), 9
    )
    errors = [(each.index, each.error_code) for each in answer.responses[0].partition_responses]
    assert errors == [(0, NOTHING), (1, INVALID), (2, NOTHING)]
    assert [await fetched(client, index) for index in range(3)] == [count, 0, count]


@pytest.mark.parametrize("count", [1, 3_000])
async def test_without_an_answer_the_connection_ends(broker: RunningBroker, count: int) -> None:
    client, other = await broker.connect(), await broker.connect()
    await client.send(produce_request(good(broker, count, Codec.LZ4), acks=0), PRODUCE_VERSION)
    await client.send(
        produce_request(recounted(good(broker, count, Codec.LZ4), count + 1), acks=0), PRODUCE_VERSION
    )
    assert await client.stream.receive_some(1) == b""
    assert await fetched(other) == count


async def test_an_idempotent_producer_goes_on_after_a_refusal(broker: RunningBroker) -> None:
    """A refused batch takes no sequence numbers."""
    client = await broker.connect()
    now = broker.server.clock.wall_ms()

    def numbered(sequence: int) -> bytearray:
        new = [NewRecord(b"k", b"v", now)] * 2
        made = build_batch(new, codec=Codec.GZIP, producer_id=5, producer_epoch=0, base_sequence=sequence)
        return bytearray(made)

    assert await error_of(client, numbered(0)) is NOTHING
    assert await error_of(client, recounted(numbered(2), 3)) is INVALID
    assert await error_of(client, numbered(2)) is NOTHING
    assert await error_of(client, numbered(2)) is NOTHING  # a repetition
    assert await error_of(client, numbered(9)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await fetched(client) == 4


async def test_an_error_that_the_log_finds_reports_where_it_starts(broker: RunningBroker) -> None:
    """At both handlers: the second request with the same beginning takes the fast path."""
    client = await broker.connect()
    now = broker.server.clock.wall_ms()

    def numbered(sequence: int, epoch: int = 5, attributes: int = 0) -> bytearray:
        made = build_batch(
            [NewRecord(b"k", b"v", now)],
            producer_id=5,
            producer_epoch=epoch,
            base_sequence=sequence,
            attributes=attributes,
        )
        return bytearray(made)

    assert await error_of(client, numbered(0)) is NOTHING
    broken = numbered(1)
    broken[-1] ^= 1
    for _ in range(3):
        for batch, error, start in (
            (numbered(7), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0),
            (numbered(1, epoch=4), ErrorCode.INVALID_PRODUCER_EPOCH, 0),
            (numbered(1, attributes=CONTROL_FLAG), ErrorCode.INVALID_RECORD, 0),
            (numbered(-1), ErrorCode.INVALID_RECORD, 0),
            (broken, ErrorCode.CORRUPT_MESSAGE, -1),
            (numbered(1)[:-1], ErrorCode.INVALID_RECORD, -1),
        ):
            answer = await client.ask(produce_request(bytearray(batch)), PRODUCE_VERSION)
            (found,) = answer.responses[0].partition_responses
            assert (found.error_code, found.log_start_offset) == (error, start)


async def test_a_bomb_is_refused_and_costs_its_limit_at_most(broker: RunningBroker) -> None:
    client = await broker.connect()
    body = bytes(compress(Codec.ZSTD, record(value=bytes(100 * 1_048_576))))
    assert len(body) < 20_000
    assert await error_of(client, packed_as(body, Codec.ZSTD, 1)) is ErrorCode.RECORD_LIST_TOO_LARGE
    assert await fetched(client) == 0


@pytest.mark.parametrize("version", range(3, 10))
async def test_zstd_is_taken_from_version_7_on(broker: RunningBroker, version: int) -> None:
    client = await broker.connect()
    for _ in range(2):
        for codec in CODECS:
            refused = codec is Codec.ZSTD and version < 7
            expected = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE if refused else NOTHING
            assert await error_of(client, good(broker, 1, codec), version) is expected


async def test_topics_of_the_broker_take_no_batch_of_a_client_whatever_is_in_it(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path, "events.topics=requests") as broker:
        client = await broker.connect()
        await client.ask(FindCoordinatorRequest(key="group"), 2)
        await second_passes(broker, mock_clock)
        topics = sorted(broker.server.control.image.topics)
        assert topics == ["__consumer_offsets", "__weir_requests"]
        for topic in topics:
            for batch in (good(broker, 1, Codec.GZIP), recounted(good(broker, 1, Codec.GZIP), 2)):
                answer = await client.ask(produce_request(batch, topic=topic), PRODUCE_VERSION)
                code = answer.responses[0].partition_responses[0].error_code
                assert code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_unpacking_in_a_thread_is_charged_to_the_request_quota(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """The broker's clock stands still; the thread is said to have worked for 7 ms."""
    readings = iter([1_000_000, 8_000_000])
    async with running_broker(tmp_path) as broker:
        assert (await (await broker.connect()).ask(create_topic(), 5)).topics[0].error_code == 0
        await limit(broker, "request_percentage", 1_000)
        broker.server.socket_server.handlers.sliced._thread_ns = lambda: next(readings)
        client = await broker.connect(CLIENT)
        batch = good(broker, 1, Codec.ZSTD, value=bytes(100_000))
        assert await error_of(client, batch) is NOTHING
        assert charged_ms(broker) == 7

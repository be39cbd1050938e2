"""The log in a topic of an upstream broker: Weir itself, over real sockets."""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from broker.common.errors import ErrorCode
from broker.config.listeners import Address
from broker.config.sections import UpstreamConfig
from broker.gateway.sharing import topic_log
from broker.gateway.sharing.topic_log import (
    COMPRESSED_FROM,
    MAX_ENTRIES,
    READ_AT_ONCE,
    TIMEOUT_MS,
    LogLost,
    LogUnavailable,
    RecordTooLarge,
    TopicLog,
    TopicLogPage,
    TopicLogRecord,
    read_page,
)
from broker.gateway.upstream.client import UpstreamClient
from broker.gateway.upstream.security import UpstreamSecurity
from broker.network.clock import TrioClock
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.delete_topics import DeleteTopicsRequest
from broker.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from broker.protocol.messages.list_offsets import ListOffsetsResponse, ListOffsetsTopicResponse
from broker.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker.protocol.messages.produce import ProduceResponse, TopicProduceResponse
from broker.records.build import NewRecord, build_batch
from broker.records.compression import Codec
from tests.support.fake_upstream import fake_cluster
from tests.support.running import RunningBroker, running_broker


class OneNode:
    def __init__(self, port: int) -> None:
        self._address = Address("127.0.0.1", port)

    def address_of(self, node_id: int) -> Address:
        return self._address

    def knows(self, address: Address) -> bool:
        return True

    def bootstrap_address(self) -> Address:
        return self._address


class Upstream:
    """A broker, and the gateway's client of it."""

    def __init__(self, running: RunningBroker, client: UpstreamClient, clock: TrioClock) -> None:
        self.running = running
        self.client = client
        self.clock = clock

    def topic(self, name: str = "shared", configs: dict[str, str] | None = None) -> TopicLog:
        return TopicLog(name, self.client, self.clock, configs)


@asynccontextmanager
async def started(directory: Path, *overrides: str) -> AsyncIterator[Upstream]:
    async with running_broker(directory, *overrides) as running, trio.open_nursery() as nursery:
        clock, config = TrioClock(), UpstreamConfig()
        client = UpstreamClient(config, UpstreamSecurity(config, clock), OneNode(running.port))
        await nursery.start(client.run)
        yield Upstream(running, client, clock)
        nursery.cancel_scope.cancel()


async def test_all_gateways_read_appended_entries_in_order(tmp_path):
    async with started(tmp_path) as upstream:
        first, second = upstream.topic(), upstream.topic()
        assert await first.end() == 0
        await first.append(b"a", b"1")
        await second.append(b"b", b"2" * 5_000)
        await first.append(b"a", None)
        assert await second.end() == 3
        expected = (
            TopicLogRecord(0, b"a", b"1"),
            TopicLogRecord(1, b"b", b"2" * 5_000),
            TopicLogRecord(2, b"a", None),
        )
        for topic in (first, second, upstream.topic()):
            page = await topic.read(0)
            assert page.entries == expected
            assert page.next_offset == 3
        assert (await first.read(2)).entries == expected[2:]


async def test_a_read_at_the_end_waits_for_the_next_record(tmp_path):
    async with started(tmp_path) as upstream:
        topic = upstream.topic()
        await topic.append(b"a", b"1")
        found: list[TopicLogRecord] = []

        async def read() -> None:
            found.extend((await topic.read(1)).entries)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await upstream.topic().append(b"b", b"2")
        assert found == [TopicLogRecord(1, b"b", b"2")]


async def test_the_end_is_known_while_a_read_waits(tmp_path):
    """Every change asks for it, and a read waits most of the time."""
    async with started(tmp_path) as upstream:
        topic = upstream.topic()
        await topic.append(b"a", b"1")
        await topic.read(0)
        found: list[TopicLogRecord] = []

        async def read() -> None:
            found.extend((await topic.read(1)).entries)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await wait_all_tasks_blocked(0.02)
            assert await topic.end() == 1
            assert found == []
            await topic.append(b"b", b"2")
        assert found == [TopicLogRecord(1, b"b", b"2")]


async def test_a_response_without_the_topic_is_an_unavailable_log(tmp_path):
    clock, config = TrioClock(), UpstreamConfig()
    async with fake_cluster() as cluster, trio.open_nursery() as nursery:
        client = UpstreamClient(config, UpstreamSecurity(config, clock), OneNode(cluster.live[0].port))
        await nursery.start(client.run)
        with pytest.raises(LogUnavailable, match="the response has no topic"):
            await TopicLog("shared", client, clock).end()
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def answered(timeout_ms: int | None = None, **answers: Any) -> AsyncIterator[TopicLog]:
    """A log at a broker that gives these answers, by the name of the API; a function makes one."""
    clock, config = TrioClock(), UpstreamConfig()
    async with fake_cluster() as cluster, trio.open_nursery() as nursery:
        (node,) = cluster.live
        node.versions |= {ApiKey.FETCH: (4, 11), ApiKey.LIST_OFFSETS: (1, 5)}
        partitions = [MetadataResponsePartition(0, 0, 0)]
        topics = [MetadataResponseTopic(0, "shared", partitions=partitions)]
        node.answers[ApiKey.METADATA] = lambda _request: MetadataResponse(topics=topics)
        for name, answer in answers.items():
            fixed = None if callable(answer) else answer
            node.answers[ApiKey[name]] = answer if fixed is None else lambda _request, fixed=fixed: fixed
        client = UpstreamClient(config, UpstreamSecurity(config, clock), OneNode(node.port))
        await nursery.start(client.run)
        yield TopicLog("shared", client, clock, timeout_ms=timeout_ms)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("timeout_ms", "wait_ms"), [(None, 2_000), (1_500, 750), (3_998, 1_999), (4_000, 2_000), (4_002, 2_000)]
)
async def test_a_read_waits_for_records_for_half_of_its_time(timeout_ms: int | None, wait_ms: int):
    requests: list[Any] = []

    def answer(request: Any) -> FetchResponse:
        requests.append(request)
        return FetchResponse(throttle_time_ms=1)

    async with answered(timeout_ms, FETCH=answer) as topic:
        await topic.read(7)
    assert [each.max_wait_ms for each in requests] == [wait_ms]


@pytest.mark.parametrize(
    ("throttle_ms", "waited_s"),
    [(1, 0.001), (1_500, 1.5), (9_999, 9.999), (TIMEOUT_MS, 10), (TIMEOUT_MS + 1, 10), (2**31 - 1, 10)],
)
async def test_a_read_that_a_quota_of_the_gateways_user_holds_back_waits_and_reads_nothing(
    autojump_clock, throttle_ms, waited_s
):
    """A broker answers a Fetch beyond a quota without any topic."""
    async with answered(FETCH=FetchResponse(throttle_time_ms=throttle_ms)) as topic:
        begun = trio.current_time()
        assert await topic.read(7) == TopicLogPage((), 7)
        assert trio.current_time() - begun == pytest.approx(waited_s, abs=1e-6)


@pytest.mark.parametrize("topics", [0, 1])
async def test_a_response_without_the_partition_is_an_unavailable_log(topics):
    """A task that followed the log would end with another error, and the gateway with it."""
    async with answered(
        FETCH=FetchResponse(responses=[FetchableTopicResponse("shared")] * topics),
        PRODUCE=ProduceResponse([TopicProduceResponse("shared")] * topics),
        LIST_OFFSETS=ListOffsetsResponse(topics=[ListOffsetsTopicResponse("shared")] * topics),
    ) as topic:
        with pytest.raises(LogUnavailable, match="Fetch of shared: the response has no partition"):
            await topic.read(7)
        with pytest.raises(LogUnavailable, match="Produce of shared: the response has no partition"):
            await topic.append(b"a", b"1")
        with pytest.raises(LogUnavailable, match="ListOffsets of shared: the response has no partition"):
            await topic.end()


async def test_the_topic_is_created_with_one_partition_and_compacted(tmp_path):
    async with started(tmp_path, "num.partitions=5") as upstream:
        await upstream.topic(configs={"retention.ms": "60000"}).end()
        topic = upstream.running.server.control.image.topics["shared"]
        assert topic.partitions == 1
        assert topic.configs == {"cleanup.policy": "compact", "retention.ms": "60000"}


async def test_a_record_that_the_topic_does_not_take_is_too_large(tmp_path):
    async with started(tmp_path) as upstream:
        topic = upstream.topic(configs={"max.message.bytes": "1000"})
        noise = bytes(number * number % 251 for number in range(900))
        await topic.append(b"a", noise)
        with pytest.raises(RecordTooLarge):
            await topic.append(b"a", noise + noise[:100])
        assert await topic.end() == 1


async def test_a_topic_with_several_partitions_is_no_log(tmp_path):
    async with started(tmp_path) as upstream:
        await upstream.client.request(None, CreateTopicsRequest([CreatableTopic("shared", 2, 1)]))
        with pytest.raises(LogUnavailable, match="has 2 partitions, and one is needed"):
            await upstream.topic().end()


async def test_a_topic_that_was_deleted_is_created_again_and_has_lost_its_records(tmp_path):
    async with started(tmp_path) as upstream:
        topic = upstream.topic()
        await topic.append(b"a", b"1")
        await topic.append(b"a", b"2")
        await delete(upstream)
        with pytest.raises(LogUnavailable):
            await topic.read(2)
        with pytest.raises(LogLost, match="lost records"):
            await topic.read(2)
        await topic.append(b"a", b"3")
        assert (await topic.read(0)).entries == (TopicLogRecord(0, b"a", b"3"),)


@pytest.mark.parametrize("records", [1, 2, 3])
async def test_a_topic_of_the_same_name_has_lost_the_records_however_long_it_is(tmp_path, records: int):
    """A longer one was read on behind the records that another gateway had written to it."""
    async with started(tmp_path) as upstream:
        topic, other = upstream.topic(), upstream.topic()
        await topic.append(b"a", b"1")
        assert (await topic.read(0)).next_offset == 1
        await topic.append(b"a", b"2")
        await delete(upstream)
        with pytest.raises(LogUnavailable):
            await topic.read(2)
        for number in range(records):
            await other.append(b"b", b"%d" % number)
        for _ in range(2):
            with pytest.raises(LogLost, match="lost records"):
                await topic.read(2)
        assert (await topic.read(0)).next_offset == records
        assert (await topic.read(records - 1)).next_offset == records


async def test_only_another_id_is_of_another_topic():
    """A broker before Kafka 2.8 tells none."""
    first, second, unknown = b"1" * 16, b"2" * 16, bytes(16)
    ids = iter((first, unknown, first, second))
    partitions = [MetadataResponsePartition(0, 0, 0)]
    topic = FetchableTopicResponse("shared", [PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)])
    async with answered(
        METADATA=lambda _request: MetadataResponse(
            topics=[MetadataResponseTopic(0, "shared", topic_id=next(ids), partitions=partitions)]
        ),
        FETCH=FetchResponse(responses=[topic]),
    ) as log:
        for is_lost in (False, False, False, True):
            with pytest.raises(LogUnavailable) as caught:
                await log.read(7)
            assert isinstance(caught.value, LogLost) is is_lost


async def delete(upstream: Upstream) -> None:
    await upstream.client.request(None, DeleteTopicsRequest(topic_names=["shared"]), 5)


async def test_a_log_that_ends_before_the_offset_has_lost_records(tmp_path):
    async with started(tmp_path) as upstream:
        topic = upstream.topic()
        await topic.append(b"a", b"1")
        with pytest.raises(LogLost, match="lost records"):
            await topic.read(7)


async def test_an_unreachable_broker_is_an_unavailable_log(tmp_path):
    clock, config = TrioClock(), UpstreamConfig()
    async with trio.open_nursery() as nursery:
        client = UpstreamClient(config, UpstreamSecurity(config, clock), OneNode(1))
        await nursery.start(client.run)
        topic = TopicLog("shared", client, clock)
        for call in (topic.end(), topic.read(0), topic.append(b"a", b"1")):
            with pytest.raises(LogUnavailable):
                await call
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("over", "is_whole"), [(-1, True), (0, True), (1, False)])
def test_a_page_has_a_maximum_of_records_and_reading_goes_on_behind_it(over: int, is_whole: bool):
    """Half a million records in one megabyte were read at once, in 1.6 s."""
    count = MAX_ENTRIES + over
    data = build_batch([NewRecord(b"k", b"%d" % at, 1) for at in range(count)], codec=Codec.ZSTD)
    page = read_page(data, 0)
    assert len(page.entries) == page.next_offset == min(count, MAX_ENTRIES)
    rest = read_page(data, page.next_offset)
    assert len(rest.entries) == (not is_whole) and rest.next_offset == count


def test_a_batch_that_cannot_be_read_is_skipped(caplog):
    """A bomb in one record kept all gateways from all records behind it."""
    bomb = build_batch([NewRecord(b"k", bytes(40_000_000), 1)], codec=Codec.ZSTD)
    good = bytearray(build_batch([NewRecord(b"k", b"v", 1)]))
    good[:8] = (1).to_bytes(8, "big")  # its base offset
    assert read_page(bytes(bomb) + bytes(good), 0) == TopicLogPage((TopicLogRecord(1, b"k", b"v"),), 2)
    assert caplog.messages == ["unreadable records are skipped"]


async def test_large_and_compressed_records_are_read_in_a_thread(tmp_path, monkeypatch):
    threads = []

    def noted(data: bytes, offset: int) -> TopicLogPage:
        threads.append(threading.current_thread() is not threading.main_thread())
        return read_page(data, offset)

    monkeypatch.setattr(topic_log, "read_page", noted)
    async with started(tmp_path) as upstream:
        topic = upstream.topic()
        for size in (10, COMPRESSED_FROM, READ_AT_ONCE * 2):
            end = await topic.end()
            await topic.append(b"k", b"x" * size)
            assert (await topic.read(end)).entries == (TopicLogRecord(end, b"k", b"x" * size),)
    assert threads == [False, True, True]

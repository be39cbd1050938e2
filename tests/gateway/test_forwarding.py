"""Requests through the gateway, with Weir's own broker as the upstream one."""

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from broker.common.errors import ErrorCode
from broker.gateway.api_versions import INTERNAL
from broker.gateway.client_receive import MAX_WHOLE, MIN_SIZE
from broker.gateway.forwarder import SCRATCH_BYTES, SMALL_BYTES
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.client_quotas import DescribeClientQuotasRequest
from broker.protocol.messages.describe_cluster import DescribeClusterRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.machine_speed import WITHIN_S
from tests.support.produce import (
    PRODUCE_VERSION,
    batch_of,
    create_topic,
    produce_request,
    produce_request_of,
)
from tests.support.running import RunningBroker, running_broker
from tests.support.running_gateway import RunningGateway, running_gateway
from tests.support.wire import WireClient

FETCH_VERSION = 12


@asynccontextmanager
async def both(tmp_path: Path, *overrides: str) -> AsyncIterator[tuple[RunningBroker, RunningGateway]]:
    async with (
        running_broker(tmp_path / "broker") as broker,
        running_gateway(tmp_path / "gateway", broker.port, *overrides) as gateway,
    ):
        client = await broker.connect()
        await client.ask(create_topic("events"), 5)
        yield broker, gateway


def fetch(offset: int, max_bytes: int = 10_000_000, topic: str = "events") -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=max_bytes,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )


async def produce(client: WireClient, records: bytes | bytearray, acks: int = 1) -> int:
    answer = await client.ask(produce_request(records, acks=acks), PRODUCE_VERSION)
    partition = answer.responses[0].partition_responses[0]
    assert partition.error_code == 0
    return int(partition.base_offset)


async def fetched(client: WireClient, offset: int) -> bytes:
    answer = await client.ask(fetch(offset), FETCH_VERSION)
    partition = answer.responses[0].partitions[0]
    assert partition.error_code == 0
    return bytes(partition.records)


async def test_versions_are_those_of_both_with_telemetry(tmp_path: Path) -> None:
    async with both(tmp_path) as (broker, gateway):
        direct = await (await broker.connect()).ask(ApiVersionsRequest("suite", "1"), 4)
        client = await gateway.connect()
        through = await client.ask(ApiVersionsRequest("suite", "1"), 4)
        offered = {each.api_key: (each.min_version, each.max_version) for each in through.api_keys}
        upstream = {each.api_key: (each.min_version, each.max_version) for each in direct.api_keys}
        assert offered[ApiKey.FETCH] == (upstream[ApiKey.FETCH][0], min(upstream[ApiKey.FETCH][1], 15))
        assert offered.keys() == upstream.keys() - INTERNAL
        assert ApiKey.PUSH_TELEMETRY in offered
        again = await client.ask(ApiVersionsRequest("suite", "1"), 4)
        assert [each.api_key for each in again.api_keys] == sorted(offered)
        (channel,) = gateway.server.socket_server.channels()
        assert (channel.software_name, channel.software_version) == ("suite", "1")


async def test_a_client_is_told_to_look_elsewhere_unless_it_means_this_node(tmp_path: Path) -> None:
    """KIP-1242: the upstream broker knows nothing of the gateway's ports."""
    async with both(tmp_path) as (broker, gateway):
        metadata = await (await gateway.connect()).ask(MetadataRequest([], False), 9)
        (node,) = metadata.brokers
        bootstrap, at_node = await gateway.connect(), await gateway.connect(port=node.port)
        cases = [
            (bootstrap, None, -1, ErrorCode.NONE),
            (at_node, None, -1, ErrorCode.NONE),
            (at_node, metadata.cluster_id, node.node_id, ErrorCode.NONE),
            (bootstrap, metadata.cluster_id, node.node_id, ErrorCode.REBOOTSTRAP_REQUIRED),
            (at_node, metadata.cluster_id, node.node_id + 1, ErrorCode.REBOOTSTRAP_REQUIRED),
            (at_node, "another", node.node_id, ErrorCode.REBOOTSTRAP_REQUIRED),
            (at_node, None, node.node_id, ErrorCode.INVALID_REQUEST),
            (at_node, metadata.cluster_id, -1, ErrorCode.INVALID_REQUEST),
        ]
        direct = await (await broker.connect()).ask(ApiVersionsRequest("suite", "1"), 4)
        older = await bootstrap.ask(ApiVersionsRequest("suite", "1"), 4)
        for client, cluster_id, node_id, expected in cases:
            answer = await client.ask(ApiVersionsRequest("suite", "5", cluster_id, node_id), 5)
            assert answer.error_code == expected, (cluster_id, node_id)
            assert answer.api_keys == ([] if expected else older.api_keys)
            assert answer.finalized_features == ([] if expected else direct.finalized_features)
        softwares = {channel.software_version for channel in gateway.server.socket_server.channels()}
        assert "5" in softwares


async def test_a_later_version_of_api_versions_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    async with both(tmp_path) as (_, gateway):
        client = await gateway.connect()
        head = struct.pack(">hhih", 18, 9, 77, -1) + b"\0"
        await client.stream.send_all(struct.pack(">i", len(head)) + head)
        frame = await client.receive_frame()
        assert frame[:6] == struct.pack(">ih", 77, 35)


async def test_addresses_are_the_gateways(tmp_path: Path) -> None:
    async with both(tmp_path) as (broker, gateway):
        client = await gateway.connect()
        metadata = await client.ask(MetadataRequest([MetadataRequestTopic(name="events")], False), 9)
        (node,) = gateway.server.cluster.nodes
        expected = (node, "127.0.0.1", gateway.first_port + node)
        assert [(each.node_id, each.host, each.port) for each in metadata.brokers] == [expected]
        cluster = await client.ask(DescribeClusterRequest(), 0)
        assert [(each.broker_id, each.host, each.port) for each in cluster.brokers] == [expected]
        found = await client.ask(FindCoordinatorRequest(coordinator_keys=["group"]), 4)
        (coordinator,) = found.coordinators
        assert (coordinator.node_id, coordinator.host, coordinator.port) == expected
        at_node = await gateway.connect(port=expected[2])
        assert await produce(at_node, batch_of(b"one")) == 0
        assert broker.port not in {expected[2], gateway.port}


SIZES = [
    200,
    SMALL_BYTES - 1,
    SMALL_BYTES,
    SMALL_BYTES + 1,
    65_535 - 4,
    65_536,
    65_537,
    SCRATCH_BYTES - 5,
    SCRATCH_BYTES - 4,
    SCRATCH_BYTES - 3,
    SCRATCH_BYTES + 65_536,
    1_000_000,
]


@pytest.mark.parametrize("splice_min_bytes", [0, 1, 65_536])
async def test_frames_of_all_sizes_arrive_as_they_were_sent(tmp_path: Path, splice_min_bytes: int) -> None:
    async with both(tmp_path, f"gateway.splice.min.bytes={splice_min_bytes}") as (broker, gateway):
        direct, client = await broker.connect(), await gateway.connect()
        for offset, size in enumerate(SIZES):
            request = produce_request_of(size, client.client_id or "")
            answer = await client.ask(request, PRODUCE_VERSION)
            assert answer.responses[0].partition_responses[0].base_offset == offset
            assert await fetched(client, offset) == await fetched(direct, offset)
        whole = await fetched(direct, 0)
        assert await fetched(client, 0) == whole and len(whole) > 1_500_000
        (channel,) = (each for each in gateway.server.socket_server.channels())
        assert channel.requests == 2 * len(SIZES) + 1


@pytest.mark.parametrize("splice_min_bytes", [0, 65_536])
async def test_frames_that_upstream_does_not_take_at_once_arrive_whole(
    tmp_path: Path, splice_min_bytes: int
) -> None:
    """The broker reads no more after a request until it has answered it."""
    async with both(tmp_path, f"gateway.splice.min.bytes={splice_min_bytes}") as (_, gateway):
        client = await gateway.connect()
        waiting = fetch(0)
        waiting.max_wait_ms = 300
        first = await client.send(waiting, FETCH_VERSION)
        large = produce_request_of(20_000_000, client.client_id or "")
        sent = [await client.send(large, PRODUCE_VERSION) for _ in range(2)]
        received, _ = await client.receive(1, FETCH_VERSION)
        assert received == first
        with trio.fail_after(30):
            for correlation_id in sent:
                received, answer = await client.receive(0, PRODUCE_VERSION)
                assert received == correlation_id
                assert answer.responses[0].partition_responses[0].error_code == 10  # MESSAGE_TOO_LARGE
            assert await produce(client, batch_of(b"x")) == 0


@pytest.mark.parametrize("limit", [1, 2, 64])
async def test_pipelined_requests_are_answered_in_order(tmp_path: Path, limit: int) -> None:
    setting = f"gateway.max.in.flight.requests.per.connection={limit}"
    async with both(tmp_path, setting) as (_, gateway):
        client = await gateway.connect()
        sent = []
        for number in range(100):
            if number % 10 == 5:
                sent.append((await client.send(DescribeClientQuotasRequest(), 1), 48, 1))
            elif number % 3:
                sent.append((await client.send(produce_request(batch_of(b"x")), PRODUCE_VERSION), 0, 9))
            else:
                sent.append((await client.send(fetch(0), FETCH_VERSION), 1, FETCH_VERSION))
        for correlation_id, key, version in sent:
            received, answer = await client.receive(key, version)
            assert received == correlation_id
            assert key != 48 or (answer.error_code, answer.entries) == (0, [])


async def test_requests_without_acks_are_forwarded_in_their_order(tmp_path: Path) -> None:
    async with both(tmp_path) as (_, gateway):
        client = await gateway.connect()
        for _ in range(50):
            await client.send(produce_request(batch_of(b"x"), acks=0), PRODUCE_VERSION)
        assert await produce(client, batch_of(b"last")) == 50


async def test_a_client_that_ends_its_stream_gets_its_answers(tmp_path: Path) -> None:
    async with both(tmp_path) as (_, gateway):
        client = await gateway.connect()
        for _ in range(20):
            await client.send(produce_request(batch_of(b"x")), PRODUCE_VERSION)
        await client.stream.send_eof()
        for number in range(20):
            _, answer = await client.receive(0, PRODUCE_VERSION)
            assert answer.responses[0].partition_responses[0].base_offset == number
        assert await client.is_closed()


@pytest.mark.parametrize("splice_min_bytes", [0, 65_536])
@pytest.mark.parametrize("acks", [0, 1])
@pytest.mark.parametrize("answers", [0, 3])
async def test_a_client_that_ends_within_a_large_frame_is_closed_after_its_answers(
    tmp_path: Path, splice_min_bytes: int, acks: int, answers: int
) -> None:
    async with both(tmp_path, f"gateway.splice.min.bytes={splice_min_bytes}") as (_, gateway):
        client = await gateway.connect()
        recorder, stream = _Recorder(), client.stream
        client.stream = recorder
        await client.send(produce_request(batch_of(b"x" * 900_000), acks=acks), PRODUCE_VERSION)
        client.stream = stream
        for _ in range(answers):
            await client.send(produce_request(batch_of(b"x")), PRODUCE_VERSION)
        await client.stream.send_all(recorder.data[:500_000])
        await client.stream.send_eof()
        with trio.fail_after(WITHIN_S):
            for number in range(answers):
                _, answer = await client.receive(0, PRODUCE_VERSION)
                assert answer.responses[0].partition_responses[0].base_offset == number
            assert await client.is_closed()
        assert await produce(await gateway.connect(), batch_of(b"x")) == answers


async def test_a_client_that_does_not_read_stops_no_other_client(tmp_path: Path) -> None:
    async with both(tmp_path) as (_, gateway):
        idle, other = await gateway.connect(), await gateway.connect()
        for _ in range(4):
            await produce(other, batch_of(b"x" * 900_000))
        for _ in range(60):
            await idle.send(fetch(0), FETCH_VERSION)
        for number in range(200):
            assert await produce(other, batch_of(b"y")) == 4 + number
        channels = {each.port: each for each in gateway.server.socket_server.channels()}
        slow = channels[idle.stream.socket.getsockname()[1]]
        assert slow.send is not None and slow.requests_in_flight > 0
        for _ in range(60):
            _, answer = await idle.receive(1, FETCH_VERSION)
            assert len(answer.responses[0].partitions[0].records) > 3_600_000
        assert slow.send is None


@pytest.mark.parametrize("pieces", [1, 3, 13])
async def test_frames_may_arrive_in_pieces(tmp_path: Path, pieces: int) -> None:
    async with both(tmp_path) as (_, gateway):
        client = await gateway.connect("a client id that is cut as well")
        request = produce_request(batch_of(b"x" * 100))
        listing = ListOffsetsRequest(-1, 0, [ListOffsetsTopic("events", [ListOffsetsPartition(0, -1, -1)])])
        for number in range(5):
            before = client.stream
            recorder = _Recorder()
            client.stream = recorder
            await client.send(request, PRODUCE_VERSION)
            await client.send(listing, 5)
            client.stream = before
            data = bytes(recorder.data)
            for at in range(0, len(data), pieces):
                await client.stream.send_all(data[at : at + pieces])
                await trio.lowlevel.checkpoint()
            _, answer = await client.receive(0, PRODUCE_VERSION)
            assert answer.responses[0].partition_responses[0].base_offset == number
            _, listed = await client.receive(2, 5)
            assert listed.topics[0].partitions[0].offset == number + 1


class _Recorder:
    def __init__(self) -> None:
        self.data = bytearray()

    async def send_all(self, data: bytes) -> None:
        self.data += data


HEADER = struct.Struct(">ihhih")
INVALID = {
    "negative size": struct.pack(">i", -1) + bytes(20),
    "no header": struct.pack(">i", MIN_SIZE - 1) + bytes(20),
    "too large": struct.pack(">ihhih", 104_857_601, 3, 9, 1, -1) + bytes(20),
    "client id longer than the frame": HEADER.pack(10, 3, 9, 1, 30) + bytes(40),
    "client id that is no UTF-8": HEADER.pack(12, 3, 9, 1, 2) + b"\xff\xfe",
    "ApiVersions beyond what is read whole": HEADER.pack(MAX_WHOLE + 1, 18, 4, 1, -1),
    "version that is not served": HEADER.pack(10, 0, 99, 1, -1),
    "internal API": HEADER.pack(10, 4, 0, 1, -1),
    "Fetch whose response has addresses": HEADER.pack(10, 1, 16, 1, -1),
}


@pytest.mark.parametrize("name", INVALID)
async def test_an_invalid_request_closes_only_its_connection(tmp_path: Path, name: str) -> None:
    async with both(tmp_path) as (_, gateway):
        other = await gateway.connect()
        assert await produce(other, batch_of(b"x")) == 0
        for is_first in (True, False):
            client = await gateway.connect()
            if not is_first:
                assert await produce(client, batch_of(b"x")) == 1
            await client.stream.send_all(INVALID[name])
            assert await client.is_closed()
        assert await produce(other, batch_of(b"x")) == 2


async def test_the_largest_allowed_request_is_forwarded_and_a_larger_one_is_not(tmp_path: Path) -> None:
    async with both(tmp_path, "socket.request.max.bytes=70000") as (_, gateway):
        for size in (69_999, 70_000):
            client = await gateway.connect()
            answer = await client.ask(produce_request_of(size, client.client_id or ""), PRODUCE_VERSION)
            assert answer.responses[0].partition_responses[0].error_code == 0
        client = await gateway.connect()
        with pytest.raises((EOFError, trio.BrokenResourceError)):
            await client.ask(produce_request_of(70_001, client.client_id or ""), PRODUCE_VERSION)

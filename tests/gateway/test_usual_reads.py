"""Reads of one whole request or response, which skip most of what other reads need."""

from pathlib import Path

import pytest

from broker.gateway.channel import GatewayChannel
from broker.gateway.client_receive import MAX_USUAL_HEAD, ClientReceive
from broker.gateway.forwarder import SCRATCH_BYTES, USUAL_BYTES
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.fetch import FetchRequest
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.records.build import NewRecord, build_batch
from broker.records.header import TRANSACTIONAL_FLAG
from tests.gateway.test_forwarding import both, fetched, produce
from tests.support.produce import PRODUCE_VERSION, batch_of, produce_request, produce_request_of
from tests.support.running_gateway import RunningGateway
from tests.support.wire import WireClient

HEAD_BYTES = 14
"""Of a request, with its size, up to the client id."""


def channel_of(gateway: RunningGateway) -> GatewayChannel:
    (channel,) = gateway.server.socket_server.channels()
    assert isinstance(channel, GatewayChannel)
    return channel


def head_of(channel: GatewayChannel) -> bytes | None:
    """The client id, with its length, that a usual read expects; None if no read is usual yet."""
    assert isinstance(channel.receive, ClientReceive)
    return channel.receive._usual_head.id_bytes or None


def id_bytes(client_id: str | None) -> bytes:
    return b"\xff\xff" if client_id is None else len(client_id).to_bytes(2, "big") + client_id.encode()


async def names(client: WireClient) -> list[str | None]:
    request = MetadataRequest([MetadataRequestTopic(name="events")], False)
    return [each.name for each in (await client.ask(request, 12)).topics]


async def test_each_request_has_the_client_id_that_it_says(tmp_path: Path) -> None:
    async with both(tmp_path) as (_, gateway):
        client = await gateway.connect("one")
        ids = ["one", "one", "two", "two", "two", "one", None, None, None, "", "", "one", "one"]
        for asked, client_id in enumerate(ids, 1):
            client.client_id = client_id
            assert await names(client) == ["events"]
            channel = channel_of(gateway)
            assert (channel.client_id, channel.requests) == (client_id, asked)
            assert channel.bytes_in > 0 and not channel.in_flight


async def test_a_read_is_usual_after_two_requests_with_one_client_id(tmp_path: Path) -> None:
    async with both(tmp_path) as (_, gateway):
        client = await gateway.connect("one")
        heads = []
        for client_id in ("one", "one", "two", "one", "two", "two"):
            client.client_id = client_id
            await names(client)
            heads.append(head_of(channel_of(gateway)))
        assert heads == [None, *[id_bytes("one")] * 4, id_bytes("two")]


@pytest.mark.parametrize("longer", [-1, 0, 1])
async def test_long_client_ids_are_never_usual(tmp_path: Path, longer: int) -> None:
    client_id = "x" * (MAX_USUAL_HEAD - HEAD_BYTES + longer)
    async with both(tmp_path) as (_, gateway):
        client = await gateway.connect(client_id)
        for _ in range(3):
            assert await names(client) == ["events"]
        assert head_of(channel_of(gateway)) == (id_bytes(client_id) if longer <= 0 else None)
        assert channel_of(gateway).client_id == client_id


async def test_requests_without_a_response_and_of_transactions_are_distinguished(tmp_path: Path) -> None:
    async with both(tmp_path) as (_, gateway):
        client = await gateway.connect()
        for acks in (1, 1, 0, 1, 0, -1):
            request = produce_request(batch_of(b"one"), acks=acks)
            if acks:
                answer = await client.ask(request, PRODUCE_VERSION)
                assert answer.responses[0].partition_responses[0].error_code == 0
            else:
                await client.send(request, PRODUCE_VERSION)
        made = build_batch(
            [NewRecord(None, b"one", 1_000)],
            producer_id=1,
            producer_epoch=0,
            base_sequence=0,
            attributes=TRANSACTIONAL_FLAG,
        )
        data = PartitionProduceData(0, bytearray(made))
        request = ProduceRequest("writer", -1, 30_000, [TopicProduceData("events", partition_data=[data])])
        answer = await client.ask(request, PRODUCE_VERSION)
        assert answer.responses[0].partition_responses[0].error_code != 0
        channel = channel_of(gateway)
        assert (channel.requests, len(channel.in_flight)) == (7, 0)
        assert await fetched(client, 5) == await fetched(client, 5) != b""


@pytest.mark.parametrize("version", [3, 8, 9])
async def test_produce_requests_of_all_layouts(tmp_path: Path, version: int) -> None:
    async with both(tmp_path) as (_, gateway):
        client = await gateway.connect()
        offsets = []
        for acks in (1, 1, 0, 1, 0, 1):
            request = produce_request(batch_of(b"one"), acks=acks)
            if acks:
                answer = await client.ask(request, version)
                offsets.append(answer.responses[0].partition_responses[0].base_offset)
            else:
                await client.send(request, version)
        assert offsets == [0, 1, 3, 5]
        assert channel_of(gateway).requests == 6


@pytest.mark.parametrize("longer", [-1, 0, 1])
async def test_the_largest_request_holds_for_usual_reads(tmp_path: Path, longer: int) -> None:
    limit = 2_000
    async with both(tmp_path, f"socket.request.max.bytes={limit}") as (_, gateway):
        client = await gateway.connect("tester")
        for _ in range(3):
            await produce(client, batch_of(b"one"))
        await client.send(produce_request_of(limit + longer, "tester"), PRODUCE_VERSION)
        if longer <= 0:
            _, answer = await client.receive(0, PRODUCE_VERSION)
            assert answer.responses[0].partition_responses[0].base_offset == 3
        else:
            assert await client.is_closed()


@pytest.mark.parametrize("most", [SCRATCH_BYTES, USUAL_BYTES])
@pytest.mark.parametrize("longer", [-1, 0, 1])
async def test_requests_of_a_whole_read(tmp_path: Path, most: int, longer: int) -> None:
    async with both(tmp_path) as (_, gateway):
        client = await gateway.connect("tester")
        for offset in range(3):
            assert await produce(client, batch_of(b"one")) == offset
        for offset in range(3, 6):
            answer = await client.ask(produce_request_of(most - 4 + longer, "tester"), PRODUCE_VERSION)
            assert answer.responses[0].partition_responses[0].base_offset == offset


async def test_pipelined_and_single_requests_take_turns(tmp_path: Path) -> None:
    async with both(tmp_path) as (_, gateway):
        client = await gateway.connect()
        requests = (ApiVersionsRequest("suite", "1"), 3), (MetadataRequest(), 12), (FetchRequest(), 12)
        for count in (1, 1, 3, 1, 2, 1):
            sent = [
                (message, version, await client.send(message, version))
                for message, version in requests * count
            ]
            for message, version, correlation_id in sent:
                assert (await client.receive(message.API_KEY, version))[0] == correlation_id
        channel = channel_of(gateway)
        assert (channel.requests, channel.software_name) == (27, "suite")


@pytest.mark.parametrize("length", [200, 230, 231, 300])
async def test_the_software_is_that_of_the_last_api_versions(tmp_path: Path, length: int) -> None:
    """Only a request that equals the one before it is not read again."""
    async with both(tmp_path) as (_, gateway):
        client = await gateway.connect("tester")
        for names in ("a", "a", "a", "a", "b", "a", "a", "bb", "a", "a", "ab", "a", "a"):
            sent = [
                (version, await client.send(ApiVersionsRequest(name * length, "1"), version))
                for name in names
                for version in (3, 4)[: 1 + (len(names) == 1 and name == "b")]
            ]
            for version, correlation_id in sent:
                assert (await client.receive(ApiVersionsRequest.API_KEY, version))[0] == correlation_id
            assert channel_of(gateway).software_name == names[-1] * length


async def test_the_time_of_a_forwarded_request_is_remote(tmp_path: Path) -> None:
    async with both(tmp_path) as (_, gateway):
        client = await gateway.connect()
        for _ in range(5):
            await names(client)
        (found,) = (each for each in gateway.server.socket_server.metrics.once() if each.name == "Metadata")
        assert found.counts("remote") == found.counts("total")
        for phase in ("queue", "local", "response_queue", "response_send", "throttle"):
            assert found.counts(phase)[0] == sum(found.counts(phase)) == found.requests == 5


async def test_requests_are_counted_from_the_moment_on_that_counting_begins(tmp_path: Path) -> None:
    async with both(tmp_path) as (_, gateway):
        sockets = gateway.server.socket_server
        sockets.count_by_client(False)
        client = await gateway.connect("one")
        counts = []
        for is_wanted in (False, True, False):
            sockets.count_by_client(is_wanted)
            for _ in range(3):
                await names(client)
            tap = sockets.client_usage.tap("Metadata")
            counts.append(0 if tap is None else sum(usage.requests for usage in tap.drain().values()))
        assert counts == [0, 3, 0]

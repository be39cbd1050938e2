"""Quotas at the gateway over real connections and a mock clock: exact throttle times, exact mutes.

11,000 bytes under a quota of 1,000 B/s: the window has ten whole seconds, so the rate is 1,100 B/s, and one
second repays the excess.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from broker.controller.commands import AlterClientQuotas, QuotaAlteration, QuotaOp
from broker.gateway.client_receive import BURST
from broker.gateway.forwarder import SCRATCH_BYTES, SMALL_BYTES
from broker.gateway.own_topics import MAX_REST
from broker.metadata.actor import BROKER_ITSELF
from broker.network.connection.read_ahead_channel import THROTTLED
from broker.protocol import codec
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from broker.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from broker.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from broker.protocol.messages.share_fetch import FetchPartition as SharePartition
from broker.protocol.messages.share_fetch import FetchTopic as ShareTopic
from broker.protocol.messages.share_fetch import NodeEndpoint as ShareNode
from broker.protocol.messages.share_fetch import PartitionData as SharePartitionData
from broker.protocol.messages.share_fetch import (
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from broker.protocol.varint import uvarint
from broker.quotas.entity import Entity
from tests.gateway.test_forwarding import FETCH_VERSION, both, fetch
from tests.support.fake_upstream import fake_cluster
from tests.support.machine_speed import WITHIN_S
from tests.support.produce import batch_of, produce_request, produce_request_of
from tests.support.running import RunningBroker
from tests.support.running_gateway import RunningGateway, running_gateway
from tests.support.wire import WireClient

GREEDY = "greedy"


@asynccontextmanager
async def limited(
    tmp_path: Path, kind: str, bound: float
) -> AsyncIterator[tuple[RunningBroker, RunningGateway]]:
    async with both(tmp_path) as (broker, gateway):
        gateway.server.quotas.apply(Entity(client_id=GREEDY), kind, bound)
        yield broker, gateway


def has_response(client: WireClient) -> bool:
    try:
        return bool(client.stream.socket._sock.recv(1, __import__("socket").MSG_PEEK))
    except BlockingIOError:
        return False


async def settled() -> None:
    await trio.testing.wait_all_tasks_blocked(0.05)


async def produce(client: WireClient, size: int, version: int) -> int:
    """Return the throttle time of the response, in ms. The request has `size` bytes in version 9."""
    request = produce_request_of(size, GREEDY)
    if version == 3:
        records = request.topic_data[0].partition_data[0].records
        request = produce_request(records)
    answer = await client.ask(request, version)
    assert answer.responses[0].partition_responses[0].error_code == 0
    return int(answer.throttle_time_ms)


@pytest.mark.parametrize(("size", "throttle_ms"), [(9_999, 0), (10_000, 0), (10_001, 1), (11_000, 1_000)])
async def test_a_produce_is_told_its_throttle_time(
    tmp_path: Path, mock_clock: MockClock, size: int, throttle_ms: int
) -> None:
    async with limited(tmp_path, "producer_byte_rate", 1_000) as (_, gateway):
        assert await produce(await gateway.connect(GREEDY), size, 9) == throttle_ms


@pytest.mark.parametrize("version", [9, 10, 11, 12])
async def test_the_response_is_passed_on_before_the_mute(
    tmp_path: Path, mock_clock: MockClock, version: int
) -> None:
    async with limited(tmp_path, "producer_byte_rate", 1_000) as (_broker, gateway):
        greedy, polite = await gateway.connect(GREEDY), await gateway.connect("polite")
        assert await produce(greedy, 11_000, version) == 1_000
        await greedy.send(fetch(0), FETCH_VERSION)
        await settled()
        assert not has_response(greedy)
        assert await produce(polite, 11_000, version) == 0
        mock_clock.jump(0.999)
        await settled()
        assert not has_response(greedy)
        mock_clock.jump(0.001)
        await greedy.receive(1, FETCH_VERSION)
        (row,) = [each for each in gateway.server.socket_server.channels() if each.client_id == GREEDY]
        assert row.throttles == 1 and row.flags == 0


async def test_a_produce_without_acks_is_muted_too(tmp_path: Path, mock_clock: MockClock) -> None:
    async with limited(tmp_path, "producer_byte_rate", 1_000) as (_, gateway):
        greedy = await gateway.connect(GREEDY)
        await greedy.send(produce_request_of(11_000, GREEDY, acks=0), 9)
        await greedy.send(fetch(0), FETCH_VERSION)
        await settled()
        assert not has_response(greedy)
        mock_clock.jump(1)
        _, answer = await greedy.receive(1, FETCH_VERSION)
        assert len(answer.responses[0].partitions[0].records) > 10_000


async def test_a_fetch_is_delivered_told_and_muted(tmp_path: Path, mock_clock: MockClock) -> None:
    async with both(tmp_path) as (broker, gateway):
        writer = await broker.connect()
        await writer.ask(produce_request(batch_of(b"x" * 10_900)), 9)
        size = 4 + len(bytes(await _frame(await broker.connect(GREEDY))))
        gateway.server.quotas.apply(Entity(client_id=GREEDY), "consumer_byte_rate", (size - 4) / 11)
        greedy = await gateway.connect(GREEDY)
        first = await greedy.ask(fetch(0), FETCH_VERSION)
        assert len(first.responses[0].partitions[0].records) > 10_900
        assert first.throttle_time_ms == 1_000
        await greedy.send(fetch(0), FETCH_VERSION)
        mock_clock.jump(0.999)
        await settled()
        assert not has_response(greedy)
        mock_clock.jump(0.001)
        await greedy.receive(1, FETCH_VERSION)


@pytest.mark.parametrize("version", [11, 12])
async def test_a_fetch_that_a_handler_looks_through_is_charged_too(
    tmp_path: Path, mock_clock: MockClock, version: int
) -> None:
    """A name in another place than a topic's lets a handler decide: it must be no way round the quota."""
    async with both(tmp_path) as (broker, gateway):
        writer = await broker.connect()
        await writer.ask(produce_request(batch_of(b"x" * 10_900)), 9)
        direct = await broker.connect(GREEDY)
        request = fetch(0)
        request.rack_id = "__weir_metadata"
        await direct.send(request, version)
        size = len(bytes(await direct.receive_frame()))
        gateway.server.quotas.apply(Entity(client_id=GREEDY), "consumer_byte_rate", size / 11)
        greedy = await gateway.connect(GREEDY)
        first = await greedy.ask(request, version)
        assert len(first.responses[0].partitions[0].records) > 10_900
        assert first.throttle_time_ms == 1_000
        await greedy.send(request, version)
        mock_clock.jump(0.999)
        await settled()
        assert not has_response(greedy)
        mock_clock.jump(0.001)
        await greedy.receive(1, version)


def with_large_tags(request: Any, version: int) -> bytes:
    """The frame of a Produce whose partition has more tagged fields than the gateway looks through."""
    parts = codec.encode_request(ApiKey.PRODUCE, version)(request, 7, GREEDY)
    whole = b"".join(bytes(each) for each in parts)
    assert whole.endswith(bytes(3))  # the tagged fields of the partition, the topic and the request
    field = bytes(MAX_REST)
    frame = whole[4:-3] + uvarint(1) + uvarint(9) + uvarint(len(field)) + field + bytes(2)
    return len(frame).to_bytes(4, "big") + frame


@pytest.mark.parametrize("acks", [1, 0])
async def test_a_produce_that_a_handler_looks_through_is_charged_or_closes(
    tmp_path: Path, mock_clock: MockClock, acks: int
) -> None:
    async with both(tmp_path) as (_, gateway):
        frame = with_large_tags(produce_request_of(5_000, GREEDY, acks=acks), 9)
        gateway.server.quotas.apply(Entity(client_id=GREEDY), "producer_byte_rate", (len(frame) - 4) / 11)
        greedy = await gateway.connect(GREEDY)
        await greedy.stream.send_all(frame)
        if not acks:
            assert await greedy.is_closed()
            return
        _, answer = await greedy.receive(ApiKey.PRODUCE, 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert answer.throttle_time_ms == 1_000
        (channel,) = [each for each in gateway.server.socket_server.channels() if each.client_id == GREEDY]
        await settled()
        assert channel.flags & THROTTLED


SHARE_VERSION = 1


def share_fetch(partitions: int) -> ShareFetchRequest:
    topic = ShareTopic(b"t" * 16, [SharePartition(each) for each in range(partitions)])
    return ShareFetchRequest("g", "m", topics=[topic])


@pytest.mark.parametrize("endpoints", [0, 1])
@pytest.mark.parametrize("partitions", [1, SMALL_BYTES // 4])
async def test_a_share_fetch_is_charged_as_a_fetch(
    tmp_path: Path, mock_clock: MockClock, partitions: int, endpoints: int
) -> None:
    """As it came, with other addresses, and if a handler has looked through the request. (KIP-932)"""
    async with fake_cluster(1) as cluster, running_gateway(tmp_path, cluster.live[0].port) as gateway:
        (node,) = cluster.live
        node.versions[ApiKey.SHARE_FETCH] = (1, 1)
        found = SharePartitionData(0, records=bytes(11_000))
        reply = ShareFetchResponse(
            responses=[ShareFetchableTopicResponse(b"t" * 16, [found])],
            # As long as the address of the gateway, so that both have the same size.
            node_endpoints=[ShareNode(0, "127.0.0.2", 9092)] * endpoints,
        )
        node.answers[ApiKey.SHARE_FETCH] = lambda _request: reply
        parts = codec.encode_response(ApiKey.SHARE_FETCH, SHARE_VERSION)(reply, 0)
        size = sum(map(len, parts)) - 4
        gateway.server.quotas.apply(Entity(client_id=GREEDY), "consumer_byte_rate", size / 11)
        greedy = await gateway.connect(GREEDY)
        answer = await greedy.ask(share_fetch(partitions), SHARE_VERSION)
        assert [each.host for each in answer.node_endpoints] == ["127.0.0.1"] * endpoints
        assert answer.throttle_time_ms == 1_000
        (channel,) = gateway.server.socket_server.channels()
        await settled()
        assert channel.flags & THROTTLED
        mock_clock.jump(1)
        await settled()
        assert not channel.flags


@pytest.mark.parametrize(("upstreams_ms", "expected_ms"), [(0, 1_000), (999, 1_000), (1_001, 1_001)])
@pytest.mark.parametrize("version", [0, 1, 2])
async def test_what_a_handler_forwards_is_answered_while_the_request_quota_throttles(
    tmp_path: Path, mock_clock: MockClock, version: int, upstreams_ms: int, expected_ms: int
) -> None:
    """The cluster has made the change: it must not look as if it had failed."""
    async with fake_cluster(1) as cluster, running_gateway(tmp_path, cluster.live[0].port) as gateway:
        (node,) = cluster.live
        node.versions[ApiKey.DELETE_RECORDS] = (0, 2)
        rule = QuotaAlteration((("client-id", GREEDY),), (QuotaOp("request_percentage", 1.0),))
        await gateway.server.control.apply(AlterClientQuotas((rule,)), BROKER_ITSELF)
        greedy = await gateway.connect(GREEDY)
        await greedy.ask(ApiVersionsRequest("suite", "1"), 4)
        (channel,) = gateway.server.socket_server.channels()

        def answer(_request: Any) -> DeleteRecordsResponse:
            channel.unrecorded_ns = 110_000_000
            return DeleteRecordsResponse(upstreams_ms, [DeleteRecordsTopicResult("x__weir_y", [])])

        node.answers[ApiKey.DELETE_RECORDS] = answer
        request = DeleteRecordsRequest([DeleteRecordsTopic("x__weir_y", [])], 1_000)
        found = await greedy.ask(request, version)
        assert [each.name for each in found.topics] == ["x__weir_y"]
        assert found.throttle_time_ms == expected_ms
        await settled()
        assert channel.flags & THROTTLED
        mock_clock.jump(1)
        await settled()
        assert not channel.flags & THROTTLED


async def _frame(client: WireClient) -> bytes:
    await client.send(fetch(0), FETCH_VERSION)
    return await client.receive_frame()


async def test_a_throttled_frame_that_is_spliced_has_its_throttle_time(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with both(tmp_path) as (broker, gateway):
        writer = await broker.connect()
        for _ in range(3):
            await writer.ask(produce_request(batch_of(b"x" * 900_000)), 9)
        gateway.server.quotas.apply(Entity(client_id=GREEDY), "consumer_byte_rate", 100_000)
        greedy = await gateway.connect(GREEDY)
        answer = await greedy.ask(fetch(0), FETCH_VERSION)
        size = len(answer.responses[0].partitions[0].records)
        assert size > 2_700_000
        assert 17_000 <= answer.throttle_time_ms <= 17_200


async def test_the_request_quota_charges_the_gateways_time(tmp_path: Path) -> None:
    async with both(tmp_path) as (_, gateway):
        rule = QuotaAlteration((("client-id", GREEDY),), (QuotaOp("request_percentage", 0.001),))
        await gateway.server.control.apply(AlterClientQuotas((rule,)), BROKER_ITSELF)
        greedy, polite = await gateway.connect(GREEDY), await gateway.connect("polite")
        with trio.fail_after(WITHIN_S):
            while not (await greedy.ask(fetch(0), FETCH_VERSION)).throttle_time_ms:
                assert not (await polite.ask(fetch(0), FETCH_VERSION)).throttle_time_ms
        (channel,) = [each for each in gateway.server.socket_server.channels() if each.client_id == GREEDY]
        assert channel.request_ns > 0 and channel.throttles == 1


@pytest.mark.parametrize("size", [500, 900_000])
async def test_a_produce_without_acks_pays_the_gateways_time_and_is_not_judged(
    tmp_path: Path, mock_clock: MockClock, size: int
) -> None:
    """A limit of 1 % is 100 ms of the quota's window of 10 s; 110 ms are repaid after one more second."""
    async with both(tmp_path) as (_, gateway):
        rule = QuotaAlteration((("client-id", GREEDY),), (QuotaOp("request_percentage", 1.0),))
        await gateway.server.control.apply(AlterClientQuotas((rule,)), BROKER_ITSELF)
        greedy = await gateway.connect(GREEDY)
        await greedy.ask(fetch(0), FETCH_VERSION)
        (channel,) = [each for each in gateway.server.socket_server.channels() if each.client_id == GREEDY]
        channel.network_ns = 110_000_000
        await greedy.send(produce_request_of(size, GREEDY, acks=0), 9)
        await settled()
        assert channel.flags & THROTTLED and channel.request_ns == 110_000_000
        assert gateway.server.quotas.throttle_compliance.next_deadline() is None
        await greedy.send(fetch(0), FETCH_VERSION)
        mock_clock.jump(0.999)
        await settled()
        assert not has_response(greedy)
        mock_clock.jump(0.001)
        await greedy.receive(1, FETCH_VERSION)


@pytest.mark.parametrize("splice_min_bytes", [0, 65_536])
async def test_a_large_produce_is_forwarded_whole_before_the_mute(
    tmp_path: Path, mock_clock: MockClock, splice_min_bytes: int
) -> None:
    async with both(tmp_path, f"gateway.splice.min.bytes={splice_min_bytes}") as (_, gateway):
        gateway.server.quotas.apply(Entity(client_id=GREEDY), "producer_byte_rate", 50_000)
        greedy = await gateway.connect(GREEDY)
        assert await produce(greedy, 1_000_000, 9) == 10_000
        await greedy.send(fetch(0), FETCH_VERSION)
        mock_clock.jump(9.999)
        await settled()
        assert not has_response(greedy)
        mock_clock.jump(0.001)
        await greedy.receive(1, FETCH_VERSION)


async def test_many_small_requests_leave_turns_to_others(tmp_path: Path) -> None:
    async with both(tmp_path) as (_, gateway):
        flood, other = await gateway.connect(), await gateway.connect()
        request = produce_request(batch_of(b"x"), acks=0)
        parts = codec.encode_request(0, 9)(request, 1, "f")
        frame = b"".join(bytes(part) for part in parts)
        count = SCRATCH_BYTES // len(frame)
        assert count > 3 * BURST
        await flood.stream.send_all(frame * count)
        (channel,) = [each for each in gateway.server.socket_server.channels() if each.port == _port(flood)]
        with trio.fail_after(WITHIN_S):
            while channel.requests < count:  # noqa: ASYNC110 - nothing announces it
                await trio.sleep(0.01)
        answer = await other.ask(produce_request(batch_of(b"other")), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
        answer = await flood.ask(produce_request(batch_of(b"last")), 9)
        assert answer.responses[0].partition_responses[0].base_offset == count + 1


def _port(client: WireClient) -> int:
    return int(client.stream.socket.getsockname()[1])


@pytest.mark.parametrize("size", [200_000, 900_000])
async def test_a_large_produce_is_answered_before_its_throttle_ends(
    tmp_path: Path, mock_clock: MockClock, size: int
) -> None:
    """Its frame arrives in several reads, which the mute must not stop."""
    async with limited(tmp_path, "producer_byte_rate", size / 11) as (_, gateway):
        greedy = await gateway.connect(GREEDY)
        began = trio.current_time()
        with trio.fail_after(5):
            assert await produce(greedy, size, 9) == 1_000
        assert trio.current_time() == began


@pytest.mark.parametrize("known", range(3))
@pytest.mark.parametrize(("spent_ms", "throttle_ms"), [(99, 0), (100, 0), (101, 100), (110, 1_000)])
async def test_a_rewritten_response_is_charged_by_itself(
    tmp_path: Path, mock_clock: MockClock, spent_ms: int, throttle_ms: int, known: int
) -> None:
    """A limit of 1 % is 100 ms of the quota's window of 10 s; 110 ms are repaid after one more second. What
    the response was rewritten to is remembered: the throttle time is no part of that.
    """
    async with fake_cluster(1) as cluster, running_gateway(tmp_path, cluster.live[0].port) as gateway:
        (node,) = cluster.live
        rule = QuotaAlteration((("client-id", GREEDY),), (QuotaOp("request_percentage", 1.0),))
        await gateway.server.control.apply(AlterClientQuotas((rule,)), BROKER_ITSELF)
        greedy = await gateway.connect(GREEDY)
        await greedy.ask(ApiVersionsRequest("suite", "1"), 4)
        (channel,) = gateway.server.socket_server.channels()

        def answer(_request: Any) -> FindCoordinatorResponse:
            channel.network_ns = spent_ns  # the time of the thread that the client has taken
            return FindCoordinatorResponse(coordinators=[Coordinator("group", 0, "upstream", 9092)])

        node.answers[ApiKey.FIND_COORDINATOR] = answer
        asked = FindCoordinatorRequest(coordinator_keys=["group"])
        spent_ns = 0
        for _ in range(known):
            assert (await greedy.ask(asked, 4)).throttle_time_ms == 0
        spent_ns = spent_ms * 1_000_000
        charged = channel.request_ns
        found = await greedy.ask(asked, 4)
        assert found.coordinators[0].port == gateway.first_port
        assert found.throttle_time_ms == throttle_ms
        assert channel.request_ns - charged == spent_ms * 1_000_000
        assert bool(channel.flags & THROTTLED) is bool(throttle_ms)
        mock_clock.jump(throttle_ms / 1_000)
        await settled()
        assert not channel.flags & THROTTLED


@pytest.mark.parametrize("version", [8, 9])
async def test_a_response_in_parts_with_its_throttle_time_at_the_end_is_passed_on_as_it_is(
    tmp_path: Path, mock_clock: MockClock, version: int
) -> None:
    """A Produce for 5,000 partitions is charged when the beginning of its response arrives; it is muted."""
    async with fake_cluster(1) as cluster, running_gateway(tmp_path, cluster.live[0].port) as gateway:
        (node,) = cluster.live
        rule = QuotaAlteration((("client-id", GREEDY),), (QuotaOp("request_percentage", 1.0),))
        await gateway.server.control.apply(AlterClientQuotas((rule,)), BROKER_ITSELF)
        greedy = await gateway.connect(GREEDY)
        await greedy.ask(ApiVersionsRequest("suite", "1"), 4)
        (channel,) = gateway.server.socket_server.channels()
        partitions = [PartitionProduceResponse(index, 0, 7 * index) for index in range(5_000)]
        made = ProduceResponse([TopicProduceResponse(name="events", partition_responses=partitions)])

        def answer(_request: Any) -> ProduceResponse:
            channel.network_ns = 110_000_000
            return made

        node.answers[ApiKey.PRODUCE] = answer
        answered = await greedy.ask(produce_request(batch_of(b"x")), version)
        offsets = [each.base_offset for each in answered.responses[0].partition_responses]
        assert offsets == [7 * index for index in range(5_000)]
        assert answered.throttle_time_ms == 0
        assert channel.flags & THROTTLED

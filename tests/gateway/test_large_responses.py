"""Large responses whose addresses are replaced: in slices, in their order, while others are served."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from broker.common.errors import ProtocolViolation
from broker.common.slices import SLICE, Steps, advance, run_through
from broker.config.listeners import Address
from broker.gateway.channel import GatewayChannel
from broker.gateway.responses import AT_ONCE, rewriter, rewritten
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from broker.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from broker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.gateway.frames import even_nodes, frame_of, read
from tests.gateway.test_metadata_head import large
from tests.gateway.test_upstream_faults import accepted
from tests.support.fake_upstream import FakeNode, fake_cluster
from tests.support.gateway_upstream import gateway_upstream
from tests.support.machine_speed import WITHIN_S
from tests.support.produce import batch_of, produce_request
from tests.support.running_gateway import RunningGateway, running_gateway
from tests.support.wire import WireClient

KEYS = 10_000
VERSION = 6
HOST = "kafka.internal"


def coordinators(request: Any, node_id: int = 0) -> FindCoordinatorResponse:
    found = [Coordinator(key, node_id, HOST, 9092) for key in request.coordinator_keys]
    return FindCoordinatorResponse(coordinators=found)


def keys_of(count: int) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(coordinator_keys=[f"group-{number:05d}" for number in range(count)])


@asynccontextmanager
async def serving(tmp_path: Path, *overrides: str) -> AsyncIterator[tuple[FakeNode, RunningGateway]]:
    async with (
        fake_cluster(1) as cluster,
        running_gateway(tmp_path, cluster.live[0].port, *overrides) as gateway,
    ):
        (node,) = cluster.live
        node.answers |= {ApiKey.FIND_COORDINATOR: coordinators, ApiKey.PRODUCE: accepted}
        yield node, gateway


def check(answer: Any, gateway: RunningGateway, count: int = KEYS) -> None:
    found = answer.coordinators
    assert [each.key for each in found] == [f"group-{number:05d}" for number in range(count)]
    assert {(each.host, each.port) for each in found} == {("127.0.0.1", gateway.first_port)}


async def produce(client: WireClient) -> None:
    answer = await client.ask(produce_request(batch_of(b"x")), 9)
    assert answer.responses[0].partition_responses[0].error_code == 0


RESPONSES = {
    "coordinators": (coordinators(keys_of(KEYS), 2), VERSION),
    "coordinators without an address": (coordinators(keys_of(KEYS), 1), VERSION),
    "metadata with an unreachable node": (large(13, 2_000), 13),
}


@pytest.mark.parametrize("name", RESPONSES)
def test_slices_give_the_bytes_of_the_whole(name: str) -> None:
    message, version = RESPONSES[name]
    frame = frame_of(message, version)
    made = rewritten(frame, message.API_KEY, version, even_nodes)
    rewrite = rewriter(message.API_KEY, version)
    assert rewrite is not None and whole_of(made) == rewrite(frame, even_nodes)


def whole_of(made: bytes | Steps[bytes]) -> bytes:
    return made if isinstance(made, bytes) else run_through(made)


@pytest.mark.timed
@pytest.mark.parametrize("name", RESPONSES)
def test_no_slice_is_a_large_part_of_the_whole(name: str) -> None:
    message, version = RESPONSES[name]
    frame = frame_of(message, version)
    shares = []
    for _ in range(5):
        began = time.thread_time()
        slices = rewritten(frame, message.API_KEY, version, even_nodes)
        times = [time.thread_time() - began]
        assert not isinstance(slices, bytes)
        while True:
            began = time.thread_time()
            try:
                advance(slices)
            except StopIteration:
                break
            finally:
                times.append(time.thread_time() - began)
        shares.append(max(times) / sum(times))
    assert min(shares) < 0.1


@pytest.mark.parametrize(("size", "is_sliced"), [(-1, False), (0, False), (1, True)])
def test_a_response_up_to_the_limit_is_rewritten_at_once(size: int, is_sliced: bool) -> None:
    message = coordinators(FindCoordinatorRequest(coordinator_keys=list(map(str, range(SLICE)))))
    for each in message.coordinators:
        each.host = "h"
    message.coordinators[0].key = "k" * 1_000
    missing = AT_ONCE + size - len(frame_of(message, VERSION))
    message.coordinators[0].key += "k" * missing
    frame = frame_of(message, VERSION)
    assert len(frame) == AT_ONCE + size and missing > 0
    made = rewritten(frame, ApiKey.FIND_COORDINATOR, VERSION, lambda _: Address("g", 1))
    assert isinstance(made, bytes) is not is_sliced
    assert {each.host for each in read(whole_of(made), ApiKey.FIND_COORDINATOR, VERSION).coordinators} == {
        "g"
    }


@pytest.mark.parametrize("cut", [1, 1_000, 100_000])
def test_a_damaged_large_response_is_a_violation(cut: int) -> None:
    frame = frame_of(coordinators(keys_of(KEYS)), VERSION)[:-cut]
    with pytest.raises(ProtocolViolation):
        whole_of(rewritten(frame, ApiKey.FIND_COORDINATOR, VERSION, even_nodes))


@pytest.mark.parametrize("limit", [1, 64])
async def test_responses_keep_their_order_around_large_ones(tmp_path: Path, limit: int) -> None:
    setting = f"gateway.max.in.flight.requests.per.connection={limit}"
    async with serving(tmp_path, setting) as (_, gateway):
        client = await gateway.connect()
        kinds = [ApiKey.FIND_COORDINATOR if number % 3 == 1 else ApiKey.PRODUCE for number in range(12)]

        async def send() -> None:
            for kind in kinds:
                if kind == ApiKey.FIND_COORDINATOR:
                    await client.send(keys_of(KEYS), VERSION)
                else:
                    await client.send(produce_request(batch_of(b"x")), 9)

        with trio.fail_after(WITHIN_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send)  # a client that only sent would be held at the first large response
                received = []
                for kind in kinds:
                    correlation_id, answer = await client.receive(
                        kind, VERSION if kind == ApiKey.FIND_COORDINATOR else 9
                    )
                    received.append(correlation_id)
                    if kind == ApiKey.FIND_COORDINATOR:
                        check(answer, gateway)
            assert received == sorted(received) and len(set(received)) == len(kinds)
            await produce(client)


async def test_others_are_served_between_the_slices(tmp_path: Path) -> None:
    async with serving(tmp_path) as (node, gateway):
        client, other = await gateway.connect(), await gateway.connect()
        await produce(other)
        await client.ask(keys_of(1_000), VERSION)  # compiles what it needs
        await client.send(keys_of(KEYS), VERSION)
        await node.wait_until(lambda: node.count(ApiKey.FIND_COORDINATOR) == 2)
        (channel,) = [each for each in channels(gateway) if each.in_flight]
        while channel.send is None:
            await trio.lowlevel.checkpoint()
        served = 0
        while channel.in_flight:
            await produce(other)
            served += 1
        _, answer = await client.receive(ApiKey.FIND_COORDINATOR, VERSION)
        check(answer, gateway)
        assert served >= 3


def channels(gateway: RunningGateway) -> list[GatewayChannel]:
    return [each for each in gateway.channels() if isinstance(each, GatewayChannel)]


async def test_a_client_that_does_not_read_gets_all_of_it_later(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, gateway):
        slow, other = await gateway.connect(), await gateway.connect()
        for _ in range(20):
            await slow.send(keys_of(KEYS), VERSION)
        await wait_all_tasks_blocked(0.2)
        await produce(other)
        (channel,) = [each for each in channels(gateway) if each.in_flight]
        assert channel.send is not None
        for _ in range(20):
            _, answer = await slow.receive(ApiKey.FIND_COORDINATOR, VERSION)
            check(answer, gateway)
        await produce(slow)
        assert channel.send is None and channel.flags == 0


@pytest.mark.parametrize("who", ["client", "node", "gateway"])
async def test_a_connection_that_ends_between_the_slices_leaves_nothing(
    tmp_path: Path, who: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path) as (node, gateway):
        await wait_all_tasks_blocked(0.02)
        own = node.open_connections
        client = await gateway.connect()
        await client.ask(keys_of(1_000), VERSION)
        await client.send(keys_of(KEYS), VERSION)
        await node.wait_until(lambda: node.count(ApiKey.FIND_COORDINATOR) == 2)
        (channel,) = channels(gateway)
        while channel.send is None:
            await trio.lowlevel.checkpoint()
        assert channel.in_flight
        if who == "client":
            client.stream.setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")
            await trio.aclose_forcefully(client.stream)
        elif who == "node":
            node.stop()
            _, answer = await client.receive(ApiKey.FIND_COORDINATOR, VERSION)
            check(answer, gateway)
            assert await client.is_closed()
        else:
            gateway.stop.set()
        if who != "gateway":
            with trio.fail_after(WITHIN_S):
                while gateway.channels():  # noqa: ASYNC110 - nothing announces it
                    await trio.sleep(0.01)
            await node.wait_until(lambda: node.open_connections <= own)
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


async def test_large_metadata_with_an_unreachable_node_goes_through(tmp_path: Path) -> None:
    async with serving(tmp_path) as (node, gateway):
        message = large(9, 2_000)
        node.answers[ApiKey.METADATA] = lambda _: message
        client = await gateway.connect()
        for each in message.brokers:
            each.node_id *= 50  # only the first node has a port
        answer: MetadataResponse = await client.ask(MetadataRequest([]), 9)
        assert [each.node_id for each in answer.brokers] == [0] and len(answer.topics) == 2_000


@pytest.mark.parametrize("count", [10, KEYS])
async def test_mixed_describe_configs_of_any_size_keep_their_order(tmp_path: Path, count: int) -> None:
    async with gateway_upstream(tmp_path) as (gateway, upstream):
        client = await gateway.connect()
        resources = [
            DescribeConfigsResource(16 if number % 10 == 3 else 2, f"r{number}", None)
            for number in range(count)
        ]
        answer = await client.ask(DescribeConfigsRequest(resources), 4)
        assert [each.resource_name for each in answer.results] == [f"r{number}" for number in range(count)]
        (described,) = upstream.requests_of(ApiKey.DESCRIBE_CONFIGS)
        assert len(described.resources) == count - count // 10

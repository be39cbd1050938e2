"""Clients of a gateway whose upstream brokers come, go, move and misbehave."""

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from broker.protocol.api_key import ApiKey
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.client_quotas import DescribeClientQuotasRequest
from broker.protocol.messages.metadata import MetadataRequest
from broker.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.support.fake_upstream import FakeCluster, fake_cluster
from tests.support.produce import batch_of, produce_request
from tests.support.running_gateway import RunningGateway, running_gateway

WITHOUT_DRAIN = "shutdown.drain.timeout.ms=0"
"""For gateways with requests that are never answered: else the stop waits for them."""

FAULTS = ["cuts_frames", "shifts_ids", "answers_garbage", "adds_bytes", "hangs_up"]


def accepted(_request: Any) -> ProduceResponse:
    return ProduceResponse([TopicProduceResponse("events", partition_responses=[PartitionProduceResponse()])])


@asynccontextmanager
async def before(
    tmp_path: Path, nodes: int, *overrides: str
) -> AsyncIterator[tuple[FakeCluster, RunningGateway]]:
    async with (
        fake_cluster(nodes) as cluster,
        running_gateway(tmp_path, cluster.live[0].port, *overrides) as gateway,
    ):
        for node in cluster.live:
            node.answers[ApiKey.PRODUCE] = accepted
        while not all(gateway.server.cluster.address_of(node.node_id) for node in cluster.live):
            await trio.testing.wait_all_tasks_blocked(0.01)
        yield cluster, gateway


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - nothing announces these conditions
        await trio.sleep(0.01)


async def opened(gateway: RunningGateway, node_id: int) -> None:
    """Wait until the port of a node is open."""
    await until(lambda: gateway.server.node_ports.is_open("PLAINTEXT", node_id))


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_faulty_broker_costs_only_its_own_connections(tmp_path: Path, fault: str) -> None:
    async with before(tmp_path, 2) as (cluster, gateway):
        await opened(gateway, 0)
        await opened(gateway, 1)
        good = await gateway.connect(port=gateway.first_port)
        assert (await good.ask(produce_request(batch_of(b"x")), 9)).responses
        setattr(cluster.live[1], fault, True)
        bad = await gateway.connect(port=gateway.first_port + 1)
        try:
            await bad.ask(produce_request(batch_of(b"x")), 9)
        except (EOFError, trio.BrokenResourceError):
            pass
        else:
            assert fault == "adds_bytes"
            await bad.send(produce_request(batch_of(b"x")), 9)
            with contextlib.suppress(EOFError, trio.BrokenResourceError):
                while True:
                    await bad.receive_frame()
        assert (await good.ask(produce_request(batch_of(b"x")), 9)).responses
        assert len(list(gateway.server.socket_server.channels())) == 1


async def test_requests_that_the_broker_never_answers_wait_and_others_do_not(tmp_path: Path) -> None:
    async with before(tmp_path, 2, WITHOUT_DRAIN) as (cluster, gateway):
        await opened(gateway, 0)
        await opened(gateway, 1)
        cluster.live[1].answers_nothing = True
        waiting = await gateway.connect(port=gateway.first_port + 1)
        for _ in range(100):
            await waiting.send(produce_request(batch_of(b"x")), 9)
        good = await gateway.connect(port=gateway.first_port)
        for _ in range(10):
            assert (await good.ask(produce_request(batch_of(b"x")), 9)).responses
        (channel,) = [each for each in gateway.server.socket_server.channels() if each.node_id == 1]
        assert channel.requests_in_flight == 64  # gateway.max.in.flight.requests.per.connection


@pytest.mark.parametrize(("limit", "sent"), [(1, 3), (5, 4), (5, 5), (5, 6)])
async def test_no_more_requests_are_in_flight_than_allowed(tmp_path: Path, limit: int, sent: int) -> None:
    setting = f"gateway.max.in.flight.requests.per.connection={limit}"
    async with before(tmp_path, 1, setting, WITHOUT_DRAIN) as (cluster, gateway):
        (node,) = cluster.live
        node.delay_s = 0.01
        client = await gateway.connect()
        await client.ask(ApiVersionsRequest("suite", "1"), 4)
        node.answers_nothing = True
        for _ in range(sent):
            await client.send(produce_request(batch_of(b"x")), 9)
        await node.wait_until(lambda: node.count(ApiKey.PRODUCE) >= min(limit, sent))
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert node.count(ApiKey.PRODUCE) == min(limit, sent)


async def test_a_client_of_a_stopped_broker_is_closed_after_the_backoff(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    settings = ("upstream.reconnect.backoff.ms=50", "upstream.reconnect.backoff.max.ms=1000")
    async with before(tmp_path, 2, *settings) as (cluster, gateway):
        while not gateway.server.node_ports.is_open("PLAINTEXT", 1):
            await trio.testing.wait_all_tasks_blocked(0.01)
        cluster.live[1].stop()
        await trio.testing.wait_all_tasks_blocked(0.05)
        client = await gateway.connect(port=gateway.first_port + 1)
        await client.send(MetadataRequest([]), 9)
        await trio.testing.wait_all_tasks_blocked(0.05)
        (channel,) = gateway.server.socket_server.channels()
        mock_clock.jump(0.049)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert not channel.closed
        mock_clock.jump(0.001)
        assert await client.is_closed()


async def test_connections_end_with_their_broker(tmp_path: Path) -> None:
    async with before(tmp_path, 2) as (cluster, gateway):
        await opened(gateway, 1)
        first = await gateway.connect(port=gateway.first_port)
        second = await gateway.connect(port=gateway.first_port + 1)
        for client in (first, second):
            assert (await client.ask(produce_request(batch_of(b"x")), 9)).responses
        cluster.live[1].drop_connections()
        assert await second.is_closed()
        assert (await first.ask(produce_request(batch_of(b"x")), 9)).responses


async def test_upstream_connections_close_with_their_clients(tmp_path: Path) -> None:
    async with before(tmp_path, 1) as (cluster, gateway):
        (node,) = cluster.live
        await trio.testing.wait_all_tasks_blocked(0.05)
        own = node.open_connections
        clients = [await gateway.connect() for _ in range(5)]
        for client in clients:
            await client.ask(ApiVersionsRequest("suite", "1"), 4)
        assert node.open_connections == own + 5
        for client in clients:
            await client.stream.aclose()
        await node.wait_until(lambda: node.open_connections == own)


async def test_no_upstream_connection_is_opened_before_a_request_needs_one(tmp_path: Path) -> None:
    async with before(tmp_path, 1) as (cluster, gateway):
        (node,) = cluster.live
        await trio.testing.wait_all_tasks_blocked(0.05)
        own = node.connections
        client = await gateway.connect()
        answer = await client.ask(DescribeClientQuotasRequest(), 1)
        assert answer.error_code == 0
        assert node.connections == own


async def test_ports_follow_the_nodes(tmp_path: Path) -> None:
    async with before(tmp_path, 1, "upstream.metadata.max.age.ms=100") as (cluster, gateway):
        ports = gateway.server.node_ports
        await opened(gateway, 0)
        assert not ports.is_open("PLAINTEXT", 1)
        joined = await cluster.add(1)
        joined.answers[ApiKey.PRODUCE] = accepted
        await opened(gateway, 1)
        client = await gateway.connect(port=gateway.first_port + 1)
        assert (await client.ask(produce_request(batch_of(b"x")), 9)).responses
        cluster.live.remove(joined)
        await until(lambda: not ports.is_open("PLAINTEXT", 1))
        with pytest.raises(OSError):
            await gateway.connect(port=gateway.first_port + 1)


@pytest.mark.parametrize(("node_id", "is_reachable"), [(7, True), (8, False)])
async def test_a_node_beyond_the_port_range_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, node_id: int, is_reachable: bool
) -> None:
    async with before(tmp_path, 1, "upstream.metadata.max.age.ms=100") as (cluster, gateway):
        await cluster.add(node_id)
        await until(lambda: node_id in gateway.server.cluster.nodes)
        await trio.testing.wait_all_tasks_blocked(0.02)
        client = await gateway.connect()
        metadata = await client.ask(MetadataRequest([]), 9)
        expected = {0, node_id} if is_reachable else {0}
        assert {each.node_id for each in metadata.brokers} == expected
        messages = [each.getMessage() for each in caplog.records]
        assert sum("gateway.port.range is too short" in each for each in messages) == (not is_reachable)


async def test_another_cluster_behind_the_address_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with before(tmp_path, 1) as (cluster, gateway):
        client = await gateway.connect()
        await client.ask(ApiVersionsRequest("suite", "1"), 4)
        port = cluster.live[0].port
        gateway.stop.set()
    cluster.cluster_id = "another"
    async with fake_cluster(0) as other:
        other.cluster_id = "another"
        node = await other.add(0)
        setting = f"upstream.bootstrap.servers=127.0.0.1:{node.port}"
        async with running_gateway(tmp_path, port, setting, finds_cluster=False) as gateway:
            await until(lambda: gateway.server.cluster.is_refused)
            own = node.count(ApiKey.API_VERSIONS)
            client = await gateway.connect()
            await client.send(ApiVersionsRequest("suite", "1"), 4)
            assert await client.is_closed()
            assert node.count(ApiKey.METADATA) == 0
            assert own > 0
    assert sum("is another one" in each.getMessage() for each in caplog.records) == 1

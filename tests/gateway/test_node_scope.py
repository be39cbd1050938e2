"""quota.scope=broker over real connections and a mock clock: two upstream nodes, one client, exact throttle
times and mutes at each node by itself.

10,000 bytes are what a quota of 1,000 B/s allows in its ten whole windows, and 11,000 bytes are a second too
many.
"""

import json
import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from broker.common.errors import ConfigError, ErrorCode
from broker.common.slices import run_through
from broker.config.load import load
from broker.config.sections.quotas import BrokerQuotaConfig
from broker.controller.commands import AlterClientQuotas, EntityPairs, QuotaAlteration, QuotaOp
from broker.gateway.channel import GatewayChannel
from broker.metadata.actor import BROKER_ITSELF
from broker.network import clock as clocks
from broker.protocol import codec
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.client_quotas import DescribeClientQuotasRequest
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from broker.protocol.messages.metadata import MetadataRequest
from broker.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from broker.quotas.client_quotas import NO_NODE
from broker.quotas.entity import Entity
from broker.quotas.kinds import QuotaKind
from broker.quotas.usage import IDLE_MS
from tests.gateway.test_forwarding import FETCH_VERSION, fetch
from tests.support.fake_upstream import FakeCluster, FakeNode, fake_cluster
from tests.support.gateway_upstream import Upstream
from tests.support.machine_speed import WITHIN_S
from tests.support.produce import PRODUCE_VERSION, create_topic, produce_request_of
from tests.support.running import running_broker
from tests.support.running_gateway import RunningGateway, running_gateway
from tests.support.view_rows import quota_rows, usage_rows
from tests.support.wire import WireClient

GREEDY = "greedy"
RULE: EntityPairs = (("client-id", GREEDY),)
LIMIT = 1_000
PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
NONE, EXCEEDED = ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED


class Node:
    """A fake upstream node with topics, whose Fetch responses have `fetched` bytes without their size."""

    def __init__(self, node: FakeNode) -> None:
        self.node = node
        self.upstream = Upstream(node)
        self.fetched = 1_000
        node.versions |= {ApiKey.PRODUCE: (3, PRODUCE_VERSION), ApiKey.FETCH: (4, FETCH_VERSION)}
        node.answers |= {
            ApiKey.PRODUCE: lambda _: ProduceResponse(
                [TopicProduceResponse("events", partition_responses=[PartitionProduceResponse()])]
            ),
            ApiKey.FETCH: lambda _: fetch_response(self.fetched),
        }
        del node.answers[ApiKey.METADATA]


def fetch_response(size: int) -> FetchResponse:
    """A response whose frame, without its size, has `size` bytes."""
    length = size - 100
    for _ in range(3):
        partition = PartitionData(records=bytearray(length))
        reply = FetchResponse(responses=[FetchableTopicResponse("events", partitions=[partition])])
        made = sum(map(len, codec.encode_response(ApiKey.FETCH, FETCH_VERSION)(reply, 1))) - 4
        if made == size:
            return reply
        length += size - made
    raise ValueError(f"no response of {size} bytes")


class World:
    """A gateway with quota.scope=broker before the nodes 0 and 1."""

    def __init__(self, gateway: RunningGateway, cluster: FakeCluster, nodes: list[Node]) -> None:
        self.gateway = gateway
        self.cluster = cluster
        self.nodes = nodes
        self.server = gateway.server

    async def limit(
        self, key: str, bound: float | None, *, entity: EntityPairs = RULE, shadow: bool | None = None
    ) -> None:
        rule = QuotaAlteration(entity, (QuotaOp(key, bound),), shadow=shadow)
        (outcome,) = await self.server.control.apply(AlterClientQuotas((rule,)), BROKER_ITSELF)
        assert outcome.ok

    async def at(self, node: int, client_id: str = GREEDY) -> WireClient:
        """A connection to the port of a node, whose upstream connection is open."""
        client = await self.gateway.connect(client_id, port=self.gateway.first_port + node)
        await client.ask(ApiVersionsRequest("suite", "1"), 3)
        return client

    async def anywhere(self, client_id: str = GREEDY) -> WireClient:
        """A connection to the bootstrap port, of which nothing has been forwarded."""
        return await self.gateway.connect(client_id)

    def channel_of(self, client: WireClient) -> GatewayChannel:
        port = client.stream.socket.getsockname()[1]
        (found,) = [each for each in self.server.socket_server.channels() if each.port == port]
        assert isinstance(found, GatewayChannel)
        return found

    async def use(self, key: str, client: WireClient, node: int, size: int) -> int:
        """Produce, or fetch from `node`, `size` bytes. Returns the throttle time of the response, in ms."""
        if key == PRODUCE:
            return await produce(client, size)
        self.nodes[node].fetched = size
        return await fetched(client)

    def used(self, kind: QuotaKind) -> dict[int | None, float]:
        """The present use at each node, in the key's unit."""
        now_ms = self.server.clock.ms()
        found = self.server.quotas.managers[kind].sensors_of("ANONYMOUS", GREEDY)
        return {sensor.node: sensor.observed(now_ms) for sensor in found}


@asynccontextmanager
async def world(tmp_path: Path, *overrides: str) -> AsyncIterator[World]:
    async with fake_cluster(2) as cluster:
        nodes = [Node(each) for each in cluster.live]
        settings = ("quota.scope=broker", *overrides)
        async with running_gateway(tmp_path, nodes[0].node.port, *settings) as gateway:
            ports = gateway.server.node_ports
            await until(lambda: all(ports.is_open("PLAINTEXT", node) for node in (0, 1)))
            yield World(gateway, cluster, nodes)


@asynccontextmanager
async def limited(
    tmp_path: Path, key: str = PRODUCE, *overrides: str
) -> AsyncIterator[tuple[World, WireClient, WireClient]]:
    """A world in which the client has a limit of `key`, with its connections to both nodes."""
    async with world(tmp_path, *overrides) as w:
        await w.limit(key, LIMIT)
        yield w, await w.at(0), await w.at(1)


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(WITHIN_S):
        while not condition():
            await trio.testing.wait_all_tasks_blocked(0.01)


async def until_nodes(w: World, clock: MockClock, condition: Callable[[], bool]) -> None:
    """Let time pass until the gateway has learned of a change of the nodes."""
    w.server.cluster.refresh()
    clock.autojump_threshold = 0.02
    while not condition():  # noqa: ASYNC110 - nothing announces these conditions
        await trio.sleep(0.01)
    clock.autojump_threshold = float("inf")


async def settled() -> None:
    await trio.testing.wait_all_tasks_blocked(0.05)


def has_response(client: WireClient) -> bool:
    try:
        return bool(client.stream.socket._sock.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


async def produce(client: WireClient, size: int) -> int:
    """Return the throttle time of the response, in ms."""
    assert client.client_id is not None
    answer = await client.ask(produce_request_of(size, client.client_id), PRODUCE_VERSION)
    return int(answer.throttle_time_ms)


async def fetched(client: WireClient) -> int:
    """Return the throttle time of the response, in ms."""
    answer = await client.ask(fetch(0), FETCH_VERSION)
    return int(answer.throttle_time_ms)


async def is_muted_for(client: WireClient, clock: MockClock, ms: int) -> bool:
    """Return whether the connection is not read for exactly `ms`."""
    await client.send(MetadataRequest([], False), 9)
    await settled()
    if has_response(client):
        return ms == 0
    clock.jump((ms - 1) / 1_000)
    await settled()
    is_early = has_response(client)
    clock.jump(0.001)
    with trio.move_on_after(5) as scope:
        await client.receive(ApiKey.METADATA, 9)
    return not (is_early or scope.cancelled_caught)


SIZES = [(9_999, 0), (10_000, 0), (10_001, 1), (11_000, 1_000)]


@pytest.mark.parametrize("key", [PRODUCE, FETCH])
@pytest.mark.parametrize(("size", "throttle_ms"), SIZES)
async def test_bytes_count_at_their_node_only(
    tmp_path: Path, mock_clock: MockClock, key: str, size: int, throttle_ms: int
) -> None:
    async with limited(tmp_path, key) as (w, first, second):
        assert await w.use(key, first, 0, size) == throttle_ms
        assert await w.use(key, second, 1, 10_000) == 0
        kind = QuotaKind.PRODUCE if key == PRODUCE else QuotaKind.FETCH
        assert w.used(kind) == {0: size / 10, 1: 1_000.0}
        assert await is_muted_for(second, mock_clock, 0)
        assert await is_muted_for(first, mock_clock, throttle_ms)


@pytest.mark.parametrize(
    ("spent_us", "throttle_ms"), [(99_990, 0), (100_000, 0), (100_010, 1), (105_000, 500), (120_000, 2_000)]
)
async def test_request_time_counts_at_its_node_only(
    tmp_path: Path, mock_clock: MockClock, spent_us: int, throttle_ms: int
) -> None:
    """One percent is 100 ms in ten windows; a throttle is at most all windows together."""
    async with world(tmp_path) as w:
        first, second = await w.at(0), await w.at(1)
        await w.limit("request_percentage", 1)
        w.channel_of(first).network_ns += spent_us * 1_000
        w.channel_of(second).network_ns += 100_000_000
        assert await fetched(first) == throttle_ms
        assert await fetched(second) == 0
        assert w.used(QuotaKind.REQUEST) == {0: pytest.approx(spent_us / 100_000), 1: 1.0}
        assert await is_muted_for(second, mock_clock, 0)
        assert await is_muted_for(first, mock_clock, throttle_ms)


async def test_what_is_owed_at_a_node_is_owed_there_after_a_restart(
    tmp_path: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        clocks, "_real_wall_ms", lambda: 1_800_000_000_000 + round(trio.current_time() * 1_000)
    )
    async with limited(tmp_path) as (_, first, second):
        assert await produce(first, 18 * LIMIT) == 8_000
        assert await produce(second, LIMIT) == 0
    mock_clock.jump(10)
    async with world(tmp_path) as w:
        first, second = await w.at(0), await w.at(1)
        assert await produce(first, 500) == 8_000
        assert await produce(second, 500) == 0


def create(name: str, partitions: int) -> CreateTopicsRequest:
    return CreateTopicsRequest([CreatableTopic(name, partitions, 1)], 5_000, False)


@pytest.mark.parametrize(
    ("partitions", "error", "throttle_ms"), [(9, NONE, 0), (10, NONE, 0), (11, EXCEEDED, 500)]
)
async def test_mutations_count_once_for_all_nodes(
    tmp_path: Path, mock_clock: MockClock, partitions: int, error: int, throttle_ms: int
) -> None:
    """A rate of 2 over ten windows accumulates 20 tokens. Kafka's controller counts for the whole cluster."""
    async with world(tmp_path, "controller.quota.window.num=10") as w:
        await w.limit("controller_mutation_rate", 2)
        first, second = await w.at(0), await w.at(1)
        for client, size in ((first, partitions), (second, 10)):
            answer = await client.ask(create("a", size), 6)
            assert (answer.topics[0].error_code, answer.throttle_time_ms) == (NONE, 0)
        answer = await first.ask(create("b", 1), 6)
        assert (answer.topics[0].error_code, answer.throttle_time_ms) == (error, throttle_ms)
        assert ("b" in w.nodes[0].upstream.topics) is (error == NONE)
        assert set(w.used(QuotaKind.CONTROLLER_MUTATION)) == {None}
        assert await is_muted_for(second, mock_clock, 0)
        assert await is_muted_for(first, mock_clock, throttle_ms)


async def test_all_connections_to_a_node_share_its_limit(tmp_path: Path, mock_clock: MockClock) -> None:
    async with world(tmp_path) as w:
        await w.limit(PRODUCE, LIMIT)
        first, second = await w.at(0), await w.at(0)
        assert await produce(first, 5_000) == 0
        assert await produce(second, 6_000) == 1_000


async def test_a_bootstrap_connection_counts_at_the_node_that_it_was_forwarded_to(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with world(tmp_path) as w:
        await w.limit(PRODUCE, LIMIT)
        clients = [await w.anywhere() for _ in range(2)]
        for client in clients:
            await client.ask(ApiVersionsRequest("suite", "1"), 3)
        nodes = {node.node.address: node.node.node_id for node in w.nodes}
        of = [nodes[w.channel_of(client).upstream_address] for client in clients]  # type: ignore[index]
        assert sorted(of) == [0, 1]
        assert await produce(clients[0], 5_000) == 0
        assert w.used(QuotaKind.PRODUCE) == {of[0]: 500.0}
        assert await produce(await w.at(of[0]), 6_000) == 1_000
        assert await produce(clients[1], 10_000) == 0


async def test_nothing_is_charged_for_bytes_before_the_upstream_connection_is_open(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """The gateway answers DescribeClientQuotas itself; only the time that it takes is charged."""
    async with world(tmp_path) as w:
        for key in (PRODUCE, FETCH, "controller_mutation_rate", "request_percentage"):
            await w.limit(key, LIMIT)
        client = await w.anywhere()
        await client.ask(DescribeClientQuotasRequest(), 1)
        channel = w.channel_of(client)
        assert channel.upstream_address is None and channel.quotas is w.server.quotas.at_node(NO_NODE)
        assert [w.used(kind) for kind in QuotaKind if kind in w.server.quotas.managers] == [
            {},
            {},
            {NO_NODE: 0.0},
            {},
        ]
        at_node = await w.gateway.connect(GREEDY, port=w.gateway.first_port + 1)
        await at_node.ask(DescribeClientQuotasRequest(), 1)
        assert set(w.used(QuotaKind.REQUEST)) == {NO_NODE, 1}


async def test_without_a_known_node_the_limit_holds_for_all_such_connections(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """The bootstrap server has an address that the cluster does not tell."""
    async with fake_cluster(2) as cluster:
        node, absent = (Node(each) for each in cluster.live)
        node.node.says_nodes = [absent.node]
        absent.node.stop()
        async with running_gateway(tmp_path, node.node.port, "quota.scope=broker") as gateway:
            w = World(gateway, cluster, [node, absent])
            await w.limit(PRODUCE, LIMIT)
            mock_clock.autojump_threshold = 0.02
            clients: list[WireClient] = []
            while len(clients) < 2:
                client = await w.anywhere()
                with suppress(EOFError, trio.BrokenResourceError):  # some are forwarded to the absent node
                    await client.ask(ApiVersionsRequest("suite", "1"), 3)
                    clients.append(client)
            mock_clock.autojump_threshold = float("inf")
            assert await produce(clients[0], 5_000) == 0
            assert await produce(clients[1], 6_000) == 1_000
            assert w.used(QuotaKind.PRODUCE) == {NO_NODE: 1_100.0}


# Rules that change


async def test_a_raised_limit_shortens_the_throttle_at_each_node(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with limited(tmp_path) as (w, first, second):
        assert await produce(first, 11_000) == 1_000
        assert await produce(second, 12_000) == 2_000
        await w.limit(PRODUCE, 1_050)
        rows = {row.upstream_node: row for row in w.server.views.quotas.throttled()}
        assert {node: row.bound for node, row in rows.items()} == {0: 1_050, 1: 1_050}
        assert {node: row.throttle_ms for node, row in rows.items()} == {0: 952, 1: 1_905}
        await w.limit(PRODUCE, None)
        await settled()
        assert w.server.views.quotas.throttled() == []


async def test_a_limit_that_now_allows_the_use_releases_one_node_only(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with limited(tmp_path) as (w, first, second):
        assert await produce(first, 11_000) == 1_000
        assert await produce(second, 20_000) == 10_000
        await w.limit(PRODUCE, 1_100)
        await settled()
        assert [row.upstream_node for row in w.server.views.quotas.throttled()] == [1]


async def test_a_client_that_was_over_the_new_limit_at_one_node_starts_at_it_there(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with world(tmp_path) as w:
        first, second = await w.at(0), await w.at(1)
        assert await produce(first, 50_000) == 0
        mock_clock.jump(2)
        await w.limit(PRODUCE, LIMIT)
        assert w.used(QuotaKind.PRODUCE) == {0: pytest.approx(LIMIT), 1: 0.0}
        assert await produce(first, 1_000) > 0
        assert await produce(second, 10_000) == 0


async def test_a_debt_goes_with_the_connections_of_its_node(tmp_path: Path, mock_clock: MockClock) -> None:
    """The client comes under another rule: it owes at node 0, and nothing at node 1."""
    async with limited(tmp_path) as (w, first, second):
        assert await produce(first, 11_000) == 1_000
        assert await produce(second, 5_000) == 0
        await w.limit(PRODUCE, LIMIT, entity=(("user", "ANONYMOUS"),))
        (row,) = w.server.views.quotas.throttled()
        assert (row.upstream_node, row.remaining_ms, row.entity) == (0, 1_000, (("user", "ANONYMOUS"),))
        found = w.server.quotas.produce.sensors_of("ANONYMOUS", GREEDY)
        now_ms = w.server.clock.ms()
        assert {sensor.node: sensor.debt(now_ms) for sensor in found} == {0: 11_000.0, 1: 5_000.0}


async def test_shadow_mode_counts_for_all_nodes_and_throttles_at_none(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with world(tmp_path) as w:
        await w.limit(PRODUCE, LIMIT, shadow=True)
        first, second = await w.at(0), await w.at(1)
        assert [await produce(first, 11_000), await produce(second, 12_000)] == [0, 0]
        mock_clock.jump(60)
        (row,) = quota_rows(w.server.views)
        (limit,) = row.limits
        assert limit.shadow is not None
        assert (limit.shadow.times, limit.shadow.throttle_ms) == (2, 2_000)
        text = w.server.prometheus.page()
        for node in (0, 1):
            sample = f'shadow_throttles_total{{user="",client_id="{GREEDY}",node="{node}"}} 1'
            assert f"kafka_server_produce_{sample}\n" in text
        await w.limit(PRODUCE, LIMIT, shadow=False)
        assert [await produce(first, 10_000), await produce(second, 10_001)] == [0, 1]


async def test_the_longest_throttle_holds_at_each_node(tmp_path: Path, mock_clock: MockClock) -> None:
    async with limited(tmp_path) as (w, first, second):
        assert await produce(first, 20_000) == 10_000
        w.server.quotas.set_longest_throttle(3_000)
        assert await produce(second, 20_000) == 3_000


async def test_the_quota_of_the_whole_gateway_is_one_for_all_nodes(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with world(tmp_path) as w:
        config = BrokerQuotaConfig(quota_enabled=True, produce_bytes=LIMIT, fetch_bytes=LIMIT)
        w.server.quotas.configure_broker(config, w.server.clock.ms())
        first, second = await w.at(0), await w.at(1)
        assert await produce(first, 5_000) == 0
        assert await produce(second, 6_000) == 1_000
        w.nodes[0].fetched, w.nodes[1].fetched = 5_000, 6_000
        assert await fetched(first) == 0
        assert await fetched(await w.at(1, "other")) == 1_000
        rows = w.server.views.quotas.throttled()
        assert [row.upstream_node for row in rows] == [None, None]


# Nodes that join and leave


async def test_the_usage_of_a_node_that_left_ends_like_that_of_an_idle_client(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with limited(tmp_path) as (w, first, second):
        assert [await produce(first, 1_000), await produce(second, 1_000)] == [0, 0]
        quotas, began_ms = w.server.quotas, w.server.clock.ms()
        w.cluster.live.pop()
        await until_nodes(w, mock_clock, lambda: set(w.server.cluster.nodes) == {0})
        assert quotas.produce.sensor_count == 2
        quotas.at_node(0).produce.record("ANONYMOUS", GREEDY, 1, began_ms + 1)
        assert run_through(quotas.expire(began_ms + IDLE_MS)) == 0
        assert run_through(quotas.expire(began_ms + IDLE_MS + 1)) == 1
        assert set(w.used(QuotaKind.PRODUCE)) == {0}
        assert 'node="1"' not in w.server.prometheus.page().partition("kafka_server_fetch_byte_rate")[0]


async def test_a_node_that_joins_has_the_whole_limit(tmp_path: Path, mock_clock: MockClock) -> None:
    async with world(tmp_path) as w:
        await w.limit(PRODUCE, LIMIT)
        assert await produce(await w.at(0), 11_000) == 1_000
        Node(await w.cluster.add(2))
        await until_nodes(w, mock_clock, lambda: w.server.node_ports.is_open("PLAINTEXT", 2))
        third = await w.at(2)
        assert await produce(third, 10_000) == 0
        assert await produce(third, 1_000) == 1_000


# What is shown


async def test_the_console_and_rest_show_the_node(tmp_path: Path, mock_clock: MockClock) -> None:
    async with limited(tmp_path) as (w, first, second):
        assert await produce(second, 12_000) == 2_000
        assert await produce(first, 11_000) == 1_000
        views = w.server.views
        rows = [(row.upstream_node, row.throttle_ms, row.observed) for row in views.quotas.throttled()]
        assert rows == [(1, 2_000, 1_200.0), (0, 1_000, 1_100.0)]
        (rule,) = quota_rows(views)
        (limit,) = rule.limits
        assert (limit.upstream_node, limit.observed, limit.throttled) == (1, 1_200.0, 2)
        one = run_through(views.quotas.quota(RULE))
        assert one is not None and one.limits == rule.limits
        resolved = {now.key: now for now, _ in run_through(views.quotas.resolve(None, GREEDY))}
        found = resolved[PRODUCE]
        assert (found.observed, found.wait_ms) == (1_200.0, 2_000)
        uses = [(use.upstream_node, use.observed, use.wait_ms) for use in found.nodes]
        assert uses == [(0, 1_100.0, 1_000), (1, 1_200.0, 2_000)]
        assert resolved[FETCH].nodes == ()
        (row,) = [each for each in usage_rows(views) if each.client_id == GREEDY]
        assert dict(row.nodes) == {PRODUCE: found.nodes}


async def test_metrics_have_a_series_for_each_node(tmp_path: Path, mock_clock: MockClock) -> None:
    async with world(tmp_path) as w:
        await w.limit(PRODUCE, LIMIT)
        assert await produce(await w.at(0), 11_000) == 1_000
        assert await produce(await w.at(1), 5_000) == 0
        text = w.server.prometheus.page()
        labels = [f'{{user="",client_id="{GREEDY}",node="{node}"}}' for node in (0, 1)]
        for name, values in (
            ("byte_rate", (1100, 500)),
            ("throttle_time", (1000, 0)),
            ("quota_bound", (1000, 1000)),
        ):
            for label, value in zip(labels, values, strict=True):
                assert f"kafka_server_produce_{name}{label} {value}" in text
        assert "kafka_server_produce_queue_size 1\n" in text


async def test_throttle_events_have_the_node(tmp_path: Path, mock_clock: MockClock) -> None:
    async with world(tmp_path, "events.topics=throttles") as w:
        await w.limit(PRODUCE, LIMIT)
        assert await produce(await w.at(1), 11_000) == 1_000
        assert await produce(await w.at(0), 12_000) == 2_000
        _, throttles, *_ = w.server.events.sources
        rows: list[dict[str, Any]] = [json.loads(each.value) for each in throttles.drain(0)]
        assert [(row["upstream_node"], row["throttle_ms"]) for row in rows] == [(1, 1_000), (0, 2_000)]


async def test_with_another_scope_nothing_has_a_node(tmp_path: Path, mock_clock: MockClock) -> None:
    async with limited(tmp_path, PRODUCE, "quota.scope=gateway") as (w, first, second):
        assert await produce(first, 5_000) == 0
        assert await produce(second, 6_000) == 1_000
        (row,) = w.server.views.quotas.throttled()
        assert row.upstream_node is None
        assert w.used(QuotaKind.PRODUCE) == {None: 1_100.0}
        assert w.channel_of(first).quotas is w.server.quotas
        assert 'node="' not in w.server.prometheus.page().partition("kafka_server_fetch_byte_rate")[0]
        (found,) = [
            now for now, _ in run_through(w.server.views.quotas.resolve(None, GREEDY)) if now.key == PRODUCE
        ]
        assert (found.observed, found.nodes) == (1_100.0, ())


@pytest.mark.parametrize("scope", ["broker", "gateway", "cluster"])
async def test_a_broker_does_the_same_with_every_scope(
    tmp_path: Path, mock_clock: MockClock, scope: str
) -> None:
    async with running_broker(tmp_path, f"quota.scope={scope}") as broker:
        await (await broker.connect()).ask(create_topic(), 5)
        broker.server.quotas.apply(Entity(client_id=GREEDY), PRODUCE, LIMIT)
        first, second = await broker.connect(GREEDY), await broker.connect(GREEDY)
        assert [await produce(first, 5_000), await produce(second, 6_000)] == [0, 1_000]
        (sensor,) = broker.server.quotas.produce.sensors()
        assert sensor.node is None


@pytest.mark.parametrize("scope", ["", "node", "Broker"])
def test_other_scopes_are_refused(scope: str) -> None:
    with pytest.raises(ConfigError, match=re.escape("quota.scope")):
        load(None, [f"quota.scope={scope}"], {})

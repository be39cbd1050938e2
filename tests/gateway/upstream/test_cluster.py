"""The nodes of the upstream cluster: found, followed, refused; with one log line for each change."""

import itertools
import logging
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.config.listeners import Address, SecurityProtocol
from broker.config.sections import TlsConfig
from broker.controller.rows.upstream import UpstreamCondition
from broker.gateway.upstream.cluster import UpstreamCluster
from broker.gateway.upstream.errors import Reason, UpstreamError
from broker.gateway.upstream.security import UpstreamSecurity
from broker.network.clock import TrioClock
from broker.protocol.api_key import ApiKey
from broker.security.plain import PLAIN_MODULE
from broker.security.tls import server_context
from tests.support.certificates import certificates
from tests.support.fake_upstream import CLUSTER_ID, HOST, FakeCluster, FakeNode, Names, fake_cluster

PERIOD_S = 5


async def settle() -> None:
    """Wait until every task waits, with whatever the kernel still has to deliver."""
    await wait_all_tasks_blocked(0.02)


async def pass_time(clock: MockClock, seconds: float, step: float = 0.0625) -> None:
    """Let time pass in steps, in which all tasks do what is due. The steps are exact in binary."""
    for _ in range(round(seconds / step)):
        await wait_all_tasks_blocked(0.003)
        clock.jump(step)
    await settle()


@asynccontextmanager
async def watching(fake: FakeCluster, **more: Any) -> AsyncIterator[UpstreamCluster]:
    options = {name: more.pop(name) for name in ("expected_id", "on_cluster_id") if name in more}
    config = fake.config(**more)
    clock = TrioClock()
    cluster = UpstreamCluster(config, UpstreamSecurity(config, clock), clock, **options)
    async with trio.open_nursery() as nursery:
        await nursery.start(cluster.run)
        yield cluster
        nursery.cancel_scope.cancel()


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The gateway's log lines since the last call, with their nodes."""
    found = []
    for record in caplog.records:
        if record.name.startswith("broker.gateway"):
            node = getattr(record, "node", None)
            found.append(record.getMessage() + ("" if node is None else f" {node}"))
    caplog.clear()
    return found


@pytest.fixture(autouse=True)
def _all_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="broker.gateway")


def conditions(cluster: UpstreamCluster) -> dict[int, UpstreamCondition]:
    return {node_id: state.condition for node_id, state in cluster.node_states.items()}


def ids(cluster: UpstreamCluster) -> list[int]:
    return list(cluster.nodes)


async def test_the_cluster_is_found_through_one_bootstrap_server(
    mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with fake_cluster(3) as fake:
        fake.live[1].rack = "b"
        servers = (fake.live[2].address,)
        found: list[str] = []
        async with watching(fake, bootstrap_servers=servers, on_cluster_id=found.append) as cluster:
            await cluster.found.wait()
            await settle()
            assert (cluster.cluster_id, found) == (CLUSTER_ID, [CLUSTER_ID])
            assert [(n.node_id, n.address, n.rack) for n in cluster.nodes.values()] == [
                (node.node_id, node.address, node.rack) for node in fake.live
            ]
            assert cluster.controller_id in ids(cluster)
            assert cluster.address_of(1) == fake.live[1].address and cluster.address_of(3) is None
            assert conditions(cluster) == dict.fromkeys(range(3), UpstreamCondition.CONNECTED)
            assert cluster.state.condition is UpstreamCondition.CONNECTED and not cluster.is_refused
            assert lines(caplog) == ["found the upstream cluster"]


async def test_a_cluster_without_describe_cluster_is_asked_for_metadata_without_topics(
    mock_clock: MockClock,
) -> None:
    async with fake_cluster(2) as fake:
        for node in fake.live:
            del node.versions[ApiKey.DESCRIBE_CLUSTER]
            node.versions[ApiKey.METADATA] = (0, 9)
        async with watching(fake) as cluster:
            await settle()
            assert ids(cluster) == [0, 1] and cluster.cluster_id == CLUSTER_ID
        for node in fake.live:
            requests = [request for request in node.requests if request.API_KEY == ApiKey.METADATA]
            assert requests and all(request.topics == [] for request in requests)
            assert not any(request.allow_auto_topic_creation for request in requests)


async def test_nodes_are_asked_once_a_period_and_at_once_after_refresh(mock_clock: MockClock) -> None:
    async with fake_cluster(2) as fake, watching(fake, metadata_max_age_ms=5_000) as cluster:
        await settle()
        node = fake.live[0]
        before = node.count(ApiKey.DESCRIBE_CLUSTER)
        mock_clock.jump(4.9375)
        await settle()
        assert node.count(ApiKey.DESCRIBE_CLUSTER) == before
        mock_clock.jump(0.0625)
        await settle()
        assert node.count(ApiKey.DESCRIBE_CLUSTER) == before + 1
        mock_clock.jump(1)
        for _ in range(1_000):
            cluster.refresh()
        await settle()
        assert node.count(ApiKey.DESCRIBE_CLUSTER) == before + 2
        # The period begins anew.
        mock_clock.jump(4.9375)
        await settle()
        assert node.count(ApiKey.DESCRIBE_CLUSTER) == before + 2
        mock_clock.jump(0.0625)
        await settle()
        assert node.count(ApiKey.DESCRIBE_CLUSTER) == before + 3
        assert node.connections <= 2


async def test_nodes_that_join_leave_and_move_are_followed(
    mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with fake_cluster(2) as fake, watching(fake) as cluster:
        await settle()
        changes: list[list[Address]] = []
        cluster.on_change(lambda: changes.append([node.address for node in cluster.nodes.values()]))
        lines(caplog)
        first, second = fake.live

        third = await fake.add(2)
        await pass_time(mock_clock, PERIOD_S)
        assert ids(cluster) == [0, 1, 2] and conditions(cluster)[2] is UpstreamCondition.CONNECTED
        assert lines(caplog) == ["an upstream node joined 2"]

        fake.live.remove(second)
        await pass_time(mock_clock, PERIOD_S)
        assert ids(cluster) == [0, 2] and cluster.address_of(1) is None
        assert lines(caplog) == ["an upstream node left 1"]
        await second.wait_until(lambda: second.open_connections == 0)

        moved = FakeNode(fake, 0)
        await moved.start()
        fake.live[0] = moved
        await pass_time(mock_clock, PERIOD_S)
        assert cluster.address_of(0) == moved.address
        assert lines(caplog) == ["an upstream node moved 0"]
        assert conditions(cluster) == {0: UpstreamCondition.CONNECTED, 2: UpstreamCondition.CONNECTED}
        await first.wait_until(lambda: first.open_connections == 0)

        assert changes == [
            [first.address, second.address, third.address],
            [first.address, third.address],
            [moved.address, third.address],
        ]


async def test_without_a_change_no_listener_is_called_and_nothing_is_logged(
    mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with fake_cluster(2) as fake, watching(fake) as cluster:
        await settle()
        lines(caplog)
        changes: list[int] = []
        cluster.on_change(lambda: changes.append(1))
        await pass_time(mock_clock, 4 * PERIOD_S, step=0.5)
        assert changes == [] and lines(caplog) == []


async def test_a_node_that_dies_and_comes_back_has_one_line_for_each(
    mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with fake_cluster(3) as fake, watching(fake) as cluster:
        await settle()
        lines(caplog)
        node = fake.live[1]
        connected_since = cluster.node_states[1].since_ms
        mock_clock.jump(1)
        node.stop()
        await settle()
        state = cluster.node_states[1]
        assert state.condition is UpstreamCondition.UNREACHABLE and "Connection refused" in state.error
        assert state.since_ms == connected_since + 1_000
        assert ids(cluster) == [0, 1, 2] and cluster.address_of(1) == node.address
        assert cluster.state.condition is UpstreamCondition.CONNECTED
        await pass_time(mock_clock, 10)
        assert cluster.node_states[1].since_ms == state.since_ms
        assert lines(caplog) == ["cannot reach an upstream node 1"]
        assert {cluster.bootstrap_address() for _ in range(6)} == {fake.live[0].address, fake.live[2].address}

        await node.start()
        await pass_time(mock_clock, 1)
        assert cluster.node_states[1].condition is UpstreamCondition.CONNECTED
        assert cluster.node_states[1].error == ""
        assert lines(caplog) == ["an upstream node is back 1"]


async def test_a_node_that_only_closes_idle_connections_stays_connected(
    mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with fake_cluster() as fake, watching(fake) as cluster:
        await settle()
        lines(caplog)
        node = fake.live[0]
        mock_clock.jump(1)
        connections = node.connections
        node.drop_connections()
        await settle()
        assert node.connections == connections + 1
        assert conditions(cluster) == {0: UpstreamCondition.CONNECTED} and lines(caplog) == []


async def test_a_node_that_never_answers_is_unreachable_after_the_setup_timeout(
    mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        fake_cluster(2) as fake,
        watching(fake, connection_setup_timeout_ms=3_000, metadata_max_age_ms=5_000) as cluster,
    ):
        await settle()
        lines(caplog)
        fake.live[0].answers_nothing = True
        mock_clock.jump(5)
        await settle()
        mock_clock.jump(2.9375)
        await settle()
        assert conditions(cluster)[0] is UpstreamCondition.CONNECTED
        mock_clock.jump(0.0625)
        await settle()
        assert conditions(cluster)[0] is UpstreamCondition.UNREACHABLE
        assert "within 3000 ms" in cluster.node_states[0].error
        assert lines(caplog) == ["cannot reach an upstream node 0"]


async def test_the_latency_is_that_of_the_last_request(mock_clock: MockClock) -> None:
    async with fake_cluster() as fake, watching(fake) as cluster:
        await settle()
        assert cluster.node_states[0].latency_ms == 0
        fake.live[0].delay_s = 0.25
        mock_clock.jump(PERIOD_S)
        await settle()
        mock_clock.jump(0.25)
        await settle()
        assert cluster.node_states[0].latency_ms == 250
        fake.live[0].stop()
        await settle()
        assert cluster.node_states[0].latency_ms == 250


async def test_a_cluster_that_is_gone_and_back_has_one_line_for_each(
    mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with fake_cluster(2) as fake, watching(fake) as cluster:
        await settle()
        lines(caplog)
        for node in fake.live:
            node.stop()
        await pass_time(mock_clock, 10)
        assert cluster.state.condition is UpstreamCondition.UNREACHABLE
        assert sorted(lines(caplog)) == [
            "cannot reach an upstream node 0",
            "cannot reach an upstream node 1",
            "cannot reach the upstream cluster",
        ]
        assert ids(cluster) == [0, 1]
        for node in fake.live:
            await node.start()
        await pass_time(mock_clock, 1)
        assert cluster.state.condition is UpstreamCondition.CONNECTED
        assert sorted(lines(caplog)) == [
            "an upstream node is back 0",
            "an upstream node is back 1",
            "the upstream cluster is back",
        ]


async def test_a_cluster_that_is_not_there_at_the_start_is_found_later(
    mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with fake_cluster() as fake:
        (node,) = fake.live
        node.stop()
        await settle()
        async with watching(fake) as cluster:
            await pass_time(mock_clock, 5)
            assert lines(caplog) == ["cannot reach the upstream cluster"]
            assert cluster.bootstrap_address() == node.address
            await node.start()
            await pass_time(mock_clock, 1)
            assert cluster.cluster_id == CLUSTER_ID
            assert lines(caplog) == ["found the upstream cluster"]


async def test_the_bootstrap_servers_find_nodes_that_have_all_moved(
    mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with fake_cluster(2) as fake:
        entry = FakeNode(fake, 9)
        await entry.start()
        async with watching(fake, bootstrap_servers=(entry.address,)) as cluster:
            await settle()
            lines(caplog)
            old, fake.live = fake.live, [FakeNode(fake, 0), FakeNode(fake, 1)]
            for node in fake.live:
                await node.start()
            for node in old:
                node.stop()
            await pass_time(mock_clock, 1)
            assert [cluster.address_of(n) for n in (0, 1)] == [node.address for node in fake.live]
            assert conditions(cluster) == dict.fromkeys((0, 1), UpstreamCondition.CONNECTED)


async def test_servers_whose_nodes_cannot_be_reached_are_asked_once_a_period(
    mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with fake_cluster(2) as fake:
        entry = FakeNode(fake, 9)
        await entry.start()
        for node in fake.live:
            node.stop()
        await settle()
        async with watching(fake, bootstrap_servers=(entry.address,)) as cluster:
            await pass_time(mock_clock, 3 * PERIOD_S, step=0.25)
            assert entry.count(ApiKey.DESCRIBE_CLUSTER) == 4
            assert conditions(cluster) == dict.fromkeys((0, 1), UpstreamCondition.UNREACHABLE)
            assert lines(caplog)[0] == "found the upstream cluster"
            # Clients that fail ask for news at once, but not each of them.
            mock_clock.jump(1)
            for _ in range(100):
                cluster.refresh()
            await settle()
            assert entry.count(ApiKey.DESCRIBE_CLUSTER) == 5
            for _ in range(100):
                cluster.refresh()
            mock_clock.jump(0.9375)
            await settle()
            assert entry.count(ApiKey.DESCRIBE_CLUSTER) == 5
            mock_clock.jump(0.0625)
            await settle()
            assert entry.count(ApiKey.DESCRIBE_CLUSTER) == 6


async def test_bootstrap_servers_that_hang_do_not_delay_the_others(mock_clock: MockClock) -> None:
    async with fake_cluster(2) as fake:
        fake.live[0].answers_nothing = True
        async with watching(fake) as cluster:
            await settle()
            assert cluster.cluster_id == CLUSTER_ID and ids(cluster) == [0, 1]
            assert conditions(cluster) == {0: UpstreamCondition.CONNECTING, 1: UpstreamCondition.CONNECTED}


async def test_bootstrap_targets_are_taken_in_turn(mock_clock: MockClock) -> None:
    async with fake_cluster(3) as fake:
        servers = (Address("kafka.example", 9092), Address("kafka-2.example", 9092))
        config_only = UpstreamCluster(
            fake.config(bootstrap_servers=servers), UpstreamSecurity(fake.config(), TrioClock()), TrioClock()
        )
        assert sorted(map(str, (config_only.bootstrap_address() for _ in range(4)))) == [
            "kafka-2.example:9092",
            "kafka-2.example:9092",
            "kafka.example:9092",
            "kafka.example:9092",
        ]
        async with watching(fake) as cluster:
            await settle()
            taken = [cluster.bootstrap_address() for _ in range(6)]
            assert taken[:3] == taken[3:] and set(taken) == {node.address for node in fake.live}


async def test_the_answer_that_most_nodes_give_counts(
    mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with fake_cluster(3) as fake, watching(fake) as cluster:
        await settle()
        lines(caplog)
        stale = fake.live[2]
        stale.says_nodes = [fake.live[2]]
        await pass_time(mock_clock, 4 * PERIOD_S, step=0.5)
        assert ids(cluster) == [0, 1, 2] and lines(caplog) == []
        # The stale node's answers do not make the others be asked more often than once more.
        before = fake.live[0].count(ApiKey.DESCRIBE_CLUSTER)
        await pass_time(mock_clock, 2 * PERIOD_S, step=0.5)
        assert fake.live[0].count(ApiKey.DESCRIBE_CLUSTER) == before + 2
        await fake.add(3)
        await pass_time(mock_clock, PERIOD_S)
        assert ids(cluster) == [0, 1, 2, 3]


async def test_news_from_one_of_two_nodes_is_checked_at_once(mock_clock: MockClock) -> None:
    async with fake_cluster(2) as fake, watching(fake) as cluster:
        await settle()
        mock_clock.jump(2)
        third = await fake.add(2)
        before = [node.count(ApiKey.DESCRIBE_CLUSTER) for node in fake.live]
        fake.live[0].drop_connections()
        await settle()
        assert third.node_id in ids(cluster)
        assert [node.count(ApiKey.DESCRIBE_CLUSTER) for node in fake.live] == [
            before[0] + 1,
            before[1] + 1,
            1,
        ]


async def test_another_cluster_is_refused_and_changes_nothing(
    mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with fake_cluster(2) as fake, watching(fake, cluster_id="another-id") as cluster:
        changes: list[int] = []
        cluster.on_change(lambda: changes.append(1))
        await pass_time(mock_clock, 3 * PERIOD_S, step=0.5)
        assert cluster.is_refused and cluster.cluster_id is None and ids(cluster) == [] and changes == []
        assert "expected another-id" in cluster.state.error and CLUSTER_ID in cluster.state.error
        assert lines(caplog) == ["the upstream cluster is another one; the gateway forwards nothing to it"]
        with pytest.raises(UpstreamError, match="expected another-id") as caught:
            cluster.bootstrap_address()
        assert caught.value.reason is Reason.CLUSTER
        fake.cluster_id = "another-id"
        await pass_time(mock_clock, PERIOD_S)
        assert not cluster.is_refused and ids(cluster) == [0, 1] and changes == [1]
        assert lines(caplog) == ["found the upstream cluster"]


@pytest.mark.parametrize(
    ("configured", "expected", "is_refused"),
    [
        ("", None, False),
        ("", CLUSTER_ID, False),
        ("", "other", True),
        (CLUSTER_ID, "other", False),
        ("other", CLUSTER_ID, True),
    ],
)
async def test_the_configured_id_wins_over_the_one_of_an_earlier_start(
    mock_clock: MockClock, configured: str, expected: str | None, is_refused: bool
) -> None:
    async with fake_cluster() as fake:
        found: list[str] = []
        options = {"cluster_id": configured, "expected_id": expected, "on_cluster_id": found.append}
        async with watching(fake, **options) as cluster:
            await settle()
            assert cluster.is_refused is is_refused
            assert found == ([CLUSTER_ID] if not configured and expected is None else [])


async def test_with_an_expected_id_nothing_is_forwarded_before_the_first_answer(
    mock_clock: MockClock,
) -> None:
    async with fake_cluster() as fake:
        async with watching(fake, cluster_id=CLUSTER_ID) as cluster:
            with pytest.raises(UpstreamError, match="has not answered yet"):
                cluster.bootstrap_address()
            await settle()
            assert cluster.bootstrap_address() == fake.live[0].address
            fake.live[0].stop()
            await settle()
            assert cluster.bootstrap_address() == fake.live[0].address
        async with watching(fake) as cluster:
            assert cluster.bootstrap_address() == fake.live[0].address


async def test_a_cluster_that_is_replaced_while_running_is_refused(
    mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with fake_cluster(2) as fake, watching(fake) as cluster:
        await settle()
        lines(caplog)
        await fake.add(2)
        fake.cluster_id = "replaced"
        await pass_time(mock_clock, PERIOD_S)
        assert cluster.is_refused and cluster.cluster_id == CLUSTER_ID and ids(cluster) == [0, 1]
        assert cluster.address_of(0) is None and cluster.address_of(1) is None
        with pytest.raises(UpstreamError, match=f"cluster replaced; expected {CLUSTER_ID}"):
            cluster.bootstrap_address()
        assert sorted(lines(caplog)) == [
            "an upstream node belongs to another cluster 0",
            "an upstream node belongs to another cluster 1",
            "the upstream cluster is another one; the gateway forwards nothing to it",
        ]
        # Gone is not trusted: a node that comes back has to prove its id.
        for node in fake.live:
            node.stop()
        await pass_time(mock_clock, 2)
        assert cluster.is_refused and cluster.address_of(0) is None and lines(caplog) == []
        fake.cluster_id = CLUSTER_ID
        for node in fake.live:
            await node.start()
        await pass_time(mock_clock, PERIOD_S)
        assert not cluster.is_refused and ids(cluster) == [0, 1, 2]


async def test_one_node_of_another_cluster_is_refused_alone(
    mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with fake_cluster(2) as fake, watching(fake) as cluster:
        await settle()
        lines(caplog)
        fake.live[1].says_cluster_id = "stray"
        await pass_time(mock_clock, PERIOD_S)
        assert not cluster.is_refused
        assert cluster.address_of(0) == fake.live[0].address and cluster.address_of(1) is None
        assert {cluster.bootstrap_address() for _ in range(4)} == {fake.live[0].address}
        assert lines(caplog) == ["an upstream node belongs to another cluster 1"]
        assert ids(cluster) == [0, 1]


def _no_nodes(node: FakeNode) -> None:
    node.says_nodes = []


def _no_host(node: FakeNode) -> None:
    node.says_nodes = [_stray(node, "", 9092)]


def _no_port(node: FakeNode) -> None:
    node.says_nodes = [_stray(node, HOST, 65_536)]


def _twice(node: FakeNode) -> None:
    node.says_nodes = [_stray(node, HOST, 9092), _stray(node, HOST, 9093)]


def _long_host(node: FakeNode) -> None:
    node.says_nodes = [_stray(node, "h" * 256, 9092)]


def _negative_id(node: FakeNode) -> None:
    node.says_nodes = [_stray(node, HOST, 9092, -1)]


def _too_many(node: FakeNode) -> None:
    node.says_nodes = [_stray(node, HOST, 9092, number) for number in range(1_001)]


def _stray(node: FakeNode, host: str, port: int, node_id: int = 5) -> FakeNode:
    stray = FakeNode(node.cluster, node_id)
    stray.host, stray.port = host, port
    return stray


@pytest.mark.parametrize(
    "break_it", [_no_nodes, _no_host, _no_port, _twice, _long_host, _negative_id, _too_many]
)
async def test_an_answer_without_usable_nodes_changes_nothing(
    mock_clock: MockClock, break_it: Callable[[FakeNode], None]
) -> None:
    async with fake_cluster() as fake, watching(fake) as cluster:
        await settle()
        break_it(fake.live[0])
        await pass_time(mock_clock, PERIOD_S)
        assert ids(cluster) == [0]
        assert conditions(cluster) == {0: UpstreamCondition.UNREACHABLE}


async def test_cancelling_closes_all_connections(mock_clock: MockClock) -> None:
    async with fake_cluster(3) as fake:
        async with watching(fake):
            await settle()
            assert sum(node.open_connections for node in fake.live) == 3
        for node in fake.live:
            await node.wait_until(lambda node=node: node.open_connections == 0)


def credentials(password: str) -> dict[str, Any]:
    return {
        "security_protocol": SecurityProtocol.SASL_PLAINTEXT,
        "sasl_mechanism": "PLAIN",
        "sasl_jaas_config": f'{PLAIN_MODULE} required username="weir" password="{password}";',
    }


async def test_refused_credentials_have_a_line_and_are_tried_once_a_period(
    mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with fake_cluster() as fake:
        fake.users = {"weir": "another"}
        async with watching(fake, **credentials("secret")) as cluster:
            await pass_time(mock_clock, 4 * PERIOD_S - 0.25, step=0.25)
            assert cluster.state.condition is UpstreamCondition.CREDENTIALS
            assert "Authentication failed" in cluster.state.error
            assert lines(caplog) == ["the upstream cluster refuses the gateway's credentials"]
            assert fake.live[0].count(ApiKey.SASL_AUTHENTICATE) == 4
            fake.users = {"weir": "secret"}
            await pass_time(mock_clock, PERIOD_S, step=0.25)
            assert cluster.state.condition is UpstreamCondition.CONNECTED
            assert lines(caplog) == ["found the upstream cluster"]


async def test_credentials_that_expire_have_a_line_when_the_broker_refuses_them(
    mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with fake_cluster(2) as fake:
        fake.users = {"weir": "secret"}
        fake.session_lifetime_ms = 20_000
        async with watching(fake, **credentials("secret")) as cluster:
            await settle()
            lines(caplog)
            fake.users = {"weir": "another"}
            # A login is renewed after 85 % of its lifetime, with the next request.
            await pass_time(mock_clock, 16.75, step=0.25)
            assert (
                conditions(cluster) == dict.fromkeys((0, 1), UpstreamCondition.CONNECTED)
                and lines(caplog) == []
            )
            await pass_time(mock_clock, PERIOD_S, step=0.25)
            assert conditions(cluster) == dict.fromkeys((0, 1), UpstreamCondition.CREDENTIALS)
            assert cluster.state.condition is UpstreamCondition.CREDENTIALS
            assert sorted(lines(caplog)) == [
                "an upstream node refuses the gateway's credentials 0",
                "an upstream node refuses the gateway's credentials 1",
                "the upstream cluster refuses the gateway's credentials",
            ]


async def test_a_login_is_renewed_before_it_ends(
    mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with fake_cluster() as fake:
        fake.users = {"weir": "secret"}
        fake.session_lifetime_ms = 10_000
        async with watching(fake, **credentials("secret")) as cluster:
            await settle()
            lines(caplog)
            node = fake.live[0]
            logins = node.count(ApiKey.SASL_AUTHENTICATE)
            await pass_time(mock_clock, 60, step=0.25)
            # The first request after 8.5 s of 10 s is that at 10 s.
            assert node.count(ApiKey.SASL_AUTHENTICATE) == logins + 6
            assert node.open_connections == 1
            assert conditions(cluster) == {0: UpstreamCondition.CONNECTED} and lines(caplog) == []


async def test_failed_tls_has_a_line(mock_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    known = certificates()
    more = {
        "security_protocol": SecurityProtocol.SSL,
        "ssl_truststore_location": str(known.stranger.certificate),
    }
    async with fake_cluster() as fake:
        fake.tls = server_context(TlsConfig(keystore_location=str(known.server.store)))
        async with watching(fake, **more) as cluster:
            await pass_time(mock_clock, PERIOD_S, step=0.25)
            assert cluster.state.condition is UpstreamCondition.TLS
            assert "certificate verify failed" in cluster.state.error
            assert lines(caplog) == ["TLS with the upstream cluster failed"]


async def test_a_name_that_changes_is_followed(mock_clock: MockClock) -> None:
    async with fake_cluster() as fake:
        (old,) = fake.live
        names = Names(HOST)
        old.host = "kafka.example"
        async with watching(fake) as cluster:
            await settle()
            assert conditions(cluster) == {0: UpstreamCondition.CONNECTED}
            # The broker moves to another host with the same port, and the name with it.
            old.stop()
            names.hosts = ()
            await pass_time(mock_clock, 1)
            assert "cannot resolve" in cluster.node_states[0].error
            new = FakeNode(fake, 0)
            new.bind_host, new.port, new.host = "127.0.0.3", old.port, old.host
            await new.start()
            fake.live[0] = new
            names.hosts = ("127.0.0.3",)
            await pass_time(mock_clock, 1)
            assert conditions(cluster) == {0: UpstreamCondition.CONNECTED}
            assert new.count(ApiKey.DESCRIBE_CLUSTER) >= 1


FAULTS: Sequence[str] = ("dies", "hangs", "cuts", "strays", "disagrees", "leaves", "refuses", "heals")


@pytest.mark.rotates
@pytest.mark.parametrize("seed", range(6))
async def test_after_any_faults_the_cluster_is_as_it_is_and_no_line_came_twice(
    mock_clock: MockClock, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    rng = random.Random(seed)
    async with fake_cluster(4) as fake:
        everyone = list(fake.live)
        up = set(everyone)

        async def heal(node: FakeNode) -> None:
            node.answers_nothing = node.cuts_frames = False
            node.says_cluster_id = node.says_nodes = None
            if node not in up:
                await node.start()
                up.add(node)

        options = {"cluster_id": CLUSTER_ID, "connection_setup_timeout_ms": 1_000}
        async with watching(fake, **credentials("secret"), **options) as cluster:
            for _ in range(25):
                node, fault = rng.choice(everyone), rng.choice(FAULTS)
                match fault:
                    case "dies" if node in up:
                        node.stop()
                        up.remove(node)
                    case "hangs":
                        node.answers_nothing = True
                    case "cuts":
                        node.cuts_frames = True
                    case "strays":
                        node.says_cluster_id = "stray"
                    case "disagrees":
                        node.says_nodes = rng.sample(everyone, 2)
                    case "leaves":
                        fake.live = rng.sample(everyone, 3)
                    case "refuses":
                        fake.users = {"weir": rng.choice(("secret", "another"))}
                    case "heals":
                        await heal(node)
                await pass_time(mock_clock, rng.choice((0.5, 1, 5)), step=0.5)
            for node in everyone:
                await heal(node)
            fake.users, fake.live = {"weir": "secret"}, everyone
            await pass_time(mock_clock, 4 * PERIOD_S, step=0.5)
            assert {n: cluster.address_of(n) for n in range(4)} == {
                node.node_id: node.address for node in everyone
            }
            assert conditions(cluster) == dict.fromkeys(range(4), UpstreamCondition.CONNECTED)
            assert cluster.state.condition is UpstreamCondition.CONNECTED
        reported: dict[str, list[str]] = {}
        for line in lines(caplog):
            event, _, node_id = line.rpartition(" ") if line[-1].isdigit() else (line, "", "cluster")
            reported.setdefault(node_id, []).append(event)
        assert set(reported) <= {"0", "1", "2", "3", "cluster"}
        for events in reported.values():
            assert [one for one, other in itertools.pairwise(events) if one == other] == []

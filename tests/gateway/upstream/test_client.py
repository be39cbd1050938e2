"""The gateway's own requests: versions, pipelining, timeouts, and connections that end."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.config.listeners import Address, SecurityProtocol
from broker.gateway.upstream.client import UpstreamClient
from broker.gateway.upstream.errors import Reason, UpstreamError
from broker.gateway.upstream.security import UpstreamSecurity
from broker.network.clock import TrioClock
from broker.protocol.api_key import ApiKey
from broker.protocol.compile_decode import MAX_STRING_BYTES
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.describe_cluster import DescribeClusterRequest
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from broker.protocol.messages.list_groups import ListGroupsRequest
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.security.plain import PLAIN_MODULE
from tests.support.fake_upstream import CLUSTER_ID, FakeCluster, fake_cluster


class Nodes:
    """A directory of all nodes that the fake cluster has had."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.addresses = {node.node_id: node.address for node in cluster.live}
        self.turn = -1

    def address_of(self, node_id: int) -> Address | None:
        return self.addresses.get(node_id)

    def knows(self, address: Address) -> bool:
        return address in self.addresses.values()

    def bootstrap_address(self) -> Address:
        self.turn += 1
        return list(self.addresses.values())[self.turn % len(self.addresses)]


@asynccontextmanager
async def client_of(cluster: FakeCluster, **more: Any) -> AsyncIterator[UpstreamClient]:
    config = cluster.config(**more)
    client = UpstreamClient(config, UpstreamSecurity(config, TrioClock()), Nodes(cluster))
    async with trio.open_nursery() as nursery:
        await nursery.start(client.run)
        yield client
        nursery.cancel_scope.cancel()


async def refused(client: UpstreamClient, message: Any, *args: Any) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        await client.request(0, message, *args)
    return caught.value


async def test_a_request_uses_the_newest_version_that_both_know() -> None:
    async with fake_cluster() as cluster, client_of(cluster) as client:
        (node,) = cluster.live
        node.versions[ApiKey.METADATA] = (2, 5)
        answer = await client.request(0, MetadataRequest([]))
        assert answer.cluster_id == CLUSTER_ID
        assert node.request_versions == [(ApiKey.API_VERSIONS, 3), (ApiKey.METADATA, 5)]
        await client.request(0, MetadataRequest([]), 2)
        assert node.request_versions[-1] == (ApiKey.METADATA, 2)
        assert node.connections == 1


@pytest.mark.parametrize(("at_most", "used"), [(1, None), (2, 2), (4, 4), (5, 5), (6, 5)])
async def test_the_newest_version_up_to_a_maximum(at_most: int, used: int | None) -> None:
    async with fake_cluster() as cluster, client_of(cluster) as client:
        (node,) = cluster.live
        node.versions[ApiKey.METADATA] = (2, 5)
        if used is None:
            with pytest.raises(UpstreamError) as caught:
                await client.request(0, MetadataRequest([]), at_most=at_most)
            assert caught.value.reason is Reason.VERSION
        else:
            await client.request(0, MetadataRequest([]), at_most=at_most)
            assert node.request_versions[-1] == (ApiKey.METADATA, used)


@pytest.mark.parametrize(("version", "is_served"), [(1, False), (2, True), (5, True), (6, False)])
async def test_a_version_that_the_node_lacks_is_not_sent(version: int, is_served: bool) -> None:
    async with fake_cluster() as cluster, client_of(cluster) as client:
        (node,) = cluster.live
        node.versions[ApiKey.METADATA] = (2, 5)
        if is_served:
            assert (await client.request(0, MetadataRequest([]), version)).cluster_id == CLUSTER_ID
        else:
            assert (await refused(client, MetadataRequest([]), version)).reason is Reason.VERSION
            assert node.count(ApiKey.METADATA) == 0


async def test_an_api_that_the_node_lacks_is_not_sent() -> None:
    async with fake_cluster() as cluster, client_of(cluster) as client:
        error = await refused(client, ListGroupsRequest())
        assert error.reason is Reason.VERSION and "ListGroups" in str(error)


async def test_a_node_that_does_not_know_api_versions_3_is_asked_in_version_0() -> None:
    async with fake_cluster() as cluster, client_of(cluster) as client:
        (node,) = cluster.live
        node.versions[ApiKey.API_VERSIONS] = (0, 2)
        assert (await client.request(0, MetadataRequest([]), 4)).cluster_id == CLUSTER_ID
        assert node.request_versions[:2] == [(ApiKey.API_VERSIONS, 3), (ApiKey.API_VERSIONS, 0)]
        assert type(node.requests[0]) is ApiVersionsRequest
        assert node.connections == 1


async def test_requests_are_pipelined_on_one_connection_and_answered_in_order() -> None:
    async with fake_cluster() as cluster, client_of(cluster) as client:
        (node,) = cluster.live
        node.answers[ApiKey.FIND_COORDINATOR] = lambda message: FindCoordinatorResponse(host=message.key)
        hosts: dict[str, str] = {}

        async def find(key: str) -> None:
            hosts[key] = (await client.request(0, FindCoordinatorRequest(key=key), 2)).host

        async with trio.open_nursery() as nursery:
            for number in range(200):
                nursery.start_soon(find, f"group-{number}")
        assert hosts == {f"group-{number}": f"group-{number}" for number in range(200)}
        assert node.connections == 1


async def test_a_cancelled_request_does_not_shift_the_responses_of_others(mock_clock: MockClock) -> None:
    async with fake_cluster() as cluster, client_of(cluster) as client:
        (node,) = cluster.live
        node.answers[ApiKey.FIND_COORDINATOR] = lambda message: FindCoordinatorResponse(host=message.key)
        await client.request(0, FindCoordinatorRequest(key="warm"), 2)
        node.delay_s = 1
        hosts = []
        async with trio.open_nursery() as nursery:
            cancelled = trio.CancelScope()

            async def find(key: str, scope: trio.CancelScope) -> None:
                with scope:
                    hosts.append((await client.request(0, FindCoordinatorRequest(key=key), 2)).host)

            nursery.start_soon(find, "first", cancelled)
            await node.wait_until(lambda: node.count(ApiKey.FIND_COORDINATOR) == 2)
            nursery.start_soon(find, "second", trio.CancelScope())
            await wait_all_tasks_blocked(0.01)
            cancelled.cancel()
            for _ in range(2):
                mock_clock.jump(1)
                await wait_all_tasks_blocked(0.01)
        assert hosts == ["second"] and node.connections == 1


async def test_a_request_that_is_cancelled_while_it_is_sent_ends_the_connection(
    mock_clock: MockClock,
) -> None:
    """Half a frame may be sent: nothing can follow it."""
    async with fake_cluster() as fake, client_of(fake) as client:
        (node,) = fake.live
        await client.request(0, MetadataRequest([]))
        node.stops_reading = True
        huge = MetadataRequest([MetadataRequestTopic(name="t" * 32_000) for _ in range(600)])
        errors: list[UpstreamError] = []

        async def wait_behind() -> None:
            errors.append(await refused(client, MetadataRequest([])))

        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as scope:
                nursery.start_soon(wait_behind)
                nursery.start_soon(_cancel_when_blocked, scope)
                await client.request(0, huge)
        assert scope.cancelled_caught
        assert [error.reason for error in errors] == [Reason.CLOSED]
        node.stops_reading = False
        await client.request(0, MetadataRequest([]))
        assert node.connections == 2


async def _cancel_when_blocked(scope: trio.CancelScope) -> None:
    await wait_all_tasks_blocked(0.05)
    scope.cancel()


async def test_a_login_is_renewed_on_a_new_connection_beside_the_old_one(mock_clock: MockClock) -> None:
    login = {
        "security_protocol": SecurityProtocol.SASL_PLAINTEXT,
        "sasl_mechanism": "PLAIN",
        "sasl_jaas_config": f'{PLAIN_MODULE} required username="weir" password="secret";',
    }
    async with fake_cluster() as fake, client_of(fake, **login) as client:
        (node,) = fake.live
        fake.users, fake.session_lifetime_ms = {"weir": "secret"}, 10_000
        await client.request(0, MetadataRequest([]))
        mock_clock.jump(8.25)
        await client.request(0, MetadataRequest([]))
        assert node.connections == 1
        answers: list[Any] = []

        async def ask() -> None:
            answers.append(await client.request(0, MetadataRequest([])))

        async with trio.open_nursery() as nursery:
            node.delay_s = 2
            nursery.start_soon(ask)
            await node.wait_until(lambda: node.count(ApiKey.METADATA) == 3)
            mock_clock.jump(0.25)
            node.delay_s = 0
            await client.request(0, MetadataRequest([]))
            assert node.connections == 2 and node.open_connections == 2 and answers == []
            mock_clock.jump(1.75)
        assert answers[0].cluster_id == CLUSTER_ID
        await node.wait_until(lambda: node.open_connections == 1)


async def test_without_a_response_in_time_the_request_fails_and_the_connection_ends(
    mock_clock: MockClock,
) -> None:
    async with fake_cluster() as cluster, client_of(cluster, request_timeout_ms=2_000) as client:
        (node,) = cluster.live
        await client.request(0, MetadataRequest([]))
        node.answers_nothing = True
        async with trio.open_nursery() as nursery:
            errors = []

            async def ask() -> None:
                errors.append(await refused(client, MetadataRequest([])))

            nursery.start_soon(ask)
            await node.wait_until(lambda: node.count(ApiKey.METADATA) == 2)
            mock_clock.jump(1.999)
            await wait_all_tasks_blocked(0.01)
            assert errors == []
            mock_clock.jump(0.001)
        assert [error.reason for error in errors] == [Reason.TIMEOUT]
        assert str(errors[0]) == f"{node.address}: no response to Metadata within 2000 ms"
        await node.wait_until(lambda: node.open_connections == 0)
        node.answers_nothing = False
        assert (await client.request(0, MetadataRequest([]))).cluster_id == CLUSTER_ID
        assert node.connections == 2


async def test_a_connection_that_ends_fails_what_waits_and_is_opened_again() -> None:
    async with fake_cluster() as cluster, client_of(cluster) as client:
        (node,) = cluster.live
        await client.request(0, MetadataRequest([]))
        node.cuts_frames = True
        assert (await refused(client, MetadataRequest([]))).reason is Reason.CLOSED
        node.cuts_frames = False
        await client.request(0, MetadataRequest([]))
        assert node.connections == 2


async def test_an_idle_connection_that_the_node_closes_is_replaced() -> None:
    async with fake_cluster() as cluster, client_of(cluster) as client:
        (node,) = cluster.live
        await client.request(0, MetadataRequest([]))
        node.stop()
        await wait_all_tasks_blocked(0.01)
        await node.start()
        await client.request(0, MetadataRequest([]))
        assert node.connections == 2


async def test_any_node_is_the_first_that_can_be_reached() -> None:
    async with fake_cluster(3) as cluster, client_of(cluster) as client:
        first, second, _ = cluster.live
        first.stop()
        await wait_all_tasks_blocked(0.01)
        assert (await client.request(None, DescribeClusterRequest())).cluster_id == CLUSTER_ID
        assert second.count(ApiKey.DESCRIBE_CLUSTER) == 1
        await client.request(None, DescribeClusterRequest())
        assert second.count(ApiKey.DESCRIBE_CLUSTER) == 2


async def test_without_any_node_the_last_failure_is_reported() -> None:
    async with fake_cluster(2) as cluster, client_of(cluster) as client:
        for node in cluster.live:
            node.stop()
        await wait_all_tasks_blocked(0.01)
        with pytest.raises(UpstreamError, match="Connection refused") as caught:
            await client.request(None, DescribeClusterRequest())
        assert caught.value.reason is Reason.REFUSED


async def test_an_unknown_node_is_an_error() -> None:
    async with fake_cluster() as cluster, client_of(cluster) as client:
        with pytest.raises(UpstreamError, match="no upstream node has the id 7") as caught:
            await client.request(7, MetadataRequest([]))
        assert caught.value.reason is Reason.NODE


async def test_after_a_failure_the_next_connection_waits_for_the_backoff(mock_clock: MockClock) -> None:
    async with (
        fake_cluster() as cluster,
        client_of(cluster, reconnect_backoff_ms=125, reconnect_backoff_max_ms=375) as client,
    ):
        (node,) = cluster.live
        node.stop()
        await wait_all_tasks_blocked(0.01)
        ended = []

        async def ask() -> None:
            for _ in range(5):
                await refused(client, MetadataRequest([]))
                ended.append(trio.current_time())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            for _ in range(18):
                await wait_all_tasks_blocked(0.005)
                mock_clock.jump(0.0625)
        assert ended == [0, 0.125, 0.375, 0.75, 1.125]


async def test_lanes_have_connections_of_their_own(mock_clock: MockClock) -> None:
    async with fake_cluster() as cluster, client_of(cluster) as client:
        (node,) = cluster.live
        await client.request(0, MetadataRequest([]))
        await client.request(0, MetadataRequest([]), lane="polls")
        assert node.connections == 2


async def test_a_response_without_a_request_ends_the_connection() -> None:
    async with fake_cluster() as cluster, client_of(cluster) as client:
        (node,) = cluster.live
        await client.request(0, MetadataRequest([]))
        node.shifts_ids = True
        error = await refused(client, MetadataRequest([]))
        assert error.reason is Reason.PROTOCOL and "correlation id" in str(error)
        node.shifts_ids = False
        await client.request(0, MetadataRequest([]))
        assert node.connections == 2


async def test_requests_fail_when_the_client_stops() -> None:
    async with fake_cluster() as cluster:
        config = cluster.config()
        client = UpstreamClient(config, UpstreamSecurity(config, TrioClock()), Nodes(cluster))
        assert (await refused(client, MetadataRequest([]))).reason is Reason.CLOSED
        (node,) = cluster.live
        node.answers_nothing = True
        async with trio.open_nursery() as nursery:
            scope = await nursery.start(_cancellable, client)
            errors: list[UpstreamError] = []

            async def ask() -> None:
                errors.append(await refused(client, MetadataRequest([])))

            nursery.start_soon(ask)
            await node.wait_until(lambda: node.count(ApiKey.API_VERSIONS) == 1)
            scope.cancel()
        assert [error.reason for error in errors] == [Reason.CLOSED]
        await node.wait_until(lambda: node.open_connections == 0)


async def _cancellable(
    client: UpstreamClient, task_status: trio.TaskStatus[trio.CancelScope] = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            await nursery.start(client.run)
            task_status.started(scope)


async def test_addresses_of_nodes_that_are_gone_are_forgotten() -> None:
    async with fake_cluster() as cluster:
        config = cluster.config()
        nodes = Nodes(cluster)
        client = UpstreamClient(config, UpstreamSecurity(config, TrioClock()), nodes)
        async with trio.open_nursery() as nursery:
            await nursery.start(client.run)
            await client.request(0, MetadataRequest([]))
            for node_id in range(1, 20):
                node = await cluster.add(node_id)
                nodes.addresses[node_id] = node.address
                for lane in ("", "polls"):
                    await client.request(node_id, MetadataRequest([]), lane=lane)
                assert len(client._targets) <= 5
                del nodes.addresses[node_id]
            for node in cluster.live[1:-1]:
                await node.wait_until(lambda node=node: node.open_connections == 0)
            # A connection that is still asked something ends with its last response.
            gone = cluster.live[-1]
            nodes.addresses[gone.node_id] = gone.address
            gone.delay_s = 0.1
            answers = []

            async def ask() -> None:
                answers.append(await client.request(gone.node_id, MetadataRequest([])))

            asked = gone.count(ApiKey.METADATA)
            nursery.start_soon(ask)
            await gone.wait_until(lambda: gone.count(ApiKey.METADATA) > asked)
            del nodes.addresses[gone.node_id]
            await client.request(0, MetadataRequest([]), lane="new")
            await gone.wait_until(lambda: gone.open_connections == 0)
            assert len(answers) == 1
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("over", "fits"), [(-1, True), (0, True), (1, False)])
async def test_a_name_that_is_too_long_for_an_old_version_is_an_error_of_its_request_only(
    over: int, fits: bool
) -> None:
    """It raised struct.error, which no caller expects. From version 3 on, the broker decides."""
    async with fake_cluster(1) as cluster, client_of(cluster) as client:
        (node,) = cluster.live
        node.answers[ApiKey.FIND_COORDINATOR] = lambda _request: FindCoordinatorResponse(node_id=7)
        request = FindCoordinatorRequest("g" * (MAX_STRING_BYTES + over))
        if fits:
            assert (await client.request(0, request, 2)).node_id == 7
        else:
            error = await refused(client, request, 2)
            assert error.reason is Reason.VERSION
            assert str(error).endswith("FindCoordinator in version 2 has no room for a value of the request")
        assert (await client.request(0, FindCoordinatorRequest("g"), 2)).node_id == 7
        assert node.connections == 1

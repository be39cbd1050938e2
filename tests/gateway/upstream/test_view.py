"""What a broker says of its cluster, at the limits of what the gateway takes."""

from typing import Any, cast

import pytest

from broker.config.listeners import Address
from broker.gateway.upstream.cluster import MAX_HOST, MAX_NODES, MAX_VIEW_BYTES, ClusterView, ask
from broker.gateway.upstream.connection import UpstreamConnection
from broker.gateway.upstream.errors import Reason, UpstreamError
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from broker.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker


class Answering:
    """A connection whose broker gives one answer."""

    address = Address("kafka", 9092)

    def __init__(self, nodes: int, host: str, *, is_old: bool) -> None:
        self.versions = {} if is_old else {ApiKey.DESCRIBE_CLUSTER: (0, 1)}
        self.most = 0
        self._answer: Any
        if is_old:
            self._answer = MetadataResponse(
                brokers=[MetadataResponseBroker(node_id, host, 9092) for node_id in range(nodes)]
            )
        else:
            self._answer = DescribeClusterResponse(
                brokers=[DescribeClusterBroker(node_id, host, 9092) for node_id in range(nodes)]
            )

    async def wait_open(self) -> None: ...

    async def request(self, _message: Any, *, most: int) -> Any:
        self.most = most
        return self._answer


async def seen(nodes: int, host: str, *, is_old: bool) -> ClusterView | UpstreamError:
    connection = Answering(nodes, host, is_old=is_old)
    try:
        return await ask(cast(UpstreamConnection, connection))
    except UpstreamError as error:
        return error
    finally:
        assert connection.most == MAX_VIEW_BYTES


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize(("more", "is_taken"), [(-1, True), (0, True), (1, False)])
async def test_nodes_have_a_maximum(is_old: bool, more: int, is_taken: bool) -> None:
    view = await seen(MAX_NODES + more, "kafka", is_old=is_old)
    if is_taken:
        assert isinstance(view, ClusterView) and len(view.nodes) == MAX_NODES + more
    else:
        assert isinstance(view, UpstreamError) and view.reason is Reason.PROTOCOL


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize(("more", "is_taken"), [(-1, True), (0, True), (1, False)])
async def test_the_name_of_a_host_has_a_maximum(is_old: bool, more: int, is_taken: bool) -> None:
    view = await seen(1, "h" * (MAX_HOST + more), is_old=is_old)
    assert isinstance(view, ClusterView) is is_taken

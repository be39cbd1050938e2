"""A broker's description of its cluster, from DescribeCluster or, from brokers before Kafka 2.8, Metadata."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from broker.config.listeners import Address
from broker.gateway.upstream.connection import UpstreamConnection
from broker.gateway.upstream.errors import Reason, UpstreamError
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from broker.protocol.messages.metadata import MetadataRequest, MetadataResponse

MAX_NODES: Final = 1_000
"""Nodes of a cluster; ours. Each has a port and connections of the gateway."""

MAX_VIEW_BYTES: Final = 262_144
"""Bytes of an answer; ours. 1,000 nodes with long names have less."""

MAX_HOST: Final = 255
"""Characters of a host name. (RFC 1035)"""


class UpstreamNode(msgspec.Struct, frozen=True):
    """A broker of the upstream cluster, at the address of the listener that the gateway uses."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> Address:
        return Address(self.host, self.port)


class ClusterView(msgspec.Struct, frozen=True):
    """One answer. `controller_id` is any broker in a KRaft cluster."""

    cluster_id: str | None
    nodes: frozenset[UpstreamNode]
    controller_id: int


async def ask(connection: UpstreamConnection) -> ClusterView:
    """Ask a broker. Raises UpstreamError, also if the broker knows no nodes."""
    await connection.wait_open()
    if ApiKey.DESCRIBE_CLUSTER in connection.versions:
        described: DescribeClusterResponse = await connection.request(
            DescribeClusterRequest(), most=MAX_VIEW_BYTES
        )
        if described.error_code:
            text = f"{connection.address}: DescribeCluster: error {described.error_code}"
            raise UpstreamError(Reason.PROTOCOL, text)
        _check_number(connection, described.brokers)
        nodes = _nodes((each.broker_id, each.host, each.port, each.rack) for each in described.brokers)
        view = ClusterView(described.cluster_id or None, nodes, described.controller_id)
    else:
        answer: MetadataResponse = await connection.request(MetadataRequest([], False), most=MAX_VIEW_BYTES)
        _check_number(connection, answer.brokers)
        nodes = _nodes((each.node_id, each.host, each.port, each.rack) for each in answer.brokers)
        view = ClusterView(answer.cluster_id, nodes, answer.controller_id)
    if not view.nodes:
        raise UpstreamError(Reason.PROTOCOL, f"{connection.address}: the broker knows no brokers yet")
    if len({node.node_id for node in view.nodes}) < len(view.nodes) or not all(map(_is_valid, view.nodes)):
        raise UpstreamError(Reason.PROTOCOL, f"{connection.address}: the broker gives an invalid address")
    return view


def _is_valid(node: UpstreamNode) -> bool:
    return node.node_id >= 0 and 0 < len(node.host) <= MAX_HOST and 0 < node.port <= 65_535


def _check_number(connection: UpstreamConnection, brokers: Sequence[Any]) -> None:
    if len(brokers) > MAX_NODES:
        text = (
            f"{connection.address}: the broker names {len(brokers)} brokers, and at most {MAX_NODES} are used"
        )
        raise UpstreamError(Reason.PROTOCOL, text)


def _nodes(rows: Iterable[tuple[Any, ...]]) -> frozenset[UpstreamNode]:
    return frozenset(UpstreamNode(*row) for row in rows)

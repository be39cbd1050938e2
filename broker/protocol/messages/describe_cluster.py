"""Describe cluster, API key 60. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class DescribeClusterRequest(Message, api_key=60, versions=(0, 2), flexible=0):
    include_cluster_authorized_operations: bool = field("bool", 0, 2)
    endpoint_type: int = field("int8", 1, 2, default=1)
    include_fenced_brokers: bool = field("bool", 2, 2)


class DescribeClusterBroker(Struct):
    broker_id: int = field("int32", 0, 2)
    host: str = field("string", 0, 2)
    port: int = field("int32", 0, 2)
    rack: str | None = field("string", 0, 2, nullable=0)
    is_fenced: bool = field("bool", 2, 2)


class DescribeClusterResponse(Message, api_key=60, versions=(0, 2), flexible=0):
    throttle_time_ms: int = field("int32", 0, 2)
    error_code: int = field("int16", 0, 2)
    error_message: str | None = field("string", 0, 2, nullable=0)
    endpoint_type: int = field("int8", 1, 2, default=1)
    cluster_id: str = field("string", 0, 2)
    controller_id: int = field("int32", 0, 2, default=-1)
    brokers: list[DescribeClusterBroker] = field(DescribeClusterBroker, 0, 2, array=True)
    cluster_authorized_operations: int = field("int32", 0, 2, default=-2147483648)

"""Describe quorum, API key 55. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class RequestPartitionData(Struct):
    partition_index: int = field("int32", 0, 2)


class RequestTopicData(Struct):
    topic_name: str = field("string", 0, 2)
    partitions: list[RequestPartitionData] = field(RequestPartitionData, 0, 2, array=True)


class DescribeQuorumRequest(Message, api_key=55, versions=(0, 2), flexible=0):
    topics: list[RequestTopicData] = field(RequestTopicData, 0, 2, array=True)


class ReplicaState(Struct):
    replica_id: int = field("int32", 0, 2)
    replica_directory_id: bytes = field("uuid", 2, 2)
    log_end_offset: int = field("int64", 0, 2)
    last_fetch_timestamp: int = field("int64", 1, 2, default=-1)
    last_caught_up_timestamp: int = field("int64", 1, 2, default=-1)


class ResponsePartitionData(Struct):
    partition_index: int = field("int32", 0, 2)
    error_code: int = field("int16", 0, 2)
    error_message: str | None = field("string", 2, 2, nullable=2)
    leader_id: int = field("int32", 0, 2)
    leader_epoch: int = field("int32", 0, 2)
    high_watermark: int = field("int64", 0, 2)
    current_voters: list[ReplicaState] = field(ReplicaState, 0, 2, array=True)
    observers: list[ReplicaState] = field(ReplicaState, 0, 2, array=True)


class ResponseTopicData(Struct):
    topic_name: str = field("string", 0, 2)
    partitions: list[ResponsePartitionData] = field(ResponsePartitionData, 0, 2, array=True)


class Listener(Struct):
    name: str = field("string", 2, 2)
    host: str = field("string", 2, 2)
    port: int = field("uint16", 2, 2)


class Node(Struct):
    node_id: int = field("int32", 2, 2)
    listeners: list[Listener] = field(Listener, 2, 2, array=True)


class DescribeQuorumResponse(Message, api_key=55, versions=(0, 2), flexible=0):
    error_code: int = field("int16", 0, 2)
    error_message: str | None = field("string", 2, 2, nullable=2)
    topics: list[ResponseTopicData] = field(ResponseTopicData, 0, 2, array=True)
    nodes: list[Node] = field(Node, 2, 2, array=True)

"""Describe topic partitions, API key 75. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class TopicRequest(Struct):
    name: str = field("string", 0, 0)


class Cursor(Struct):
    topic_name: str = field("string", 0, 0)
    partition_index: int = field("int32", 0, 0)


class DescribeTopicPartitionsRequest(Message, api_key=75, versions=(0, 0), flexible=0):
    topics: list[TopicRequest] = field(TopicRequest, 0, 0, array=True)
    response_partition_limit: int = field("int32", 0, 0, default=2000)
    cursor: Cursor | None = field(Cursor, 0, 0, nullable=0)


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int = field("int16", 0, 0)
    partition_index: int = field("int32", 0, 0)
    leader_id: int = field("int32", 0, 0)
    leader_epoch: int = field("int32", 0, 0, default=-1)
    replica_nodes: list[int] = field("int32", 0, 0, array=True)
    isr_nodes: list[int] = field("int32", 0, 0, array=True)
    eligible_leader_replicas: list[int] | None = field("int32", 0, 0, array=True, nullable=0)
    last_known_elr: list[int] | None = field("int32", 0, 0, array=True, nullable=0)
    offline_replicas: list[int] = field("int32", 0, 0, array=True)


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int = field("int16", 0, 0)
    name: str | None = field("string", 0, 0, nullable=0)
    topic_id: bytes = field("uuid", 0, 0)
    is_internal: bool = field("bool", 0, 0)
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(
        DescribeTopicPartitionsResponsePartition, 0, 0, array=True
    )
    topic_authorized_operations: int = field("int32", 0, 0, default=-2147483648)


class DescribeTopicPartitionsResponse(Message, api_key=75, versions=(0, 0), flexible=0):
    throttle_time_ms: int = field("int32", 0, 0)
    topics: list[DescribeTopicPartitionsResponseTopic] = field(
        DescribeTopicPartitionsResponseTopic, 0, 0, array=True
    )
    next_cursor: Cursor | None = field(Cursor, 0, 0, nullable=0)

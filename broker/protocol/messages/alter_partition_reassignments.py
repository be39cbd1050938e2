"""Alter partition reassignments, API key 45. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class ReassignablePartition(Struct):
    partition_index: int = field("int32", 0, 1)
    replicas: list[int] | None = field("int32", 0, 1, array=True, nullable=0)


class ReassignableTopic(Struct):
    name: str = field("string", 0, 1)
    partitions: list[ReassignablePartition] = field(ReassignablePartition, 0, 1, array=True)


class AlterPartitionReassignmentsRequest(Message, api_key=45, versions=(0, 1), flexible=0):
    timeout_ms: int = field("int32", 0, 1, default=60000)
    allow_replication_factor_change: bool = field("bool", 1, 1, default=True)
    topics: list[ReassignableTopic] = field(ReassignableTopic, 0, 1, array=True)


class ReassignablePartitionResponse(Struct):
    partition_index: int = field("int32", 0, 1)
    error_code: int = field("int16", 0, 1)
    error_message: str | None = field("string", 0, 1, nullable=0)


class ReassignableTopicResponse(Struct):
    name: str = field("string", 0, 1)
    partitions: list[ReassignablePartitionResponse] = field(ReassignablePartitionResponse, 0, 1, array=True)


class AlterPartitionReassignmentsResponse(Message, api_key=45, versions=(0, 1), flexible=0):
    throttle_time_ms: int = field("int32", 0, 1)
    allow_replication_factor_change: bool = field("bool", 1, 1, default=True)
    error_code: int = field("int16", 0, 1)
    error_message: str | None = field("string", 0, 1, nullable=0)
    responses: list[ReassignableTopicResponse] = field(ReassignableTopicResponse, 0, 1, array=True)

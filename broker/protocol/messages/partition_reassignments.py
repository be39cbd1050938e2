"""Partition reassignments, API keys 45, 46. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

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


class ListPartitionReassignmentsTopics(Struct):
    name: str = field("string", 0, 0)
    partition_indexes: list[int] = field("int32", 0, 0, array=True)


class ListPartitionReassignmentsRequest(Message, api_key=46, versions=(0, 0), flexible=0):
    timeout_ms: int = field("int32", 0, 0, default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = field(
        ListPartitionReassignmentsTopics, 0, 0, array=True, nullable=0
    )


class OngoingPartitionReassignment(Struct):
    partition_index: int = field("int32", 0, 0)
    replicas: list[int] = field("int32", 0, 0, array=True)
    adding_replicas: list[int] = field("int32", 0, 0, array=True)
    removing_replicas: list[int] = field("int32", 0, 0, array=True)


class OngoingTopicReassignment(Struct):
    name: str = field("string", 0, 0)
    partitions: list[OngoingPartitionReassignment] = field(OngoingPartitionReassignment, 0, 0, array=True)


class ListPartitionReassignmentsResponse(Message, api_key=46, versions=(0, 0), flexible=0):
    throttle_time_ms: int = field("int32", 0, 0)
    error_code: int = field("int16", 0, 0)
    error_message: str | None = field("string", 0, 0, nullable=0)
    topics: list[OngoingTopicReassignment] = field(OngoingTopicReassignment, 0, 0, array=True)

"""List partition reassignments, API key 46. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


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

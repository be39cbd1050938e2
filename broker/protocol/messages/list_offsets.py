"""List offsets, API key 2. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class ListOffsetsPartition(Struct):
    partition_index: int = field("int32", 1, 11)
    current_leader_epoch: int = field("int32", 4, 11, default=-1)
    timestamp: int = field("int64", 1, 11)


class ListOffsetsTopic(Struct):
    name: str = field("string", 1, 11)
    partitions: list[ListOffsetsPartition] = field(ListOffsetsPartition, 1, 11, array=True)


class ListOffsetsRequest(Message, api_key=2, versions=(1, 11), flexible=6):
    replica_id: int = field("int32", 1, 11)
    isolation_level: int = field("int8", 2, 11)
    topics: list[ListOffsetsTopic] = field(ListOffsetsTopic, 1, 11, array=True)
    timeout_ms: int = field("int32", 10, 11)


class ListOffsetsPartitionResponse(Struct):
    partition_index: int = field("int32", 1, 11)
    error_code: int = field("int16", 1, 11)
    timestamp: int = field("int64", 1, 11, default=-1)
    offset: int = field("int64", 1, 11, default=-1)
    leader_epoch: int = field("int32", 4, 11, default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str = field("string", 1, 11)
    partitions: list[ListOffsetsPartitionResponse] = field(ListOffsetsPartitionResponse, 1, 11, array=True)


class ListOffsetsResponse(Message, api_key=2, versions=(1, 11), flexible=6):
    throttle_time_ms: int = field("int32", 2, 11)
    topics: list[ListOffsetsTopicResponse] = field(ListOffsetsTopicResponse, 1, 11, array=True)

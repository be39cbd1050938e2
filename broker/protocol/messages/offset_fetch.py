"""Offset fetch, API key 9. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class OffsetFetchRequestTopic(Struct):
    name: str = field("string", 1, 7)
    partition_indexes: list[int] = field("int32", 1, 7, array=True)


class OffsetFetchRequestTopics(Struct):
    name: str = field("string", 8, 9)
    topic_id: bytes = field("uuid", 10, 10)
    partition_indexes: list[int] = field("int32", 8, 10, array=True)


class OffsetFetchRequestGroup(Struct):
    group_id: str = field("string", 8, 10)
    member_id: str | None = field("string", 9, 10, nullable=9)
    member_epoch: int = field("int32", 9, 10, default=-1)
    topics: list[OffsetFetchRequestTopics] | None = field(
        OffsetFetchRequestTopics, 8, 10, array=True, nullable=8
    )


class OffsetFetchRequest(Message, api_key=9, versions=(1, 10), flexible=6):
    group_id: str = field("string", 1, 7)
    topics: list[OffsetFetchRequestTopic] | None = field(
        OffsetFetchRequestTopic, 1, 7, array=True, nullable=2
    )
    groups: list[OffsetFetchRequestGroup] = field(OffsetFetchRequestGroup, 8, 10, array=True)
    require_stable: bool = field("bool", 7, 10)


class OffsetFetchResponsePartition(Struct):
    partition_index: int = field("int32", 1, 7)
    committed_offset: int = field("int64", 1, 7)
    committed_leader_epoch: int = field("int32", 5, 7, default=-1)
    metadata: str | None = field("string", 1, 7, nullable=1)
    error_code: int = field("int16", 1, 7)


class OffsetFetchResponseTopic(Struct):
    name: str = field("string", 1, 7)
    partitions: list[OffsetFetchResponsePartition] = field(OffsetFetchResponsePartition, 1, 7, array=True)


class OffsetFetchResponsePartitions(Struct):
    partition_index: int = field("int32", 8, 10)
    committed_offset: int = field("int64", 8, 10)
    committed_leader_epoch: int = field("int32", 8, 10, default=-1)
    metadata: str | None = field("string", 8, 10, nullable=8)
    error_code: int = field("int16", 8, 10)


class OffsetFetchResponseTopics(Struct):
    name: str = field("string", 8, 9)
    topic_id: bytes = field("uuid", 10, 10)
    partitions: list[OffsetFetchResponsePartitions] = field(OffsetFetchResponsePartitions, 8, 10, array=True)


class OffsetFetchResponseGroup(Struct):
    group_id: str = field("string", 8, 10)
    topics: list[OffsetFetchResponseTopics] = field(OffsetFetchResponseTopics, 8, 10, array=True)
    error_code: int = field("int16", 8, 10)


class OffsetFetchResponse(Message, api_key=9, versions=(1, 10), flexible=6):
    throttle_time_ms: int = field("int32", 3, 10)
    topics: list[OffsetFetchResponseTopic] = field(OffsetFetchResponseTopic, 1, 7, array=True)
    error_code: int = field("int16", 2, 7)
    groups: list[OffsetFetchResponseGroup] = field(OffsetFetchResponseGroup, 8, 10, array=True)

"""Offset commit, API key 8. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class OffsetCommitRequestPartition(Struct):
    partition_index: int = field("int32", 2, 10)
    committed_offset: int = field("int64", 2, 10)
    committed_leader_epoch: int = field("int32", 6, 10, default=-1)
    committed_metadata: str | None = field("string", 2, 10, nullable=2)


class OffsetCommitRequestTopic(Struct):
    name: str = field("string", 2, 9)
    topic_id: bytes = field("uuid", 10, 10)
    partitions: list[OffsetCommitRequestPartition] = field(OffsetCommitRequestPartition, 2, 10, array=True)


class OffsetCommitRequest(Message, api_key=8, versions=(2, 10), flexible=8):
    group_id: str = field("string", 2, 10)
    generation_id_or_member_epoch: int = field("int32", 2, 10, default=-1)
    member_id: str = field("string", 2, 10)
    retention_time_ms: int = field("int64", 2, 4, default=-1)
    group_instance_id: str | None = field("string", 7, 10, nullable=7)
    topics: list[OffsetCommitRequestTopic] = field(OffsetCommitRequestTopic, 2, 10, array=True)


class OffsetCommitResponsePartition(Struct):
    partition_index: int = field("int32", 2, 10)
    error_code: int = field("int16", 2, 10)


class OffsetCommitResponseTopic(Struct):
    name: str = field("string", 2, 9)
    topic_id: bytes = field("uuid", 10, 10)
    partitions: list[OffsetCommitResponsePartition] = field(OffsetCommitResponsePartition, 2, 10, array=True)


class OffsetCommitResponse(Message, api_key=8, versions=(2, 10), flexible=8):
    throttle_time_ms: int = field("int32", 3, 10)
    topics: list[OffsetCommitResponseTopic] = field(OffsetCommitResponseTopic, 2, 10, array=True)

"""Alter share group offsets, API key 91. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: int = field("int32", 0, 0)
    start_offset: int = field("int64", 0, 0)


class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = field("string", 0, 0)
    partitions: list[AlterShareGroupOffsetsRequestPartition] = field(
        AlterShareGroupOffsetsRequestPartition, 0, 0, array=True
    )


class AlterShareGroupOffsetsRequest(Message, api_key=91, versions=(0, 0), flexible=0):
    group_id: str = field("string", 0, 0)
    topics: list[AlterShareGroupOffsetsRequestTopic] = field(
        AlterShareGroupOffsetsRequestTopic, 0, 0, array=True
    )


class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: int = field("int32", 0, 0)
    error_code: int = field("int16", 0, 0)
    error_message: str | None = field("string", 0, 0, nullable=0)


class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = field("string", 0, 0)
    topic_id: bytes = field("uuid", 0, 0)
    partitions: list[AlterShareGroupOffsetsResponsePartition] = field(
        AlterShareGroupOffsetsResponsePartition, 0, 0, array=True
    )


class AlterShareGroupOffsetsResponse(Message, api_key=91, versions=(0, 0), flexible=0):
    throttle_time_ms: int = field("int32", 0, 0)
    error_code: int = field("int16", 0, 0)
    error_message: str | None = field("string", 0, 0, nullable=0)
    responses: list[AlterShareGroupOffsetsResponseTopic] = field(
        AlterShareGroupOffsetsResponseTopic, 0, 0, array=True
    )

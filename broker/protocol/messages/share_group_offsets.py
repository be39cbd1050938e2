"""Share group offsets, API keys 90, 91, 92. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = field("string", 0, 1)
    partitions: list[int] = field("int32", 0, 1, array=True)


class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: str = field("string", 0, 1)
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field(
        DescribeShareGroupOffsetsRequestTopic, 0, 1, array=True, nullable=0
    )


class DescribeShareGroupOffsetsRequest(Message, api_key=90, versions=(0, 1), flexible=0):
    groups: list[DescribeShareGroupOffsetsRequestGroup] = field(
        DescribeShareGroupOffsetsRequestGroup, 0, 1, array=True
    )


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: int = field("int32", 0, 1)
    start_offset: int = field("int64", 0, 1)
    leader_epoch: int = field("int32", 0, 1)
    lag: int = field("int64", 1, 1, default=-1)
    error_code: int = field("int16", 0, 1)
    error_message: str | None = field("string", 0, 1, nullable=0)


class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = field("string", 0, 1)
    topic_id: bytes = field("uuid", 0, 1)
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = field(
        DescribeShareGroupOffsetsResponsePartition, 0, 1, array=True
    )


class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: str = field("string", 0, 1)
    topics: list[DescribeShareGroupOffsetsResponseTopic] = field(
        DescribeShareGroupOffsetsResponseTopic, 0, 1, array=True
    )
    error_code: int = field("int16", 0, 1)
    error_message: str | None = field("string", 0, 1, nullable=0)


class DescribeShareGroupOffsetsResponse(Message, api_key=90, versions=(0, 1), flexible=0):
    throttle_time_ms: int = field("int32", 0, 1)
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field(
        DescribeShareGroupOffsetsResponseGroup, 0, 1, array=True
    )


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


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = field("string", 0, 0)


class DeleteShareGroupOffsetsRequest(Message, api_key=92, versions=(0, 0), flexible=0):
    group_id: str = field("string", 0, 0)
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field(
        DeleteShareGroupOffsetsRequestTopic, 0, 0, array=True
    )


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = field("string", 0, 0)
    topic_id: bytes = field("uuid", 0, 0)
    error_code: int = field("int16", 0, 0)
    error_message: str | None = field("string", 0, 0, nullable=0)


class DeleteShareGroupOffsetsResponse(Message, api_key=92, versions=(0, 0), flexible=0):
    throttle_time_ms: int = field("int32", 0, 0)
    error_code: int = field("int16", 0, 0)
    error_message: str | None = field("string", 0, 0, nullable=0)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field(
        DeleteShareGroupOffsetsResponseTopic, 0, 0, array=True
    )

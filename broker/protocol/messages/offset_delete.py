"""Offset delete, API key 47. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class OffsetDeleteRequestPartition(Struct):
    partition_index: int = field("int32", 0, 0)


class OffsetDeleteRequestTopic(Struct):
    name: str = field("string", 0, 0)
    partitions: list[OffsetDeleteRequestPartition] = field(OffsetDeleteRequestPartition, 0, 0, array=True)


class OffsetDeleteRequest(Message, api_key=47, versions=(0, 0)):
    group_id: str = field("string", 0, 0)
    topics: list[OffsetDeleteRequestTopic] = field(OffsetDeleteRequestTopic, 0, 0, array=True)


class OffsetDeleteResponsePartition(Struct):
    partition_index: int = field("int32", 0, 0)
    error_code: int = field("int16", 0, 0)


class OffsetDeleteResponseTopic(Struct):
    name: str = field("string", 0, 0)
    partitions: list[OffsetDeleteResponsePartition] = field(OffsetDeleteResponsePartition, 0, 0, array=True)


class OffsetDeleteResponse(Message, api_key=47, versions=(0, 0)):
    error_code: int = field("int16", 0, 0)
    throttle_time_ms: int = field("int32", 0, 0)
    topics: list[OffsetDeleteResponseTopic] = field(OffsetDeleteResponseTopic, 0, 0, array=True)

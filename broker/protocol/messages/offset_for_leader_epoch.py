"""Offset for leader epoch, API key 23. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class OffsetForLeaderPartition(Struct):
    partition: int = field("int32", 2, 4)
    current_leader_epoch: int = field("int32", 2, 4, default=-1)
    leader_epoch: int = field("int32", 2, 4)


class OffsetForLeaderTopic(Struct):
    topic: str = field("string", 2, 4)
    partitions: list[OffsetForLeaderPartition] = field(OffsetForLeaderPartition, 2, 4, array=True)


class OffsetForLeaderEpochRequest(Message, api_key=23, versions=(2, 4), flexible=4):
    replica_id: int = field("int32", 3, 4, default=-2)
    topics: list[OffsetForLeaderTopic] = field(OffsetForLeaderTopic, 2, 4, array=True)


class EpochEndOffset(Struct):
    error_code: int = field("int16", 2, 4)
    partition: int = field("int32", 2, 4)
    leader_epoch: int = field("int32", 2, 4, default=-1)
    end_offset: int = field("int64", 2, 4, default=-1)


class OffsetForLeaderTopicResult(Struct):
    topic: str = field("string", 2, 4)
    partitions: list[EpochEndOffset] = field(EpochEndOffset, 2, 4, array=True)


class OffsetForLeaderEpochResponse(Message, api_key=23, versions=(2, 4), flexible=4):
    throttle_time_ms: int = field("int32", 2, 4)
    topics: list[OffsetForLeaderTopicResult] = field(OffsetForLeaderTopicResult, 2, 4, array=True)

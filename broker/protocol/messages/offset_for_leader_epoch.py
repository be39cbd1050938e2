"""Offset for leader epoch, API key 23. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message, Struct


class OffsetForLeaderPartition(Struct):
    __slots__ = ("partition", "current_leader_epoch", "leader_epoch")
    FIELDS = (
        Field("partition", "int32", 2, 4),
        Field("current_leader_epoch", "int32", 2, 4, default=-1),
        Field("leader_epoch", "int32", 2, 4),
    )

    def __init__(self, partition: int = 0, current_leader_epoch: int = -1, leader_epoch: int = 0) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.leader_epoch = leader_epoch


class OffsetForLeaderTopic(Struct):
    __slots__ = ("topic", "partitions")
    FIELDS = (
        Field("topic", "string", 2, 4),
        Field("partitions", OffsetForLeaderPartition, 2, 4, array=True),
    )

    def __init__(self, topic: str = "", partitions: list[OffsetForLeaderPartition] | None = None) -> None:
        self.topic = topic
        self.partitions = [] if partitions is None else partitions


class OffsetForLeaderEpochRequest(Message):
    __slots__ = ("replica_id", "topics")
    API_KEY = 23
    VERSIONS = (2, 4)
    FLEXIBLE = 4
    FIELDS = (
        Field("replica_id", "int32", 3, 4, default=-2),
        Field("topics", OffsetForLeaderTopic, 2, 4, array=True),
    )

    def __init__(self, replica_id: int = -2, topics: list[OffsetForLeaderTopic] | None = None) -> None:
        self.replica_id = replica_id
        self.topics = [] if topics is None else topics


class EpochEndOffset(Struct):
    __slots__ = ("error_code", "partition", "leader_epoch", "end_offset")
    FIELDS = (
        Field("error_code", "int16", 2, 4),
        Field("partition", "int32", 2, 4),
        Field("leader_epoch", "int32", 2, 4, default=-1),
        Field("end_offset", "int64", 2, 4, default=-1),
    )

    def __init__(
        self, error_code: int = 0, partition: int = 0, leader_epoch: int = -1, end_offset: int = -1
    ) -> None:
        self.error_code = error_code
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.end_offset = end_offset


class OffsetForLeaderTopicResult(Struct):
    __slots__ = ("topic", "partitions")
    FIELDS = (
        Field("topic", "string", 2, 4),
        Field("partitions", EpochEndOffset, 2, 4, array=True),
    )

    def __init__(self, topic: str = "", partitions: list[EpochEndOffset] | None = None) -> None:
        self.topic = topic
        self.partitions = [] if partitions is None else partitions


class OffsetForLeaderEpochResponse(Message):
    __slots__ = ("throttle_time_ms", "topics")
    API_KEY = 23
    VERSIONS = (2, 4)
    FLEXIBLE = 4
    FIELDS = (
        Field("throttle_time_ms", "int32", 2, 4),
        Field("topics", OffsetForLeaderTopicResult, 2, 4, array=True),
    )

    def __init__(
        self, throttle_time_ms: int = 0, topics: list[OffsetForLeaderTopicResult] | None = None
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is None else topics

"""Offset commit, API key 8. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import ZERO_UUID, Field, Message, Struct


class OffsetCommitRequestPartition(Struct):
    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata")
    FIELDS = (
        Field("partition_index", "int32", 2, 10),
        Field("committed_offset", "int64", 2, 10),
        Field("committed_leader_epoch", "int32", 6, 10, default=-1),
        Field("committed_metadata", "string", 2, 10, nullable=2),
    )

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        committed_metadata: str | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.committed_metadata = committed_metadata


class OffsetCommitRequestTopic(Struct):
    __slots__ = ("name", "topic_id", "partitions")
    FIELDS = (
        Field("name", "string", 2, 9),
        Field("topic_id", "uuid", 10, 10),
        Field("partitions", OffsetCommitRequestPartition, 2, 10, array=True),
    )

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[OffsetCommitRequestPartition] | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions


class OffsetCommitRequest(Message):
    __slots__ = (
        "group_id",
        "generation_id_or_member_epoch",
        "member_id",
        "retention_time_ms",
        "group_instance_id",
        "topics",
    )
    API_KEY = 8
    VERSIONS = (2, 10)
    FLEXIBLE = 8
    FIELDS = (
        Field("group_id", "string", 2, 10),
        Field("generation_id_or_member_epoch", "int32", 2, 10, default=-1),
        Field("member_id", "string", 2, 10),
        Field("retention_time_ms", "int64", 2, 4, default=-1),
        Field("group_instance_id", "string", 7, 10, nullable=7),
        Field("topics", OffsetCommitRequestTopic, 2, 10, array=True),
    )

    def __init__(
        self,
        group_id: str = "",
        generation_id_or_member_epoch: int = -1,
        member_id: str = "",
        retention_time_ms: int = -1,
        group_instance_id: str | None = None,
        topics: list[OffsetCommitRequestTopic] | None = None,
    ) -> None:
        self.group_id = group_id
        self.generation_id_or_member_epoch = generation_id_or_member_epoch
        self.member_id = member_id
        self.retention_time_ms = retention_time_ms
        self.group_instance_id = group_instance_id
        self.topics = [] if topics is None else topics


class OffsetCommitResponsePartition(Struct):
    __slots__ = ("partition_index", "error_code")
    FIELDS = (
        Field("partition_index", "int32", 2, 10),
        Field("error_code", "int16", 2, 10),
    )

    def __init__(self, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class OffsetCommitResponseTopic(Struct):
    __slots__ = ("name", "topic_id", "partitions")
    FIELDS = (
        Field("name", "string", 2, 9),
        Field("topic_id", "uuid", 10, 10),
        Field("partitions", OffsetCommitResponsePartition, 2, 10, array=True),
    )

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[OffsetCommitResponsePartition] | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions


class OffsetCommitResponse(Message):
    __slots__ = ("throttle_time_ms", "topics")
    API_KEY = 8
    VERSIONS = (2, 10)
    FLEXIBLE = 8
    FIELDS = (
        Field("throttle_time_ms", "int32", 3, 10),
        Field("topics", OffsetCommitResponseTopic, 2, 10, array=True),
    )

    def __init__(
        self, throttle_time_ms: int = 0, topics: list[OffsetCommitResponseTopic] | None = None
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is None else topics

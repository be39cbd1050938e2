"""Offset fetch, API key 9. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import ZERO_UUID, Field, Message, Struct


class OffsetFetchRequestTopic(Struct):
    __slots__ = ("name", "partition_indexes")
    FIELDS = (
        Field("name", "string", 1, 7),
        Field("partition_indexes", "int32", 1, 7, array=True),
    )

    def __init__(self, name: str = "", partition_indexes: list[int] | None = None) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is None else partition_indexes


class OffsetFetchRequestTopics(Struct):
    __slots__ = ("name", "topic_id", "partition_indexes")
    FIELDS = (
        Field("name", "string", 8, 9),
        Field("topic_id", "uuid", 10, 10),
        Field("partition_indexes", "int32", 8, 10, array=True),
    )

    def __init__(
        self, name: str = "", topic_id: bytes = ZERO_UUID, partition_indexes: list[int] | None = None
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_indexes = [] if partition_indexes is None else partition_indexes


class OffsetFetchRequestGroup(Struct):
    __slots__ = ("group_id", "member_id", "member_epoch", "topics")
    FIELDS = (
        Field("group_id", "string", 8, 10),
        Field("member_id", "string", 9, 10, nullable=9),
        Field("member_epoch", "int32", 9, 10, default=-1),
        Field("topics", OffsetFetchRequestTopics, 8, 10, array=True, nullable=8),
    )

    def __init__(
        self,
        group_id: str = "",
        member_id: str | None = None,
        member_epoch: int = -1,
        topics: list[OffsetFetchRequestTopics] | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.topics = topics


class OffsetFetchRequest(Message):
    __slots__ = ("group_id", "topics", "groups", "require_stable")
    API_KEY = 9
    VERSIONS = (1, 10)
    FLEXIBLE = 6
    FIELDS = (
        Field("group_id", "string", 1, 7),
        Field("topics", OffsetFetchRequestTopic, 1, 7, array=True, nullable=2),
        Field("groups", OffsetFetchRequestGroup, 8, 10, array=True),
        Field("require_stable", "bool", 7, 10),
    )

    def __init__(
        self,
        group_id: str = "",
        topics: list[OffsetFetchRequestTopic] | None = None,
        groups: list[OffsetFetchRequestGroup] | None = None,
        require_stable: bool = False,
    ) -> None:
        self.group_id = group_id
        self.topics = topics
        self.groups = [] if groups is None else groups
        self.require_stable = require_stable


class OffsetFetchResponsePartition(Struct):
    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")
    FIELDS = (
        Field("partition_index", "int32", 1, 7),
        Field("committed_offset", "int64", 1, 7),
        Field("committed_leader_epoch", "int32", 5, 7, default=-1),
        Field("metadata", "string", 1, 7, nullable=1),
        Field("error_code", "int16", 1, 7),
    )

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = None,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code


class OffsetFetchResponseTopic(Struct):
    __slots__ = ("name", "partitions")
    FIELDS = (
        Field("name", "string", 1, 7),
        Field("partitions", OffsetFetchResponsePartition, 1, 7, array=True),
    )

    def __init__(self, name: str = "", partitions: list[OffsetFetchResponsePartition] | None = None) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class OffsetFetchResponsePartitions(Struct):
    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")
    FIELDS = (
        Field("partition_index", "int32", 8, 10),
        Field("committed_offset", "int64", 8, 10),
        Field("committed_leader_epoch", "int32", 8, 10, default=-1),
        Field("metadata", "string", 8, 10, nullable=8),
        Field("error_code", "int16", 8, 10),
    )

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = None,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code


class OffsetFetchResponseTopics(Struct):
    __slots__ = ("name", "topic_id", "partitions")
    FIELDS = (
        Field("name", "string", 8, 9),
        Field("topic_id", "uuid", 10, 10),
        Field("partitions", OffsetFetchResponsePartitions, 8, 10, array=True),
    )

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[OffsetFetchResponsePartitions] | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions


class OffsetFetchResponseGroup(Struct):
    __slots__ = ("group_id", "topics", "error_code")
    FIELDS = (
        Field("group_id", "string", 8, 10),
        Field("topics", OffsetFetchResponseTopics, 8, 10, array=True),
        Field("error_code", "int16", 8, 10),
    )

    def __init__(
        self, group_id: str = "", topics: list[OffsetFetchResponseTopics] | None = None, error_code: int = 0
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is None else topics
        self.error_code = error_code


class OffsetFetchResponse(Message):
    __slots__ = ("throttle_time_ms", "topics", "error_code", "groups")
    API_KEY = 9
    VERSIONS = (1, 10)
    FLEXIBLE = 6
    FIELDS = (
        Field("throttle_time_ms", "int32", 3, 10),
        Field("topics", OffsetFetchResponseTopic, 1, 7, array=True),
        Field("error_code", "int16", 2, 7),
        Field("groups", OffsetFetchResponseGroup, 8, 10, array=True),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[OffsetFetchResponseTopic] | None = None,
        error_code: int = 0,
        groups: list[OffsetFetchResponseGroup] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is None else topics
        self.error_code = error_code
        self.groups = [] if groups is None else groups

"""Describe share group offsets, API key 90. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import ZERO_UUID, Field, Message, Struct


class DescribeShareGroupOffsetsRequestTopic(Struct):
    __slots__ = ("topic_name", "partitions")
    FIELDS = (
        Field("topic_name", "string", 0, 1),
        Field("partitions", "int32", 0, 1, array=True),
    )

    def __init__(self, topic_name: str = "", partitions: list[int] | None = None) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is None else partitions


class DescribeShareGroupOffsetsRequestGroup(Struct):
    __slots__ = ("group_id", "topics")
    FIELDS = (
        Field("group_id", "string", 0, 1),
        Field("topics", DescribeShareGroupOffsetsRequestTopic, 0, 1, array=True, nullable=0),
    )

    def __init__(
        self, group_id: str = "", topics: list[DescribeShareGroupOffsetsRequestTopic] | None = None
    ) -> None:
        self.group_id = group_id
        self.topics = topics


class DescribeShareGroupOffsetsRequest(Message):
    __slots__ = ("groups",)
    API_KEY = 90
    VERSIONS = (0, 1)
    FLEXIBLE = 0
    FIELDS = (Field("groups", DescribeShareGroupOffsetsRequestGroup, 0, 1, array=True),)

    def __init__(self, groups: list[DescribeShareGroupOffsetsRequestGroup] | None = None) -> None:
        self.groups = [] if groups is None else groups


class DescribeShareGroupOffsetsResponsePartition(Struct):
    __slots__ = ("partition_index", "start_offset", "leader_epoch", "lag", "error_code", "error_message")
    FIELDS = (
        Field("partition_index", "int32", 0, 1),
        Field("start_offset", "int64", 0, 1),
        Field("leader_epoch", "int32", 0, 1),
        Field("lag", "int64", 1, 1, default=-1),
        Field("error_code", "int16", 0, 1),
        Field("error_message", "string", 0, 1, nullable=0),
    )

    def __init__(
        self,
        partition_index: int = 0,
        start_offset: int = 0,
        leader_epoch: int = 0,
        lag: int = -1,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.start_offset = start_offset
        self.leader_epoch = leader_epoch
        self.lag = lag
        self.error_code = error_code
        self.error_message = error_message


class DescribeShareGroupOffsetsResponseTopic(Struct):
    __slots__ = ("topic_name", "topic_id", "partitions")
    FIELDS = (
        Field("topic_name", "string", 0, 1),
        Field("topic_id", "uuid", 0, 1),
        Field("partitions", DescribeShareGroupOffsetsResponsePartition, 0, 1, array=True),
    )

    def __init__(
        self,
        topic_name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[DescribeShareGroupOffsetsResponsePartition] | None = None,
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions


class DescribeShareGroupOffsetsResponseGroup(Struct):
    __slots__ = ("group_id", "topics", "error_code", "error_message")
    FIELDS = (
        Field("group_id", "string", 0, 1),
        Field("topics", DescribeShareGroupOffsetsResponseTopic, 0, 1, array=True),
        Field("error_code", "int16", 0, 1),
        Field("error_message", "string", 0, 1, nullable=0),
    )

    def __init__(
        self,
        group_id: str = "",
        topics: list[DescribeShareGroupOffsetsResponseTopic] | None = None,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is None else topics
        self.error_code = error_code
        self.error_message = error_message


class DescribeShareGroupOffsetsResponse(Message):
    __slots__ = ("throttle_time_ms", "groups")
    API_KEY = 90
    VERSIONS = (0, 1)
    FLEXIBLE = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", 0, 1),
        Field("groups", DescribeShareGroupOffsetsResponseGroup, 0, 1, array=True),
    )

    def __init__(
        self, throttle_time_ms: int = 0, groups: list[DescribeShareGroupOffsetsResponseGroup] | None = None
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is None else groups

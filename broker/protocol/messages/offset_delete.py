"""Offset delete, API key 47. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message, Struct


class OffsetDeleteRequestPartition(Struct):
    __slots__ = ("partition_index",)
    FIELDS = (Field("partition_index", "int32", 0, 0),)

    def __init__(self, partition_index: int = 0) -> None:
        self.partition_index = partition_index


class OffsetDeleteRequestTopic(Struct):
    __slots__ = ("name", "partitions")
    FIELDS = (
        Field("name", "string", 0, 0),
        Field("partitions", OffsetDeleteRequestPartition, 0, 0, array=True),
    )

    def __init__(self, name: str = "", partitions: list[OffsetDeleteRequestPartition] | None = None) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class OffsetDeleteRequest(Message):
    __slots__ = ("group_id", "topics")
    API_KEY = 47
    VERSIONS = (0, 0)
    FIELDS = (
        Field("group_id", "string", 0, 0),
        Field("topics", OffsetDeleteRequestTopic, 0, 0, array=True),
    )

    def __init__(self, group_id: str = "", topics: list[OffsetDeleteRequestTopic] | None = None) -> None:
        self.group_id = group_id
        self.topics = [] if topics is None else topics


class OffsetDeleteResponsePartition(Struct):
    __slots__ = ("partition_index", "error_code")
    FIELDS = (
        Field("partition_index", "int32", 0, 0),
        Field("error_code", "int16", 0, 0),
    )

    def __init__(self, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class OffsetDeleteResponseTopic(Struct):
    __slots__ = ("name", "partitions")
    FIELDS = (
        Field("name", "string", 0, 0),
        Field("partitions", OffsetDeleteResponsePartition, 0, 0, array=True),
    )

    def __init__(self, name: str = "", partitions: list[OffsetDeleteResponsePartition] | None = None) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class OffsetDeleteResponse(Message):
    __slots__ = ("error_code", "throttle_time_ms", "topics")
    API_KEY = 47
    VERSIONS = (0, 0)
    FIELDS = (
        Field("error_code", "int16", 0, 0),
        Field("throttle_time_ms", "int32", 0, 0),
        Field("topics", OffsetDeleteResponseTopic, 0, 0, array=True),
    )

    def __init__(
        self,
        error_code: int = 0,
        throttle_time_ms: int = 0,
        topics: list[OffsetDeleteResponseTopic] | None = None,
    ) -> None:
        self.error_code = error_code
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is None else topics

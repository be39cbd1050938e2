"""Alter share group offsets, API key 91. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import ZERO_UUID, Field, Message, Struct


class AlterShareGroupOffsetsRequestPartition(Struct):
    __slots__ = ("partition_index", "start_offset")
    FIELDS = (
        Field("partition_index", "int32", 0, 0),
        Field("start_offset", "int64", 0, 0),
    )

    def __init__(self, partition_index: int = 0, start_offset: int = 0) -> None:
        self.partition_index = partition_index
        self.start_offset = start_offset


class AlterShareGroupOffsetsRequestTopic(Struct):
    __slots__ = ("topic_name", "partitions")
    FIELDS = (
        Field("topic_name", "string", 0, 0),
        Field("partitions", AlterShareGroupOffsetsRequestPartition, 0, 0, array=True),
    )

    def __init__(
        self, topic_name: str = "", partitions: list[AlterShareGroupOffsetsRequestPartition] | None = None
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is None else partitions


class AlterShareGroupOffsetsRequest(Message):
    __slots__ = ("group_id", "topics")
    API_KEY = 91
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (
        Field("group_id", "string", 0, 0),
        Field("topics", AlterShareGroupOffsetsRequestTopic, 0, 0, array=True),
    )

    def __init__(
        self, group_id: str = "", topics: list[AlterShareGroupOffsetsRequestTopic] | None = None
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is None else topics


class AlterShareGroupOffsetsResponsePartition(Struct):
    __slots__ = ("partition_index", "error_code", "error_message")
    FIELDS = (
        Field("partition_index", "int32", 0, 0),
        Field("error_code", "int16", 0, 0),
        Field("error_message", "string", 0, 0, nullable=0),
    )

    def __init__(
        self, partition_index: int = 0, error_code: int = 0, error_message: str | None = None
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message


class AlterShareGroupOffsetsResponseTopic(Struct):
    __slots__ = ("topic_name", "topic_id", "partitions")
    FIELDS = (
        Field("topic_name", "string", 0, 0),
        Field("topic_id", "uuid", 0, 0),
        Field("partitions", AlterShareGroupOffsetsResponsePartition, 0, 0, array=True),
    )

    def __init__(
        self,
        topic_name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[AlterShareGroupOffsetsResponsePartition] | None = None,
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions


class AlterShareGroupOffsetsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "responses")
    API_KEY = 91
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", 0, 0),
        Field("error_code", "int16", 0, 0),
        Field("error_message", "string", 0, 0, nullable=0),
        Field("responses", AlterShareGroupOffsetsResponseTopic, 0, 0, array=True),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: list[AlterShareGroupOffsetsResponseTopic] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.responses = [] if responses is None else responses

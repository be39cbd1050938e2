"""Delete records, API key 21. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message, Struct


class DeleteRecordsPartition(Struct):
    __slots__ = ("partition_index", "offset")
    FIELDS = (
        Field("partition_index", "int32", 0, 2),
        Field("offset", "int64", 0, 2),
    )

    def __init__(self, partition_index: int = 0, offset: int = 0) -> None:
        self.partition_index = partition_index
        self.offset = offset


class DeleteRecordsTopic(Struct):
    __slots__ = ("name", "partitions")
    FIELDS = (
        Field("name", "string", 0, 2),
        Field("partitions", DeleteRecordsPartition, 0, 2, array=True),
    )

    def __init__(self, name: str = "", partitions: list[DeleteRecordsPartition] | None = None) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class DeleteRecordsRequest(Message):
    __slots__ = ("topics", "timeout_ms")
    API_KEY = 21
    VERSIONS = (0, 2)
    FLEXIBLE = 2
    FIELDS = (
        Field("topics", DeleteRecordsTopic, 0, 2, array=True),
        Field("timeout_ms", "int32", 0, 2),
    )

    def __init__(self, topics: list[DeleteRecordsTopic] | None = None, timeout_ms: int = 0) -> None:
        self.topics = [] if topics is None else topics
        self.timeout_ms = timeout_ms


class DeleteRecordsPartitionResult(Struct):
    __slots__ = ("partition_index", "low_watermark", "error_code")
    FIELDS = (
        Field("partition_index", "int32", 0, 2),
        Field("low_watermark", "int64", 0, 2),
        Field("error_code", "int16", 0, 2),
    )

    def __init__(self, partition_index: int = 0, low_watermark: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.low_watermark = low_watermark
        self.error_code = error_code


class DeleteRecordsTopicResult(Struct):
    __slots__ = ("name", "partitions")
    FIELDS = (
        Field("name", "string", 0, 2),
        Field("partitions", DeleteRecordsPartitionResult, 0, 2, array=True),
    )

    def __init__(self, name: str = "", partitions: list[DeleteRecordsPartitionResult] | None = None) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class DeleteRecordsResponse(Message):
    __slots__ = ("throttle_time_ms", "topics")
    API_KEY = 21
    VERSIONS = (0, 2)
    FLEXIBLE = 2
    FIELDS = (
        Field("throttle_time_ms", "int32", 0, 2),
        Field("topics", DeleteRecordsTopicResult, 0, 2, array=True),
    )

    def __init__(
        self, throttle_time_ms: int = 0, topics: list[DeleteRecordsTopicResult] | None = None
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is None else topics

"""Describe log dirs, API key 35. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message, Struct


class DescribableLogDirTopic(Struct):
    __slots__ = ("topic", "partitions")
    FIELDS = (
        Field("topic", "string", 1, 5),
        Field("partitions", "int32", 1, 5, array=True),
    )

    def __init__(self, topic: str = "", partitions: list[int] | None = None) -> None:
        self.topic = topic
        self.partitions = [] if partitions is None else partitions


class DescribeLogDirsRequest(Message):
    __slots__ = ("topics",)
    API_KEY = 35
    VERSIONS = (1, 5)
    FLEXIBLE = 2
    FIELDS = (Field("topics", DescribableLogDirTopic, 1, 5, array=True, nullable=1),)

    def __init__(self, topics: list[DescribableLogDirTopic] | None = None) -> None:
        self.topics = topics


class DescribeLogDirsPartition(Struct):
    __slots__ = ("partition_index", "partition_size", "offset_lag", "is_future_key")
    FIELDS = (
        Field("partition_index", "int32", 1, 5),
        Field("partition_size", "int64", 1, 5),
        Field("offset_lag", "int64", 1, 5),
        Field("is_future_key", "bool", 1, 5),
    )

    def __init__(
        self,
        partition_index: int = 0,
        partition_size: int = 0,
        offset_lag: int = 0,
        is_future_key: bool = False,
    ) -> None:
        self.partition_index = partition_index
        self.partition_size = partition_size
        self.offset_lag = offset_lag
        self.is_future_key = is_future_key


class DescribeLogDirsTopic(Struct):
    __slots__ = ("name", "partitions")
    FIELDS = (
        Field("name", "string", 1, 5),
        Field("partitions", DescribeLogDirsPartition, 1, 5, array=True),
    )

    def __init__(self, name: str = "", partitions: list[DescribeLogDirsPartition] | None = None) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class DescribeLogDirsResult(Struct):
    __slots__ = ("error_code", "log_dir", "topics", "total_bytes", "usable_bytes", "is_cordoned")
    FIELDS = (
        Field("error_code", "int16", 1, 5),
        Field("log_dir", "string", 1, 5),
        Field("topics", DescribeLogDirsTopic, 1, 5, array=True),
        Field("total_bytes", "int64", 4, 5, default=-1),
        Field("usable_bytes", "int64", 4, 5, default=-1),
        Field("is_cordoned", "bool", 5, 5),
    )

    def __init__(
        self,
        error_code: int = 0,
        log_dir: str = "",
        topics: list[DescribeLogDirsTopic] | None = None,
        total_bytes: int = -1,
        usable_bytes: int = -1,
        is_cordoned: bool = False,
    ) -> None:
        self.error_code = error_code
        self.log_dir = log_dir
        self.topics = [] if topics is None else topics
        self.total_bytes = total_bytes
        self.usable_bytes = usable_bytes
        self.is_cordoned = is_cordoned


class DescribeLogDirsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "results")
    API_KEY = 35
    VERSIONS = (1, 5)
    FLEXIBLE = 2
    FIELDS = (
        Field("throttle_time_ms", "int32", 1, 5),
        Field("error_code", "int16", 3, 5),
        Field("results", DescribeLogDirsResult, 1, 5, array=True),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results: list[DescribeLogDirsResult] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results = [] if results is None else results

"""Alter replica log dirs, API key 34. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message, Struct


class AlterReplicaLogDirTopic(Struct):
    __slots__ = ("name", "partitions")
    FIELDS = (
        Field("name", "string", 1, 2),
        Field("partitions", "int32", 1, 2, array=True),
    )

    def __init__(self, name: str = "", partitions: list[int] | None = None) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class AlterReplicaLogDir(Struct):
    __slots__ = ("path", "topics")
    FIELDS = (
        Field("path", "string", 1, 2),
        Field("topics", AlterReplicaLogDirTopic, 1, 2, array=True),
    )

    def __init__(self, path: str = "", topics: list[AlterReplicaLogDirTopic] | None = None) -> None:
        self.path = path
        self.topics = [] if topics is None else topics


class AlterReplicaLogDirsRequest(Message):
    __slots__ = ("dirs",)
    API_KEY = 34
    VERSIONS = (1, 2)
    FLEXIBLE = 2
    FIELDS = (Field("dirs", AlterReplicaLogDir, 1, 2, array=True),)

    def __init__(self, dirs: list[AlterReplicaLogDir] | None = None) -> None:
        self.dirs = [] if dirs is None else dirs


class AlterReplicaLogDirPartitionResult(Struct):
    __slots__ = ("partition_index", "error_code")
    FIELDS = (
        Field("partition_index", "int32", 1, 2),
        Field("error_code", "int16", 1, 2),
    )

    def __init__(self, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class AlterReplicaLogDirTopicResult(Struct):
    __slots__ = ("topic_name", "partitions")
    FIELDS = (
        Field("topic_name", "string", 1, 2),
        Field("partitions", AlterReplicaLogDirPartitionResult, 1, 2, array=True),
    )

    def __init__(
        self, topic_name: str = "", partitions: list[AlterReplicaLogDirPartitionResult] | None = None
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is None else partitions


class AlterReplicaLogDirsResponse(Message):
    __slots__ = ("throttle_time_ms", "results")
    API_KEY = 34
    VERSIONS = (1, 2)
    FLEXIBLE = 2
    FIELDS = (
        Field("throttle_time_ms", "int32", 1, 2),
        Field("results", AlterReplicaLogDirTopicResult, 1, 2, array=True),
    )

    def __init__(
        self, throttle_time_ms: int = 0, results: list[AlterReplicaLogDirTopicResult] | None = None
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is None else results

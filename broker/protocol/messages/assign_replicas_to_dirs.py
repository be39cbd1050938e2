"""Assign replicas to dirs, API key 73. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import ZERO_UUID, Field, Message, Struct


class RequestPartitionData(Struct):
    __slots__ = ("partition_index",)
    FIELDS = (Field("partition_index", "int32", 0, 0),)

    def __init__(self, partition_index: int = 0) -> None:
        self.partition_index = partition_index


class RequestTopicData(Struct):
    __slots__ = ("topic_id", "partitions")
    FIELDS = (
        Field("topic_id", "uuid", 0, 0),
        Field("partitions", RequestPartitionData, 0, 0, array=True),
    )

    def __init__(
        self, topic_id: bytes = ZERO_UUID, partitions: list[RequestPartitionData] | None = None
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions


class RequestDirectoryData(Struct):
    __slots__ = ("id_", "topics")
    FIELDS = (
        Field("id_", "uuid", 0, 0),
        Field("topics", RequestTopicData, 0, 0, array=True),
    )

    def __init__(self, id_: bytes = ZERO_UUID, topics: list[RequestTopicData] | None = None) -> None:
        self.id_ = id_
        self.topics = [] if topics is None else topics


class AssignReplicasToDirsRequest(Message):
    __slots__ = ("broker_id", "broker_epoch", "directories")
    API_KEY = 73
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (
        Field("broker_id", "int32", 0, 0),
        Field("broker_epoch", "int64", 0, 0, default=-1),
        Field("directories", RequestDirectoryData, 0, 0, array=True),
    )

    def __init__(
        self,
        broker_id: int = 0,
        broker_epoch: int = -1,
        directories: list[RequestDirectoryData] | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.directories = [] if directories is None else directories


class ResponsePartitionData(Struct):
    __slots__ = ("partition_index", "error_code")
    FIELDS = (
        Field("partition_index", "int32", 0, 0),
        Field("error_code", "int16", 0, 0),
    )

    def __init__(self, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class ResponseTopicData(Struct):
    __slots__ = ("topic_id", "partitions")
    FIELDS = (
        Field("topic_id", "uuid", 0, 0),
        Field("partitions", ResponsePartitionData, 0, 0, array=True),
    )

    def __init__(
        self, topic_id: bytes = ZERO_UUID, partitions: list[ResponsePartitionData] | None = None
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions


class ResponseDirectoryData(Struct):
    __slots__ = ("id_", "topics")
    FIELDS = (
        Field("id_", "uuid", 0, 0),
        Field("topics", ResponseTopicData, 0, 0, array=True),
    )

    def __init__(self, id_: bytes = ZERO_UUID, topics: list[ResponseTopicData] | None = None) -> None:
        self.id_ = id_
        self.topics = [] if topics is None else topics


class AssignReplicasToDirsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "directories")
    API_KEY = 73
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", 0, 0),
        Field("error_code", "int16", 0, 0),
        Field("directories", ResponseDirectoryData, 0, 0, array=True),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        directories: list[ResponseDirectoryData] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.directories = [] if directories is None else directories

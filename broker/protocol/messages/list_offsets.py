"""List offsets, API key 2. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message, Struct


class ListOffsetsPartition(Struct):
    __slots__ = ("partition_index", "current_leader_epoch", "timestamp")
    FIELDS = (
        Field("partition_index", "int32", 1, 11),
        Field("current_leader_epoch", "int32", 4, 11, default=-1),
        Field("timestamp", "int64", 1, 11),
    )

    def __init__(self, partition_index: int = 0, current_leader_epoch: int = -1, timestamp: int = 0) -> None:
        self.partition_index = partition_index
        self.current_leader_epoch = current_leader_epoch
        self.timestamp = timestamp


class ListOffsetsTopic(Struct):
    __slots__ = ("name", "partitions")
    FIELDS = (
        Field("name", "string", 1, 11),
        Field("partitions", ListOffsetsPartition, 1, 11, array=True),
    )

    def __init__(self, name: str = "", partitions: list[ListOffsetsPartition] | None = None) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class ListOffsetsRequest(Message):
    __slots__ = ("replica_id", "isolation_level", "topics", "timeout_ms")
    API_KEY = 2
    VERSIONS = (1, 11)
    FLEXIBLE = 6
    FIELDS = (
        Field("replica_id", "int32", 1, 11),
        Field("isolation_level", "int8", 2, 11),
        Field("topics", ListOffsetsTopic, 1, 11, array=True),
        Field("timeout_ms", "int32", 10, 11),
    )

    def __init__(
        self,
        replica_id: int = 0,
        isolation_level: int = 0,
        topics: list[ListOffsetsTopic] | None = None,
        timeout_ms: int = 0,
    ) -> None:
        self.replica_id = replica_id
        self.isolation_level = isolation_level
        self.topics = [] if topics is None else topics
        self.timeout_ms = timeout_ms


class ListOffsetsPartitionResponse(Struct):
    __slots__ = ("partition_index", "error_code", "timestamp", "offset", "leader_epoch")
    FIELDS = (
        Field("partition_index", "int32", 1, 11),
        Field("error_code", "int16", 1, 11),
        Field("timestamp", "int64", 1, 11, default=-1),
        Field("offset", "int64", 1, 11, default=-1),
        Field("leader_epoch", "int32", 4, 11, default=-1),
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        timestamp: int = -1,
        offset: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.timestamp = timestamp
        self.offset = offset
        self.leader_epoch = leader_epoch


class ListOffsetsTopicResponse(Struct):
    __slots__ = ("name", "partitions")
    FIELDS = (
        Field("name", "string", 1, 11),
        Field("partitions", ListOffsetsPartitionResponse, 1, 11, array=True),
    )

    def __init__(self, name: str = "", partitions: list[ListOffsetsPartitionResponse] | None = None) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class ListOffsetsResponse(Message):
    __slots__ = ("throttle_time_ms", "topics")
    API_KEY = 2
    VERSIONS = (1, 11)
    FLEXIBLE = 6
    FIELDS = (
        Field("throttle_time_ms", "int32", 2, 11),
        Field("topics", ListOffsetsTopicResponse, 1, 11, array=True),
    )

    def __init__(
        self, throttle_time_ms: int = 0, topics: list[ListOffsetsTopicResponse] | None = None
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is None else topics

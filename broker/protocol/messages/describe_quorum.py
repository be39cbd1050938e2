"""Describe quorum, API key 55. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import ZERO_UUID, Field, Message, Struct


class RequestPartitionData(Struct):
    __slots__ = ("partition_index",)
    FIELDS = (Field("partition_index", "int32", 0, 2),)

    def __init__(self, partition_index: int = 0) -> None:
        self.partition_index = partition_index


class RequestTopicData(Struct):
    __slots__ = ("topic_name", "partitions")
    FIELDS = (
        Field("topic_name", "string", 0, 2),
        Field("partitions", RequestPartitionData, 0, 2, array=True),
    )

    def __init__(self, topic_name: str = "", partitions: list[RequestPartitionData] | None = None) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is None else partitions


class DescribeQuorumRequest(Message):
    __slots__ = ("topics",)
    API_KEY = 55
    VERSIONS = (0, 2)
    FLEXIBLE = 0
    FIELDS = (Field("topics", RequestTopicData, 0, 2, array=True),)

    def __init__(self, topics: list[RequestTopicData] | None = None) -> None:
        self.topics = [] if topics is None else topics


class ReplicaState(Struct):
    __slots__ = (
        "replica_id",
        "replica_directory_id",
        "log_end_offset",
        "last_fetch_timestamp",
        "last_caught_up_timestamp",
    )
    FIELDS = (
        Field("replica_id", "int32", 0, 2),
        Field("replica_directory_id", "uuid", 2, 2),
        Field("log_end_offset", "int64", 0, 2),
        Field("last_fetch_timestamp", "int64", 1, 2, default=-1),
        Field("last_caught_up_timestamp", "int64", 1, 2, default=-1),
    )

    def __init__(
        self,
        replica_id: int = 0,
        replica_directory_id: bytes = ZERO_UUID,
        log_end_offset: int = 0,
        last_fetch_timestamp: int = -1,
        last_caught_up_timestamp: int = -1,
    ) -> None:
        self.replica_id = replica_id
        self.replica_directory_id = replica_directory_id
        self.log_end_offset = log_end_offset
        self.last_fetch_timestamp = last_fetch_timestamp
        self.last_caught_up_timestamp = last_caught_up_timestamp


class ResponsePartitionData(Struct):
    __slots__ = (
        "partition_index",
        "error_code",
        "error_message",
        "leader_id",
        "leader_epoch",
        "high_watermark",
        "current_voters",
        "observers",
    )
    FIELDS = (
        Field("partition_index", "int32", 0, 2),
        Field("error_code", "int16", 0, 2),
        Field("error_message", "string", 2, 2, nullable=2),
        Field("leader_id", "int32", 0, 2),
        Field("leader_epoch", "int32", 0, 2),
        Field("high_watermark", "int64", 0, 2),
        Field("current_voters", ReplicaState, 0, 2, array=True),
        Field("observers", ReplicaState, 0, 2, array=True),
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        leader_id: int = 0,
        leader_epoch: int = 0,
        high_watermark: int = 0,
        current_voters: list[ReplicaState] | None = None,
        observers: list[ReplicaState] | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.high_watermark = high_watermark
        self.current_voters = [] if current_voters is None else current_voters
        self.observers = [] if observers is None else observers


class ResponseTopicData(Struct):
    __slots__ = ("topic_name", "partitions")
    FIELDS = (
        Field("topic_name", "string", 0, 2),
        Field("partitions", ResponsePartitionData, 0, 2, array=True),
    )

    def __init__(self, topic_name: str = "", partitions: list[ResponsePartitionData] | None = None) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is None else partitions


class Listener(Struct):
    __slots__ = ("name", "host", "port")
    FIELDS = (
        Field("name", "string", 2, 2),
        Field("host", "string", 2, 2),
        Field("port", "uint16", 2, 2),
    )

    def __init__(self, name: str = "", host: str = "", port: int = 0) -> None:
        self.name = name
        self.host = host
        self.port = port


class Node(Struct):
    __slots__ = ("node_id", "listeners")
    FIELDS = (
        Field("node_id", "int32", 2, 2),
        Field("listeners", Listener, 2, 2, array=True),
    )

    def __init__(self, node_id: int = 0, listeners: list[Listener] | None = None) -> None:
        self.node_id = node_id
        self.listeners = [] if listeners is None else listeners


class DescribeQuorumResponse(Message):
    __slots__ = ("error_code", "error_message", "topics", "nodes")
    API_KEY = 55
    VERSIONS = (0, 2)
    FLEXIBLE = 0
    FIELDS = (
        Field("error_code", "int16", 0, 2),
        Field("error_message", "string", 2, 2, nullable=2),
        Field("topics", ResponseTopicData, 0, 2, array=True),
        Field("nodes", Node, 2, 2, array=True),
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        topics: list[ResponseTopicData] | None = None,
        nodes: list[Node] | None = None,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.topics = [] if topics is None else topics
        self.nodes = [] if nodes is None else nodes

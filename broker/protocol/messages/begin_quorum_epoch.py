"""Begin quorum epoch, API key 53. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import ZERO_UUID, Field, Message, Struct


class RequestPartitionData(Struct):
    __slots__ = ("partition_index", "voter_directory_id", "leader_id", "leader_epoch")
    FIELDS = (
        Field("partition_index", "int32", 0, 1),
        Field("voter_directory_id", "uuid", 1, 1),
        Field("leader_id", "int32", 0, 1),
        Field("leader_epoch", "int32", 0, 1),
    )

    def __init__(
        self,
        partition_index: int = 0,
        voter_directory_id: bytes = ZERO_UUID,
        leader_id: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.voter_directory_id = voter_directory_id
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class RequestTopicData(Struct):
    __slots__ = ("topic_name", "partitions")
    FIELDS = (
        Field("topic_name", "string", 0, 1),
        Field("partitions", RequestPartitionData, 0, 1, array=True),
    )

    def __init__(self, topic_name: str = "", partitions: list[RequestPartitionData] | None = None) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is None else partitions


class LeaderEndpoint(Struct):
    __slots__ = ("name", "host", "port")
    FIELDS = (
        Field("name", "string", 1, 1),
        Field("host", "string", 1, 1),
        Field("port", "uint16", 1, 1),
    )

    def __init__(self, name: str = "", host: str = "", port: int = 0) -> None:
        self.name = name
        self.host = host
        self.port = port


class BeginQuorumEpochRequest(Message):
    __slots__ = ("cluster_id", "voter_id", "topics", "leader_endpoints")
    API_KEY = 53
    VERSIONS = (0, 1)
    FLEXIBLE = 1
    FIELDS = (
        Field("cluster_id", "string", 0, 1, nullable=0),
        Field("voter_id", "int32", 1, 1, default=-1),
        Field("topics", RequestTopicData, 0, 1, array=True),
        Field("leader_endpoints", LeaderEndpoint, 1, 1, array=True),
    )

    def __init__(
        self,
        cluster_id: str | None = None,
        voter_id: int = -1,
        topics: list[RequestTopicData] | None = None,
        leader_endpoints: list[LeaderEndpoint] | None = None,
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.topics = [] if topics is None else topics
        self.leader_endpoints = [] if leader_endpoints is None else leader_endpoints


class ResponsePartitionData(Struct):
    __slots__ = ("partition_index", "error_code", "leader_id", "leader_epoch")
    FIELDS = (
        Field("partition_index", "int32", 0, 1),
        Field("error_code", "int16", 0, 1),
        Field("leader_id", "int32", 0, 1),
        Field("leader_epoch", "int32", 0, 1),
    )

    def __init__(
        self, partition_index: int = 0, error_code: int = 0, leader_id: int = 0, leader_epoch: int = 0
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class ResponseTopicData(Struct):
    __slots__ = ("topic_name", "partitions")
    FIELDS = (
        Field("topic_name", "string", 0, 1),
        Field("partitions", ResponsePartitionData, 0, 1, array=True),
    )

    def __init__(self, topic_name: str = "", partitions: list[ResponsePartitionData] | None = None) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is None else partitions


class NodeEndpoint(Struct):
    __slots__ = ("node_id", "host", "port")
    FIELDS = (
        Field("node_id", "int32", 1, 1),
        Field("host", "string", 1, 1),
        Field("port", "uint16", 1, 1),
    )

    def __init__(self, node_id: int = 0, host: str = "", port: int = 0) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port


class BeginQuorumEpochResponse(Message):
    __slots__ = ("error_code", "topics", "node_endpoints")
    API_KEY = 53
    VERSIONS = (0, 1)
    FLEXIBLE = 1
    FIELDS = (
        Field("error_code", "int16", 0, 1),
        Field("topics", ResponseTopicData, 0, 1, array=True),
        Field("node_endpoints", NodeEndpoint, 1, 1, array=True, tag=0),
    )

    def __init__(
        self,
        error_code: int = 0,
        topics: list[ResponseTopicData] | None = None,
        node_endpoints: list[NodeEndpoint] | None = None,
    ) -> None:
        self.error_code = error_code
        self.topics = [] if topics is None else topics
        self.node_endpoints = [] if node_endpoints is None else node_endpoints

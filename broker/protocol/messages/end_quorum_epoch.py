"""End quorum epoch, API key 54. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import ZERO_UUID, Field, Message, Struct


class ReplicaInfo(Struct):
    __slots__ = ("candidate_id", "candidate_directory_id")
    FIELDS = (
        Field("candidate_id", "int32", 1, 1),
        Field("candidate_directory_id", "uuid", 1, 1),
    )

    def __init__(self, candidate_id: int = 0, candidate_directory_id: bytes = ZERO_UUID) -> None:
        self.candidate_id = candidate_id
        self.candidate_directory_id = candidate_directory_id


class RequestPartitionData(Struct):
    __slots__ = (
        "partition_index",
        "leader_id",
        "leader_epoch",
        "preferred_successors",
        "preferred_candidates",
    )
    FIELDS = (
        Field("partition_index", "int32", 0, 1),
        Field("leader_id", "int32", 0, 1),
        Field("leader_epoch", "int32", 0, 1),
        Field("preferred_successors", "int32", 0, 0, array=True),
        Field("preferred_candidates", ReplicaInfo, 1, 1, array=True),
    )

    def __init__(
        self,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = 0,
        preferred_successors: list[int] | None = None,
        preferred_candidates: list[ReplicaInfo] | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.preferred_successors = [] if preferred_successors is None else preferred_successors
        self.preferred_candidates = [] if preferred_candidates is None else preferred_candidates


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


class EndQuorumEpochRequest(Message):
    __slots__ = ("cluster_id", "topics", "leader_endpoints")
    API_KEY = 54
    VERSIONS = (0, 1)
    FLEXIBLE = 1
    FIELDS = (
        Field("cluster_id", "string", 0, 1, nullable=0),
        Field("topics", RequestTopicData, 0, 1, array=True),
        Field("leader_endpoints", LeaderEndpoint, 1, 1, array=True),
    )

    def __init__(
        self,
        cluster_id: str | None = None,
        topics: list[RequestTopicData] | None = None,
        leader_endpoints: list[LeaderEndpoint] | None = None,
    ) -> None:
        self.cluster_id = cluster_id
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


class EndQuorumEpochResponse(Message):
    __slots__ = ("error_code", "topics", "node_endpoints")
    API_KEY = 54
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

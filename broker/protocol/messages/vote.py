"""Vote, API key 52. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import ZERO_UUID, Field, Message, Struct


class RequestPartitionData(Struct):
    __slots__ = (
        "partition_index",
        "replica_epoch",
        "replica_id",
        "replica_directory_id",
        "voter_directory_id",
        "last_offset_epoch",
        "last_offset",
        "pre_vote",
    )
    FIELDS = (
        Field("partition_index", "int32", 0, 2),
        Field("replica_epoch", "int32", 0, 2),
        Field("replica_id", "int32", 0, 2),
        Field("replica_directory_id", "uuid", 1, 2),
        Field("voter_directory_id", "uuid", 1, 2),
        Field("last_offset_epoch", "int32", 0, 2),
        Field("last_offset", "int64", 0, 2),
        Field("pre_vote", "bool", 2, 2),
    )

    def __init__(
        self,
        partition_index: int = 0,
        replica_epoch: int = 0,
        replica_id: int = 0,
        replica_directory_id: bytes = ZERO_UUID,
        voter_directory_id: bytes = ZERO_UUID,
        last_offset_epoch: int = 0,
        last_offset: int = 0,
        pre_vote: bool = False,
    ) -> None:
        self.partition_index = partition_index
        self.replica_epoch = replica_epoch
        self.replica_id = replica_id
        self.replica_directory_id = replica_directory_id
        self.voter_directory_id = voter_directory_id
        self.last_offset_epoch = last_offset_epoch
        self.last_offset = last_offset
        self.pre_vote = pre_vote


class RequestTopicData(Struct):
    __slots__ = ("topic_name", "partitions")
    FIELDS = (
        Field("topic_name", "string", 0, 2),
        Field("partitions", RequestPartitionData, 0, 2, array=True),
    )

    def __init__(self, topic_name: str = "", partitions: list[RequestPartitionData] | None = None) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is None else partitions


class VoteRequest(Message):
    __slots__ = ("cluster_id", "voter_id", "topics")
    API_KEY = 52
    VERSIONS = (0, 2)
    FLEXIBLE = 0
    FIELDS = (
        Field("cluster_id", "string", 0, 2, nullable=0),
        Field("voter_id", "int32", 1, 2, default=-1),
        Field("topics", RequestTopicData, 0, 2, array=True),
    )

    def __init__(
        self, cluster_id: str | None = None, voter_id: int = -1, topics: list[RequestTopicData] | None = None
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.topics = [] if topics is None else topics


class ResponsePartitionData(Struct):
    __slots__ = ("partition_index", "error_code", "leader_id", "leader_epoch", "vote_granted")
    FIELDS = (
        Field("partition_index", "int32", 0, 2),
        Field("error_code", "int16", 0, 2),
        Field("leader_id", "int32", 0, 2),
        Field("leader_epoch", "int32", 0, 2),
        Field("vote_granted", "bool", 0, 2),
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        leader_id: int = 0,
        leader_epoch: int = 0,
        vote_granted: bool = False,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.vote_granted = vote_granted


class ResponseTopicData(Struct):
    __slots__ = ("topic_name", "partitions")
    FIELDS = (
        Field("topic_name", "string", 0, 2),
        Field("partitions", ResponsePartitionData, 0, 2, array=True),
    )

    def __init__(self, topic_name: str = "", partitions: list[ResponsePartitionData] | None = None) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is None else partitions


class NodeEndpoint(Struct):
    __slots__ = ("node_id", "host", "port")
    FIELDS = (
        Field("node_id", "int32", 1, 2),
        Field("host", "string", 1, 2),
        Field("port", "uint16", 1, 2),
    )

    def __init__(self, node_id: int = 0, host: str = "", port: int = 0) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port


class VoteResponse(Message):
    __slots__ = ("error_code", "topics", "node_endpoints")
    API_KEY = 52
    VERSIONS = (0, 2)
    FLEXIBLE = 0
    FIELDS = (
        Field("error_code", "int16", 0, 2),
        Field("topics", ResponseTopicData, 0, 2, array=True),
        Field("node_endpoints", NodeEndpoint, 1, 2, array=True, tag=0),
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

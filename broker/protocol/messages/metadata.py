"""Metadata, API key 3. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import ZERO_UUID, Field, Message, Struct


class MetadataRequestTopic(Struct):
    __slots__ = ("topic_id", "name")
    FIELDS = (
        Field("topic_id", "uuid", 10, 13),
        Field("name", "string", 0, 13, nullable=10),
    )

    def __init__(self, topic_id: bytes = ZERO_UUID, name: str | None = None) -> None:
        self.topic_id = topic_id
        self.name = name


class MetadataRequest(Message):
    __slots__ = (
        "topics",
        "allow_auto_topic_creation",
        "include_cluster_authorized_operations",
        "include_topic_authorized_operations",
    )
    API_KEY = 3
    VERSIONS = (0, 13)
    FLEXIBLE = 9
    FIELDS = (
        Field("topics", MetadataRequestTopic, 0, 13, array=True, nullable=1),
        Field("allow_auto_topic_creation", "bool", 4, 13, default=True),
        Field("include_cluster_authorized_operations", "bool", 8, 10),
        Field("include_topic_authorized_operations", "bool", 8, 13),
    )

    def __init__(
        self,
        topics: list[MetadataRequestTopic] | None = None,
        allow_auto_topic_creation: bool = True,
        include_cluster_authorized_operations: bool = False,
        include_topic_authorized_operations: bool = False,
    ) -> None:
        self.topics = topics
        self.allow_auto_topic_creation = allow_auto_topic_creation
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.include_topic_authorized_operations = include_topic_authorized_operations


class MetadataResponseBroker(Struct):
    __slots__ = ("node_id", "host", "port", "rack")
    FIELDS = (
        Field("node_id", "int32", 0, 13),
        Field("host", "string", 0, 13),
        Field("port", "int32", 0, 13),
        Field("rack", "string", 1, 13, nullable=1),
    )

    def __init__(self, node_id: int = 0, host: str = "", port: int = 0, rack: str | None = None) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class MetadataResponsePartition(Struct):
    __slots__ = (
        "error_code",
        "partition_index",
        "leader_id",
        "leader_epoch",
        "replica_nodes",
        "isr_nodes",
        "offline_replicas",
    )
    FIELDS = (
        Field("error_code", "int16", 0, 13),
        Field("partition_index", "int32", 0, 13),
        Field("leader_id", "int32", 0, 13),
        Field("leader_epoch", "int32", 7, 13, default=-1),
        Field("replica_nodes", "int32", 0, 13, array=True),
        Field("isr_nodes", "int32", 0, 13, array=True),
        Field("offline_replicas", "int32", 5, 13, array=True),
    )

    def __init__(
        self,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: list[int] | None = None,
        isr_nodes: list[int] | None = None,
        offline_replicas: list[int] | None = None,
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes = [] if replica_nodes is None else replica_nodes
        self.isr_nodes = [] if isr_nodes is None else isr_nodes
        self.offline_replicas = [] if offline_replicas is None else offline_replicas


class MetadataResponseTopic(Struct):
    __slots__ = ("error_code", "name", "topic_id", "is_internal", "partitions", "topic_authorized_operations")
    FIELDS = (
        Field("error_code", "int16", 0, 13),
        Field("name", "string", 0, 13, nullable=12),
        Field("topic_id", "uuid", 10, 13),
        Field("is_internal", "bool", 1, 13),
        Field("partitions", MetadataResponsePartition, 0, 13, array=True),
        Field("topic_authorized_operations", "int32", 8, 13, default=-2147483648),
    )

    def __init__(
        self,
        error_code: int = 0,
        name: str | None = None,
        topic_id: bytes = ZERO_UUID,
        is_internal: bool = False,
        partitions: list[MetadataResponsePartition] | None = None,
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = [] if partitions is None else partitions
        self.topic_authorized_operations = topic_authorized_operations


class MetadataResponse(Message):
    __slots__ = (
        "throttle_time_ms",
        "brokers",
        "cluster_id",
        "controller_id",
        "topics",
        "cluster_authorized_operations",
        "error_code",
    )
    API_KEY = 3
    VERSIONS = (0, 13)
    FLEXIBLE = 9
    FIELDS = (
        Field("throttle_time_ms", "int32", 3, 13),
        Field("brokers", MetadataResponseBroker, 0, 13, array=True),
        Field("cluster_id", "string", 2, 13, nullable=2),
        Field("controller_id", "int32", 1, 13, default=-1),
        Field("topics", MetadataResponseTopic, 0, 13, array=True),
        Field("cluster_authorized_operations", "int32", 8, 10, default=-2147483648),
        Field("error_code", "int16", 13, 13),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        brokers: list[MetadataResponseBroker] | None = None,
        cluster_id: str | None = None,
        controller_id: int = -1,
        topics: list[MetadataResponseTopic] | None = None,
        cluster_authorized_operations: int = -2147483648,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.brokers = [] if brokers is None else brokers
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.topics = [] if topics is None else topics
        self.cluster_authorized_operations = cluster_authorized_operations
        self.error_code = error_code

"""Metadata, API key 3. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class MetadataRequestTopic(Struct):
    topic_id: bytes = field("uuid", 10, 13)
    name: str | None = field("string", 0, 13, nullable=10)


class MetadataRequest(Message, api_key=3, versions=(0, 13), flexible=9):
    topics: list[MetadataRequestTopic] | None = field(MetadataRequestTopic, 0, 13, array=True, nullable=1)
    allow_auto_topic_creation: bool = field("bool", 4, 13, default=True)
    include_cluster_authorized_operations: bool = field("bool", 8, 10)
    include_topic_authorized_operations: bool = field("bool", 8, 13)


class MetadataResponseBroker(Struct):
    node_id: int = field("int32", 0, 13)
    host: str = field("string", 0, 13)
    port: int = field("int32", 0, 13)
    rack: str | None = field("string", 1, 13, nullable=1)


class MetadataResponsePartition(Struct):
    error_code: int = field("int16", 0, 13)
    partition_index: int = field("int32", 0, 13)
    leader_id: int = field("int32", 0, 13)
    leader_epoch: int = field("int32", 7, 13, default=-1)
    replica_nodes: list[int] = field("int32", 0, 13, array=True)
    isr_nodes: list[int] = field("int32", 0, 13, array=True)
    offline_replicas: list[int] = field("int32", 5, 13, array=True)


class MetadataResponseTopic(Struct):
    error_code: int = field("int16", 0, 13)
    name: str | None = field("string", 0, 13, nullable=12)
    topic_id: bytes = field("uuid", 10, 13)
    is_internal: bool = field("bool", 1, 13)
    partitions: list[MetadataResponsePartition] = field(MetadataResponsePartition, 0, 13, array=True)
    topic_authorized_operations: int = field("int32", 8, 13, default=-2147483648)


class MetadataResponse(Message, api_key=3, versions=(0, 13), flexible=9):
    throttle_time_ms: int = field("int32", 3, 13)
    brokers: list[MetadataResponseBroker] = field(MetadataResponseBroker, 0, 13, array=True)
    cluster_id: str | None = field("string", 2, 13, nullable=2)
    controller_id: int = field("int32", 1, 13, default=-1)
    topics: list[MetadataResponseTopic] = field(MetadataResponseTopic, 0, 13, array=True)
    cluster_authorized_operations: int = field("int32", 8, 10, default=-2147483648)
    error_code: int = field("int16", 13, 13)

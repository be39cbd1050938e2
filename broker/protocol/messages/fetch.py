"""Fetch, API key 1. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import ZERO_UUID, Field, Message, Records, Struct


class FetchPartition(Struct):
    __slots__ = (
        "partition",
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "log_start_offset",
        "partition_max_bytes",
        "replica_directory_id",
        "high_watermark",
    )
    FIELDS = (
        Field("partition", "int32", 4, 18),
        Field("current_leader_epoch", "int32", 9, 18, default=-1),
        Field("fetch_offset", "int64", 4, 18),
        Field("last_fetched_epoch", "int32", 12, 18, default=-1),
        Field("log_start_offset", "int64", 5, 18, default=-1),
        Field("partition_max_bytes", "int32", 4, 18),
        Field("replica_directory_id", "uuid", 17, 18, tag=0),
        Field("high_watermark", "int64", 18, 18, tag=1, default=9223372036854775807),
    )

    def __init__(
        self,
        partition: int = 0,
        current_leader_epoch: int = -1,
        fetch_offset: int = 0,
        last_fetched_epoch: int = -1,
        log_start_offset: int = -1,
        partition_max_bytes: int = 0,
        replica_directory_id: bytes = ZERO_UUID,
        high_watermark: int = 9223372036854775807,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.partition_max_bytes = partition_max_bytes
        self.replica_directory_id = replica_directory_id
        self.high_watermark = high_watermark


class FetchTopic(Struct):
    __slots__ = ("topic", "topic_id", "partitions")
    FIELDS = (
        Field("topic", "string", 4, 12),
        Field("topic_id", "uuid", 13, 18),
        Field("partitions", FetchPartition, 4, 18, array=True),
    )

    def __init__(
        self, topic: str = "", topic_id: bytes = ZERO_UUID, partitions: list[FetchPartition] | None = None
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions


class ForgottenTopic(Struct):
    __slots__ = ("topic", "topic_id", "partitions")
    FIELDS = (
        Field("topic", "string", 7, 12),
        Field("topic_id", "uuid", 13, 18),
        Field("partitions", "int32", 7, 18, array=True),
    )

    def __init__(
        self, topic: str = "", topic_id: bytes = ZERO_UUID, partitions: list[int] | None = None
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions


class ReplicaState(Struct):
    __slots__ = ("replica_id", "replica_epoch")
    FIELDS = (
        Field("replica_id", "int32", 15, 18, default=-1),
        Field("replica_epoch", "int64", 15, 18, default=-1),
    )

    def __init__(self, replica_id: int = -1, replica_epoch: int = -1) -> None:
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch


class FetchRequest(Message):
    __slots__ = (
        "cluster_id",
        "replica_id",
        "replica_state",
        "max_wait_ms",
        "min_bytes",
        "max_bytes",
        "isolation_level",
        "session_id",
        "session_epoch",
        "topics",
        "forgotten_topics_data",
        "rack_id",
    )
    API_KEY = 1
    VERSIONS = (4, 18)
    FLEXIBLE = 12
    FIELDS = (
        Field("cluster_id", "string", 12, 18, nullable=12, tag=0),
        Field("replica_id", "int32", 4, 14, default=-1),
        Field("replica_state", ReplicaState, 15, 18, tag=1),
        Field("max_wait_ms", "int32", 4, 18),
        Field("min_bytes", "int32", 4, 18),
        Field("max_bytes", "int32", 4, 18, default=2147483647),
        Field("isolation_level", "int8", 4, 18),
        Field("session_id", "int32", 7, 18),
        Field("session_epoch", "int32", 7, 18, default=-1),
        Field("topics", FetchTopic, 4, 18, array=True),
        Field("forgotten_topics_data", ForgottenTopic, 7, 18, array=True),
        Field("rack_id", "string", 11, 18),
    )

    def __init__(
        self,
        cluster_id: str | None = None,
        replica_id: int = -1,
        replica_state: ReplicaState | None = None,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        isolation_level: int = 0,
        session_id: int = 0,
        session_epoch: int = -1,
        topics: list[FetchTopic] | None = None,
        forgotten_topics_data: list[ForgottenTopic] | None = None,
        rack_id: str = "",
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.replica_state = replica_state
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics = [] if topics is None else topics
        self.forgotten_topics_data = [] if forgotten_topics_data is None else forgotten_topics_data
        self.rack_id = rack_id


class AbortedTransaction(Struct):
    __slots__ = ("producer_id", "first_offset")
    FIELDS = (
        Field("producer_id", "int64", 4, 18),
        Field("first_offset", "int64", 4, 18),
    )

    def __init__(self, producer_id: int = 0, first_offset: int = 0) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset


class EpochEndOffset(Struct):
    __slots__ = ("epoch", "end_offset")
    FIELDS = (
        Field("epoch", "int32", 12, 18, default=-1),
        Field("end_offset", "int64", 12, 18, default=-1),
    )

    def __init__(self, epoch: int = -1, end_offset: int = -1) -> None:
        self.epoch = epoch
        self.end_offset = end_offset


class LeaderIdAndEpoch(Struct):
    __slots__ = ("leader_id", "leader_epoch")
    FIELDS = (
        Field("leader_id", "int32", 12, 18, default=-1),
        Field("leader_epoch", "int32", 12, 18, default=-1),
    )

    def __init__(self, leader_id: int = -1, leader_epoch: int = -1) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class SnapshotId(Struct):
    __slots__ = ("end_offset", "epoch")
    FIELDS = (
        Field("end_offset", "int64", 12, 18, default=-1),
        Field("epoch", "int32", 12, 18, default=-1),
    )

    def __init__(self, end_offset: int = -1, epoch: int = -1) -> None:
        self.end_offset = end_offset
        self.epoch = epoch


class PartitionData(Struct):
    __slots__ = (
        "partition_index",
        "error_code",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "diverging_epoch",
        "current_leader",
        "snapshot_id",
        "aborted_transactions",
        "preferred_read_replica",
        "records",
    )
    FIELDS = (
        Field("partition_index", "int32", 4, 18),
        Field("error_code", "int16", 4, 18),
        Field("high_watermark", "int64", 4, 18),
        Field("last_stable_offset", "int64", 4, 18, default=-1),
        Field("log_start_offset", "int64", 5, 18, default=-1),
        Field("diverging_epoch", EpochEndOffset, 12, 18, tag=0),
        Field("current_leader", LeaderIdAndEpoch, 12, 18, tag=1),
        Field("snapshot_id", SnapshotId, 12, 18, tag=2),
        Field("aborted_transactions", AbortedTransaction, 4, 18, array=True, nullable=4),
        Field("preferred_read_replica", "int32", 11, 18, default=-1),
        Field("records", "records", 4, 18, nullable=4),
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        high_watermark: int = 0,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        diverging_epoch: EpochEndOffset | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
        snapshot_id: SnapshotId | None = None,
        aborted_transactions: list[AbortedTransaction] | None = None,
        preferred_read_replica: int = -1,
        records: Records | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.diverging_epoch = diverging_epoch
        self.current_leader = current_leader
        self.snapshot_id = snapshot_id
        self.aborted_transactions = aborted_transactions
        self.preferred_read_replica = preferred_read_replica
        self.records = records


class FetchableTopicResponse(Struct):
    __slots__ = ("topic", "topic_id", "partitions")
    FIELDS = (
        Field("topic", "string", 4, 12),
        Field("topic_id", "uuid", 13, 18),
        Field("partitions", PartitionData, 4, 18, array=True),
    )

    def __init__(
        self, topic: str = "", topic_id: bytes = ZERO_UUID, partitions: list[PartitionData] | None = None
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions


class NodeEndpoint(Struct):
    __slots__ = ("node_id", "host", "port", "rack")
    FIELDS = (
        Field("node_id", "int32", 16, 18),
        Field("host", "string", 16, 18),
        Field("port", "int32", 16, 18),
        Field("rack", "string", 16, 18, nullable=16),
    )

    def __init__(self, node_id: int = 0, host: str = "", port: int = 0, rack: str | None = None) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class FetchResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "session_id", "responses", "node_endpoints")
    API_KEY = 1
    VERSIONS = (4, 18)
    FLEXIBLE = 12
    FIELDS = (
        Field("throttle_time_ms", "int32", 4, 18),
        Field("error_code", "int16", 7, 18),
        Field("session_id", "int32", 7, 18),
        Field("responses", FetchableTopicResponse, 4, 18, array=True),
        Field("node_endpoints", NodeEndpoint, 16, 18, array=True, tag=0),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        session_id: int = 0,
        responses: list[FetchableTopicResponse] | None = None,
        node_endpoints: list[NodeEndpoint] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.session_id = session_id
        self.responses = [] if responses is None else responses
        self.node_endpoints = [] if node_endpoints is None else node_endpoints

"""Fetch snapshot, API key 59. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import ZERO_UUID, Field, Message, Records, Struct


class SnapshotId(Struct):
    __slots__ = ("end_offset", "epoch")
    FIELDS = (
        Field("end_offset", "int64", 0, 1),
        Field("epoch", "int32", 0, 1),
    )

    def __init__(self, end_offset: int = 0, epoch: int = 0) -> None:
        self.end_offset = end_offset
        self.epoch = epoch


class RequestPartitionSnapshot(Struct):
    __slots__ = ("partition", "current_leader_epoch", "snapshot_id", "position", "replica_directory_id")
    FIELDS = (
        Field("partition", "int32", 0, 1),
        Field("current_leader_epoch", "int32", 0, 1),
        Field("snapshot_id", SnapshotId, 0, 1),
        Field("position", "int64", 0, 1),
        Field("replica_directory_id", "uuid", 1, 1, tag=0),
    )

    def __init__(
        self,
        partition: int = 0,
        current_leader_epoch: int = 0,
        snapshot_id: SnapshotId | None = None,
        position: int = 0,
        replica_directory_id: bytes = ZERO_UUID,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.snapshot_id = SnapshotId() if snapshot_id is None else snapshot_id
        self.position = position
        self.replica_directory_id = replica_directory_id


class RequestTopicSnapshot(Struct):
    __slots__ = ("name", "partitions")
    FIELDS = (
        Field("name", "string", 0, 1),
        Field("partitions", RequestPartitionSnapshot, 0, 1, array=True),
    )

    def __init__(self, name: str = "", partitions: list[RequestPartitionSnapshot] | None = None) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class FetchSnapshotRequest(Message):
    __slots__ = ("cluster_id", "replica_id", "max_bytes", "topics")
    API_KEY = 59
    VERSIONS = (0, 1)
    FLEXIBLE = 0
    FIELDS = (
        Field("cluster_id", "string", 0, 1, nullable=0, tag=0),
        Field("replica_id", "int32", 0, 1, default=-1),
        Field("max_bytes", "int32", 0, 1, default=2147483647),
        Field("topics", RequestTopicSnapshot, 0, 1, array=True),
    )

    def __init__(
        self,
        cluster_id: str | None = None,
        replica_id: int = -1,
        max_bytes: int = 2147483647,
        topics: list[RequestTopicSnapshot] | None = None,
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.max_bytes = max_bytes
        self.topics = [] if topics is None else topics


class LeaderIdAndEpoch(Struct):
    __slots__ = ("leader_id", "leader_epoch")
    FIELDS = (
        Field("leader_id", "int32", 0, 1),
        Field("leader_epoch", "int32", 0, 1),
    )

    def __init__(self, leader_id: int = 0, leader_epoch: int = 0) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class ResponsePartitionSnapshot(Struct):
    __slots__ = (
        "index",
        "error_code",
        "snapshot_id",
        "current_leader",
        "size",
        "position",
        "unaligned_records",
    )
    FIELDS = (
        Field("index", "int32", 0, 1),
        Field("error_code", "int16", 0, 1),
        Field("snapshot_id", SnapshotId, 0, 1),
        Field("current_leader", LeaderIdAndEpoch, 0, 1, tag=0),
        Field("size", "int64", 0, 1),
        Field("position", "int64", 0, 1),
        Field("unaligned_records", "records", 0, 1),
    )

    def __init__(
        self,
        index: int = 0,
        error_code: int = 0,
        snapshot_id: SnapshotId | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
        size: int = 0,
        position: int = 0,
        unaligned_records: Records = b"",
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.snapshot_id = SnapshotId() if snapshot_id is None else snapshot_id
        self.current_leader = current_leader
        self.size = size
        self.position = position
        self.unaligned_records = unaligned_records


class ResponseTopicSnapshot(Struct):
    __slots__ = ("name", "partitions")
    FIELDS = (
        Field("name", "string", 0, 1),
        Field("partitions", ResponsePartitionSnapshot, 0, 1, array=True),
    )

    def __init__(self, name: str = "", partitions: list[ResponsePartitionSnapshot] | None = None) -> None:
        self.name = name
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


class FetchSnapshotResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "topics", "node_endpoints")
    API_KEY = 59
    VERSIONS = (0, 1)
    FLEXIBLE = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", 0, 1),
        Field("error_code", "int16", 0, 1),
        Field("topics", ResponseTopicSnapshot, 0, 1, array=True),
        Field("node_endpoints", NodeEndpoint, 1, 1, array=True, tag=0),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        topics: list[ResponseTopicSnapshot] | None = None,
        node_endpoints: list[NodeEndpoint] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.topics = [] if topics is None else topics
        self.node_endpoints = [] if node_endpoints is None else node_endpoints

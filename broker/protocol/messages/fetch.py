"""Fetch, API key 1. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Records, Struct, field


class FetchPartition(Struct):
    partition: int = field("int32", 4, 18)
    current_leader_epoch: int = field("int32", 9, 18, default=-1)
    fetch_offset: int = field("int64", 4, 18)
    last_fetched_epoch: int = field("int32", 12, 18, default=-1)
    log_start_offset: int = field("int64", 5, 18, default=-1)
    partition_max_bytes: int = field("int32", 4, 18)
    replica_directory_id: bytes = field("uuid", 17, 18, tag=0)
    high_watermark: int = field("int64", 18, 18, tag=1, default=9223372036854775807)


class FetchTopic(Struct):
    topic: str = field("string", 4, 12)
    topic_id: bytes = field("uuid", 13, 18)
    partitions: list[FetchPartition] = field(FetchPartition, 4, 18, array=True)


class ForgottenTopic(Struct):
    topic: str = field("string", 7, 12)
    topic_id: bytes = field("uuid", 13, 18)
    partitions: list[int] = field("int32", 7, 18, array=True)


class ReplicaState(Struct):
    replica_id: int = field("int32", 15, 18, default=-1)
    replica_epoch: int = field("int64", 15, 18, default=-1)


class FetchRequest(Message, api_key=1, versions=(4, 18), flexible=12):
    cluster_id: str | None = field("string", 12, 18, nullable=12, tag=0)
    replica_id: int = field("int32", 4, 14, default=-1)
    replica_state: ReplicaState | None = field(ReplicaState, 15, 18, tag=1)
    max_wait_ms: int = field("int32", 4, 18)
    min_bytes: int = field("int32", 4, 18)
    max_bytes: int = field("int32", 4, 18, default=2147483647)
    isolation_level: int = field("int8", 4, 18)
    session_id: int = field("int32", 7, 18)
    session_epoch: int = field("int32", 7, 18, default=-1)
    topics: list[FetchTopic] = field(FetchTopic, 4, 18, array=True)
    forgotten_topics_data: list[ForgottenTopic] = field(ForgottenTopic, 7, 18, array=True)
    rack_id: str = field("string", 11, 18)


class AbortedTransaction(Struct):
    producer_id: int = field("int64", 4, 18)
    first_offset: int = field("int64", 4, 18)


class EpochEndOffset(Struct):
    epoch: int = field("int32", 12, 18, default=-1)
    end_offset: int = field("int64", 12, 18, default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: int = field("int32", 12, 18, default=-1)
    leader_epoch: int = field("int32", 12, 18, default=-1)


class SnapshotId(Struct):
    end_offset: int = field("int64", 12, 18, default=-1)
    epoch: int = field("int32", 12, 18, default=-1)


class PartitionData(Struct):
    partition_index: int = field("int32", 4, 18)
    error_code: int = field("int16", 4, 18)
    high_watermark: int = field("int64", 4, 18)
    last_stable_offset: int = field("int64", 4, 18, default=-1)
    log_start_offset: int = field("int64", 5, 18, default=-1)
    diverging_epoch: EpochEndOffset | None = field(EpochEndOffset, 12, 18, tag=0)
    current_leader: LeaderIdAndEpoch | None = field(LeaderIdAndEpoch, 12, 18, tag=1)
    snapshot_id: SnapshotId | None = field(SnapshotId, 12, 18, tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field(
        AbortedTransaction, 4, 18, array=True, nullable=4
    )
    preferred_read_replica: int = field("int32", 11, 18, default=-1)
    records: Records | None = field("records", 4, 18, nullable=4)


class FetchableTopicResponse(Struct):
    topic: str = field("string", 4, 12)
    topic_id: bytes = field("uuid", 13, 18)
    partitions: list[PartitionData] = field(PartitionData, 4, 18, array=True)


class NodeEndpoint(Struct):
    node_id: int = field("int32", 16, 18)
    host: str = field("string", 16, 18)
    port: int = field("int32", 16, 18)
    rack: str | None = field("string", 16, 18, nullable=16)


class FetchResponse(Message, api_key=1, versions=(4, 18), flexible=12):
    throttle_time_ms: int = field("int32", 4, 18)
    error_code: int = field("int16", 7, 18)
    session_id: int = field("int32", 7, 18)
    responses: list[FetchableTopicResponse] = field(FetchableTopicResponse, 4, 18, array=True)
    node_endpoints: list[NodeEndpoint] = field(NodeEndpoint, 16, 18, array=True, tag=0)
